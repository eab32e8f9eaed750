//! The body of a request: bytes in memory, or a part of a blob that is read as the connection takes it.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;

use super::content::Content;
use crate::TransportError;

/// Bytes handed to the connection at a time; how finely progress is reported and a stall is seen.
const PIECE: usize = 64 << 10;
/// Pieces that are read before the connection has taken the one before.
const AHEAD: usize = 4;

/// What is sent.
pub(crate) enum Body {
    Bytes(Bytes),
    Part(Part),
}

/// A part of something that can be read from any place on: nothing of it is in memory but some pieces.
pub(crate) struct Part {
    pub content: Arc<dyn Content>,
    pub offset: u64,
    pub length: u64,
    kept: Kept,
    read: Arc<Reading>,
}

/// The reader of a content, and the byte at which it is: the next part begins there. To open it from a byte on may cost as much as to read it
/// up to there.
pub(crate) type Kept = Arc<Mutex<Option<(u64, Box<dyn Read + Send>)>>>;

/// How reading goes.
#[derive(Default)]
struct Reading {
    /// It waits for the content, not for the connection.
    waits: AtomicBool,
    failed: Mutex<Option<io::Error>>,
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl Body {
    /// The reader of the part before is used further, where this one begins there.
    pub fn part(content: &Arc<dyn Content>, offset: u64, length: u64, kept: &Kept) -> Self {
        Self::Part(Part { content: Arc::clone(content), offset, length, kept: Arc::clone(kept), read: Arc::default() })
    }

    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Part(part) => part.length,
        }
    }

    /// Whether the connection waits for it.
    pub fn waits(&self) -> bool {
        matches!(self, Self::Part(part) if part.read.waits.load(Ordering::Relaxed))
    }

    /// Why it could not be read, if that is what broke the request.
    pub fn failure(&self) -> Option<TransportError> {
        let Self::Part(part) = self else { return None };
        let source = part.read.failed.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(TransportError::Unreadable { what: part.content.name(), source })
    }

    /// It in pieces, which are counted as the connection takes them. From its beginning each time.
    pub fn stream(&self, left: &Arc<AtomicU64>) -> reqwest::Body {
        let left = Arc::clone(left);
        let count = move |piece: &Bytes| {
            left.fetch_add(piece.len() as u64, Ordering::Relaxed);
        };
        match self {
            Self::Bytes(body) => {
                let body = body.clone();
                let pieces = (0..body.len()).step_by(PIECE).map(move |at| {
                    let piece = body.slice(at..body.len().min(at + PIECE));
                    count(&piece);
                    Ok::<_, io::Error>(piece)
                });
                reqwest::Body::wrap_stream(stream::iter(pieces))
            }
            Self::Part(part) => {
                let pieces = stream::unfold((part.pieces(), count), |(mut pieces, count)| async move {
                    let piece: io::Result<Bytes> = pieces.recv().await?;
                    piece.iter().for_each(&count);
                    Some((piece, (pieces, count)))
                });
                reqwest::Body::wrap_stream(pieces)
            }
        }
    }
}

impl Part {
    /// Reads on a thread that may wait, which ends when nobody takes the pieces any more.
    fn pieces(&self) -> mpsc::Receiver<io::Result<Bytes>> {
        let (give, take) = mpsc::channel(AHEAD);
        let (content, kept, read) = (Arc::clone(&self.content), Arc::clone(&self.kept), Arc::clone(&self.read));
        let (offset, length) = (self.offset, self.length);
        tokio::task::spawn_blocking(move || {
            read.waits.store(true, Ordering::Relaxed);
            // One that is elsewhere goes first.
            let before = kept.lock().unwrap_or_else(PoisonError::into_inner).take().filter(|(at, _)| *at == offset);
            let mut reader = before.map_or_else(|| content.open(offset), |(_, reader)| Ok(reader));
            let mut left = length;
            while left > 0 {
                read.waits.store(true, Ordering::Relaxed);
                let piece = reader.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string()));
                let piece = piece.and_then(|reader| next(reader, left));
                read.waits.store(false, Ordering::Relaxed);
                let piece = match piece {
                    Ok(piece) => piece,
                    Err(error) => {
                        let shown = io::Error::new(error.kind(), error.to_string());
                        *read.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        let _ = give.blocking_send(Err(shown));
                        return;
                    }
                };
                left -= piece.len() as u64;
                // Before the last piece is given: the next part may begin as soon as it has arrived.
                if left == 0
                    && let Ok(reader) = std::mem::replace(&mut reader, Err(io::ErrorKind::UnexpectedEof.into()))
                {
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((offset + length, reader));
                }
                if give.blocking_send(Ok(piece)).is_err() {
                    return;
                }
            }
        });
        take
    }
}

/// A whole piece, or the last one.
fn next(reader: &mut Box<dyn Read + Send>, left: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(left).unwrap_or(PIECE).min(PIECE)];
    reader.read_exact(&mut bytes)?;
    Ok(bytes.into())
}
