//! The agent's second mode: receives blobs on a separate channel and writes them to the node's content store.
//!
//! Bytes are hashed while they are written; a blob gets its name only when it is complete, verified and synced. An
//! interrupted transfer leaves a part file, which the next channel continues.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use kubexm_spec::{Digest, error_chain};
use kubexm_transport::Store;
use kubexm_transport::partial::Partial;

use super::Work;
use super::channel::{AgentError, Out, hello, next_frame, not_here, read_frames};
use super::lock::Presence;
use crate::clock::unix_ms;
use crate::link::wire::{Frame, Request, RequestMessage, Response, WireError, frame};

/// A bundle on a slow USB stick may pause before the next bytes arrive.
const SILENCE: Duration = Duration::from_secs(300);
/// How long the writer of an interrupted channel may take to notice.
const PATIENCE: Duration = Duration::from_secs(20);

/// Part files of this channel, hashed once and locked until their blob is complete.
type Partials = BTreeMap<Digest, Partial>;

/// A blob that is being received.
struct Put {
    id: u64,
    digest: Digest,
    size: u64,
    /// Bytes that are still to be received.
    remaining: u64,
    /// None after a failure that was reported: the remaining bytes are discarded.
    partial: Option<Partial>,
}

/// Receives blobs until the controller says `Bye` or the channel closes.
pub fn serve_store(
    stdin: impl Read + Send + 'static,
    stdout: impl Write + Send + 'static,
    work: impl Work,
) -> Result<(), AgentError> {
    let work = &work;
    let out = Out::new(stdout)?;
    let _present = Presence::take(&work.present_path());
    let frames = read_frames(stdin)?;
    let mut partials = Partials::new();
    let mut coming: Option<Put> = None;
    while let Some(frame) = next_frame(&frames, SILENCE)? {
        match frame {
            Frame::Data(bytes) => coming.as_mut().ok_or(WireError::Kind(1))?.take(&bytes, &out)?,
            Frame::Message(body) => {
                let RequestMessage { id, ask } = frame::parse(&body)?;
                match ask {
                    // Heartbeats arrive between data frames too.
                    Request::Ping => out.answer(id, Response::Pong { clock_ms: unix_ms() }),
                    _ if coming.is_some() => return Err(WireError::Kind(0).into()),
                    Request::Hello { protocol, .. } => out.answer(id, hello(protocol)),
                    Request::StoreMissing { blobs } => out.answer(id, open_partials(work, &blobs, &mut partials)),
                    Request::StorePut { digest, size, offset } => {
                        let begun = begin(work, &mut partials, digest, offset);
                        let partial = begun.map_err(|text| out.answer(id, Response::Failed { text })).ok();
                        coming = Some(Put { id, digest, size, remaining: size.saturating_sub(offset), partial });
                    }
                    Request::Bye => {
                        out.answer(id, Response::Bye);
                        return Ok(());
                    }
                    _ => out.answer(id, not_here("a store channel accepts blobs only")),
                }
            }
        }
        if let Some(put) = coming.take_if(|put| put.remaining == 0) {
            put.finish(&out, work);
        }
    }
    Ok(())
}

impl Put {
    fn take(&mut self, bytes: &[u8], out: &Out) -> Result<(), WireError> {
        let length = bytes.len() as u64;
        self.remaining = self.remaining.checked_sub(length).ok_or(WireError::TooLong {
            length: bytes.len(),
            most: usize::try_from(self.remaining).unwrap_or(usize::MAX),
        })?;
        if let Some(partial) = &mut self.partial
            && let Err(error) = partial.write(bytes, Some(self.size))
        {
            self.partial = None;
            out.answer(self.id, Response::Failed { text: error_chain(&error) });
        }
        Ok(())
    }

    fn finish(self, out: &Out, work: &impl Work) {
        let Some(partial) = self.partial else { return };
        let found = partial.digest();
        let right = found == self.digest;
        let answer = if right {
            stored(&work.store_path(), partial).map(|Stored| Response::Stored)
        } else {
            partial.discard().map(|()| Response::Corrupt { found }).map_err(|error| error_chain(&error))
        };
        out.answer(self.id, answer.unwrap_or_else(|text| Response::Failed { text }));
    }
}

/// A blob that is on disk under its name.
struct Stored;

fn stored(store: &Path, partial: Partial) -> Result<Stored, String> {
    let named = || partial.commit().and_then(|_| Store::open(store)?.sync_names());
    named().map(|()| Stored).map_err(|error| error_chain(&error))
}

fn begin(work: &impl Work, partials: &mut Partials, digest: Digest, offset: u64) -> Result<Partial, String> {
    let partial = match partials.remove(&digest) {
        Some(partial) => partial,
        None => hold(&open(work)?, &digest)?,
    };
    if partial.length() == offset {
        Ok(partial)
    } else {
        Err(format!(
            "the node has {} bytes of blob {digest}, but bytes from {offset} on were announced",
            partial.length()
        ))
    }
}

fn open(work: &impl Work) -> Result<Store, String> {
    Store::open(work.store_path()).map_err(|error| error_chain(&error))
}

fn hold(store: &Store, digest: &Digest) -> Result<Partial, String> {
    let begun = Instant::now();
    loop {
        if let Some(partial) = store.try_partial(&digest.hex()).map_err(|error| error_chain(&error))? {
            return Ok(partial);
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("another delivery writes blob {digest} to this node; wait for it and run again"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The missing blobs, with the bytes that already exist; non-empty part files stay open and locked in `partials`.
fn open_partials(work: &impl Work, blobs: &BTreeMap<Digest, u64>, partials: &mut Partials) -> Response {
    let mut look = || -> Result<BTreeMap<Digest, u64>, String> {
        let store = open(work)?;
        let mut have = BTreeMap::new();
        for (digest, size) in blobs {
            if store.holds(digest, *size).map_err(|error| error_chain(&error))? {
                continue;
            }
            let mut partial = match partials.remove(digest) {
                Some(partial) => partial,
                None => hold(&store, digest)?,
            };
            // At least as long as the blob, but with another digest: none of it can be trusted.
            if partial.length() >= *size && partial.length() > 0 {
                partial.clear().map_err(|error| error_chain(&error))?;
            }
            have.insert(*digest, partial.length());
            if partial.length() > 0 {
                partials.insert(*digest, partial);
            }
        }
        Ok(have)
    };
    look().map_or_else(|text| Response::Failed { text }, |have| Response::Missing { have })
}

/// The missing blobs, for a channel that stores none.
pub(super) fn missing(work: &impl Work, blobs: &BTreeMap<Digest, u64>) -> Result<Response, String> {
    Ok(open_partials(work, blobs, &mut Partials::new()))
}

#[cfg(test)]
mod tests {
    use super::super::unsynced::assert_names_are_synced;
    use super::*;

    #[test]
    fn a_blob_is_reported_as_stored_only_after_its_name_is_on_disk() {
        assert_names_are_synced(b"blob", |at| {
            let store = Store::open(at).unwrap();
            let mut partial = store.try_partial(&Digest::of("blob").hex()).unwrap().unwrap();
            partial.write(b"blob", None).unwrap();
            stored(at, partial)
        });
    }
}
