//! Sends blobs to a node's content store on a separate channel; interrupted transfers are resumed.

use std::collections::BTreeMap;
use std::time::Duration;

use kubexm_spec::Digest;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{mpsc, oneshot};

use super::channel::{AgentChannel, ChannelError, unexpected};
use crate::link::wire::{Request, Response, frame};
use crate::link::{BlobSource, DeliverProgress, answers};

/// Bytes of a data frame.
const CHUNK: usize = 256 << 10;
/// Time limit for the node's answer: it may have to hash a large part file, or sync a large blob.
const ANSWER: Duration = Duration::from_secs(300);

/// Why a delivery ended early.
#[derive(Debug)]
pub enum Interrupted {
    /// The channel ended: continue on a new one.
    Lost {
        /// Bytes that the node was missing when this channel started; none if it ended before that was known.
        missing: Option<u64>,
    },
    /// A blob arrived with another digest.
    Corrupt {
        digest: Digest,
        /// The digest of the received bytes.
        found: Digest,
    },
    /// The node cannot store it.
    Node(String),
    /// It cannot be read on the controller.
    Source { digest: Digest, reason: String },
    /// The agent does not understand the request.
    Protocol(String),
}

/// Asks what is missing and sends it. Answers arrive while the next blobs are sent.
pub async fn deliver(
    channel: &AgentChannel,
    blobs: &[(Digest, u64)],
    source: &dyn BlobSource,
    progress: DeliverProgress<'_>,
) -> Result<(), Interrupted> {
    let lost = |error| from_channel(error, None);
    let sizes: BTreeMap<Digest, u64> = blobs.iter().copied().collect();
    let question = Request::StoreMissing { blobs: sizes.clone() };
    let answered = tokio::time::timeout(ANSWER, channel.ask(&question)).await;
    let have = match answered.unwrap_or(Err(ChannelError::Lost)).map_err(lost)? {
        Response::Missing { have } => have,
        Response::Failed { text } => return Err(Interrupted::Node(answers::error(text))),
        other => return Err(lost(unexpected(&other))),
    };
    let missing = have.iter().map(|(digest, have)| sizes.get(digest).copied().unwrap_or(0).saturating_sub(*have)).sum();
    let cut = |error| from_channel(error, Some(missing));
    for (digest, size) in blobs.iter().filter(|(digest, _)| !have.contains_key(digest)) {
        progress(*digest, *size, *size);
    }
    let (sender, mut answers) = mpsc::unbounded_channel();
    let send = async {
        // In the order of the caller, each once.
        let mut have = have.clone();
        for (digest, size) in blobs {
            let Some(offset) = have.remove(digest) else { continue };
            let reader = source.open(*digest, offset).await;
            let mut reader = reader.map_err(|error| unreadable(*digest, &error.to_string()))?;
            let put = Request::StorePut { digest: *digest, size: *size, offset };
            let answer = channel.send(&put).await.map_err(cut)?;
            // The receiver lives as long as this sender.
            let _ = sender.send((*digest, *size, answer));
            let mut done = offset;
            while done < *size {
                let frame = next_frame(&mut reader, *digest, *size - done).await?;
                let length = frame.len() as u64 - 5;
                channel.raw(frame).await.map_err(cut)?;
                done += length;
                progress(*digest, done, *size);
            }
        }
        drop(sender);
        Ok(())
    };
    let receive = async {
        while let Some((digest, size, answer)) = answers.recv().await {
            match wait(answer).await.map_err(cut)? {
                Response::Stored => progress(digest, size, size),
                Response::Corrupt { found } => return Err(Interrupted::Corrupt { digest, found }),
                Response::Failed { text } => return Err(Interrupted::Node(answers::error(text))),
                other => return Err(cut(unexpected(&other))),
            }
        }
        Ok(())
    };
    tokio::try_join!(send, receive).map(drop)
}

/// The answer to a put comes after all its bytes, which may take long on a slow line: only keepalives limit the time.
async fn wait(answer: oneshot::Receiver<Response>) -> Result<Response, ChannelError> {
    match answer.await {
        Ok(Response::NotUnderstood { reason }) => Err(ChannelError::NotUnderstood(answers::error(reason))),
        Ok(answer) => Ok(answer),
        Err(_) => Err(ChannelError::Lost),
    }
}

/// A complete data frame with the next bytes of a blob.
async fn next_frame(reader: &mut (impl AsyncRead + Unpin), digest: Digest, left: u64) -> Result<Vec<u8>, Interrupted> {
    let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
    let mut frame = Vec::with_capacity(5 + most);
    frame.extend_from_slice(&[0; 5]);
    let read = reader.take(most as u64).read_to_end(&mut frame).await;
    let length = read.map_err(|error| unreadable(digest, &error.to_string()))?;
    if length == 0 {
        return Err(unreadable(digest, &format!("it ends {left} bytes too early")));
    }
    let header = frame::data_header(length).map_err(|error| Interrupted::Protocol(error.to_string()))?;
    frame.splice(..5, header);
    Ok(frame)
}

fn unreadable(digest: Digest, reason: &str) -> Interrupted {
    Interrupted::Source { digest, reason: reason.to_owned() }
}

fn from_channel(error: ChannelError, missing: Option<u64>) -> Interrupted {
    match error {
        ChannelError::Lost => Interrupted::Lost { missing },
        error => Interrupted::Protocol(error.to_string()),
    }
}
