//! What is pushed, and how it came to be in a repository.

use std::io::{self, Read};

use bytes::Bytes;

/// Bytes that can be read from any place on, as often as a transfer has to.
pub trait Content: Send + Sync {
    /// What it is, for error messages.
    fn name(&self) -> String;
    /// Reads from a byte on. Called on a thread that may wait.
    fn open(&self, offset: u64) -> io::Result<Box<dyn Read + Send>>;
}

/// How a blob came to be in a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was there.
    Present,
    /// The registry took it from another repository of its own.
    Mounted,
    /// Its bytes were sent.
    Sent,
}

impl Content for Bytes {
    fn name(&self) -> String {
        format!("{} bytes in memory", self.len())
    }

    fn open(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let at = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        Ok(Box::new(io::Cursor::new(self.slice(at..))))
    }
}
