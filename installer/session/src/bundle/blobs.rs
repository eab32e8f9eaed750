//! Blobs for the hosts, read directly from the bundle: nothing is unpacked. None ends well without the manifest's digest,
//! whatever byte it was read from.

use std::io::{self, Read};

use async_trait::async_trait;
use kubexm_archive::Bundle;
use kubexm_engine::link::BlobSource;
use kubexm_spec::Digest;
use tokio::io::{AsyncRead, AsyncWriteExt};

/// Buffer in bytes between the thread that reads and the connection that sends.
const PIPE: usize = 2 << 20;
/// Bytes for each read.
const CHUNK: usize = 256 << 10;

/// The blobs of a bundle.
#[derive(Clone, Debug)]
pub struct BundleBlobs(pub Bundle);

#[async_trait]
impl BlobSource for BundleBlobs {
    async fn open(&self, digest: Digest, offset: u64) -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        let bundle = self.0.clone();
        let reader = tokio::task::spawn_blocking(move || bundle.blob_from(&digest, offset)).await;
        let reader = reader.map_err(io::Error::other)?.map_err(io::Error::other)?;
        let (ours, theirs) = tokio::io::duplex(PIPE);
        tokio::spawn(pump(reader, ours, digest));
        Ok(Box::new(theirs))
    }
}

/// Reads on blocking threads. An error ends the stream early; the receiver reports that with the blob's name, and the
/// log has the reason.
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
            // The receiver has closed the stream.
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

/// For plans without a bundle, which must not request a blob.
#[derive(Clone, Copy, Debug)]
pub struct NoBlobs;

#[async_trait]
impl BlobSource for NoBlobs {
    async fn open(&self, digest: Digest, _: u64) -> std::io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        Err(std::io::Error::new(std::io::ErrorKind::NotFound, format!("no bundle was given to read {digest} from")))
    }
}
