//! Blobs for the hosts, read from the bundle where they lie: nothing is unpacked.

use std::io::{self, Read};

use async_trait::async_trait;
use kubexm_archive::Bundle;
use kubexm_engine::link::BlobSource;
use kubexm_spec::Digest;
use tokio::io::{AsyncRead, AsyncWriteExt};

/// Bytes that are on their way between the thread that reads and the connection that sends.
const PIPE: usize = 2 << 20;
/// Bytes of one read.
const CHUNK: usize = 256 << 10;

/// The blobs of a bundle.
#[derive(Clone, Debug)]
pub struct BundleBlobs(pub Bundle);

#[async_trait]
impl BlobSource for BundleBlobs {
    async fn open(&self, digest: Digest, offset: u64) -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        let bundle = self.0.clone();
        let reader = tokio::task::spawn_blocking(move || bundle.blob(&digest, offset)).await;
        let reader = reader.map_err(io::Error::other)?.map_err(io::Error::other)?;
        let (ours, theirs) = tokio::io::duplex(PIPE);
        tokio::spawn(pump(reader, ours, digest));
        Ok(Box::new(theirs))
    }
}

/// Reads on blocking threads. An error ends the stream too early, which the receiver reports with the blob's name;
/// the reason goes to the log.
async fn pump<R: Read + Send + 'static>(mut reader: R, mut pipe: tokio::io::DuplexStream, digest: Digest) {
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; CHUNK];
            let read = reader.read(&mut bytes);
            (reader, bytes, read)
        });
        let Ok((back, bytes, read)) = read.await else { return };
        reader = back;
        match read {
            Ok(0) => return,
            // Nobody reads any more.
            Ok(length) => match pipe.write_all(&bytes[..length]).await {
                Ok(()) => {}
                Err(_) => return,
            },
            Err(error) => {
                tracing::error!(%digest, %error, "the bundle cannot be read");
                return;
            }
        }
    }
}

/// Where no bundle is: a plan that asks for a blob is none that needs no bundle.
#[derive(Clone, Copy, Debug)]
pub struct NoBlobs;

#[async_trait]
impl BlobSource for NoBlobs {
    async fn open(&self, digest: Digest, _: u64) -> std::io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        Err(std::io::Error::new(std::io::ErrorKind::NotFound, format!("no bundle was given to read {digest} from")))
    }
}
