//! The frame of a group in a stream: it is not known where it ends, and it may be larger than the memory that there is.

use std::io::{self, BufRead as _, Read};
use std::sync::{Mutex, MutexGuard};

use crate::feed::lock;
use crate::frame::{self, Place};
use crate::frame_reader::{FrameReader, State};
use crate::{ArchiveError, walk};

/// Reads one frame, block by block. Nobody else reads the stream meanwhile.
pub(crate) struct GroupFrame<'s, 'a, R: Read> {
    state: MutexGuard<'s, State<'a, R>>,
    /// Set while this exists.
    in_group: &'s Mutex<bool>,
    /// Bytes of content that the frame must state, and bytes of it so far.
    size: u32,
    len: u64,
    /// The header of a block, and what the caller has of it.
    small: Vec<u8>,
    given: usize,
    /// Bytes of the current block that are still to come.
    block: usize,
    next: Next,
}

/// What comes behind the current block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Header,
    Block,
    Checksum,
    Nothing,
}

impl<'s, 'a, R: Read> GroupFrame<'s, 'a, R> {
    pub(crate) fn new(state: MutexGuard<'s, State<'a, R>>, in_group: &'s Mutex<bool>, size: u32) -> Self {
        Self { state, in_group, size, len: 0, small: Vec::new(), given: 0, block: 0, next: Next::Header }
    }

    /// Reads the next part that has a form of its own.
    fn part(&mut self) -> Result<(), ArchiveError> {
        let frames = &mut self.state.frames;
        let wrong =
            |frames: &FrameReader<'_, R>| frames.damaged("frames", frames.offset, "no frame of a bundle is here");
        (self.given, self.next) = match self.next {
            Next::Nothing => return Ok(()),
            Next::Header => {
                self.small.clear();
                frames.take(&mut self.small, 5)?;
                let Some(header) = walk::header_len(&self.small) else { return Err(wrong(frames)) };
                frames.take(&mut self.small, header.saturating_sub(5))?;
                (0, Next::Block)
            }
            Next::Block => {
                self.small.clear();
                let block = frames.take(&mut self.small, 3)?;
                let bits = u32::from_le_bytes([block[0], block[1], block[2], 0]);
                self.block = if bits >> 1 & 3 == 1 { 1 } else { (bits >> 3) as usize };
                if self.len + 3 + self.block as u64 + 4 > u64::from(frame::bound(self.size)) {
                    return Err(wrong(frames));
                }
                (0, if bits & 1 == 1 { Next::Checksum } else { Next::Block })
            }
            Next::Checksum => {
                self.small.clear();
                frames.take(&mut self.small, 4)?;
                (0, Next::Nothing)
            }
        };
        self.len += self.small.len() as u64;
        Ok(())
    }

    /// The frame has passed.
    fn end(&mut self) {
        let frames = &mut self.state.frames;
        // At most the bound of its size.
        let len = u32::try_from(self.len).unwrap_or(u32::MAX);
        if self.len > 0 {
            frames.seen.frames.push(Place { offset: frames.offset, len, size: self.size });
            frames.offset += std::mem::take(&mut self.len);
        }
    }
}

impl<R: Read> Read for GroupFrame<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if buffer.is_empty() {
                return Ok(0);
            }
            if let Some(rest) = self.small.get(self.given..).filter(|rest| !rest.is_empty()) {
                let len = rest.len().min(buffer.len());
                buffer[..len].copy_from_slice(&rest[..len]);
                self.given += len;
                return Ok(len);
            }
            if self.block > 0 {
                let found = self.state.frames.reader.fill_buf()?;
                let len = found.len().min(self.block).min(buffer.len());
                buffer[..len].copy_from_slice(&found[..len]);
                self.state.frames.reader.consume(len);
                self.block -= len;
                self.len += len as u64;
                if len == 0 {
                    let (path, at) = (self.state.frames.name.to_owned(), self.state.frames.offset + self.len);
                    return Err(self.fail(ArchiveError::Truncated { path, at }));
                }
                return Ok(len);
            }
            if self.next == Next::Nothing {
                self.end();
                return Ok(0);
            }
            if let Err(error) = self.part() {
                return Err(self.fail(error));
            }
        }
    }
}

impl<R: Read> GroupFrame<'_, '_, R> {
    /// Nothing can be read behind this.
    fn fail(&mut self, error: ArchiveError) -> io::Error {
        let problem = io::Error::other(error.to_string());
        self.state.failed.get_or_insert(error);
        problem
    }
}

impl<R: Read> Drop for GroupFrame<'_, '_, R> {
    /// Whoever stops before its end leaves the rest here: the next frame begins behind it.
    fn drop(&mut self) {
        let mut rest = [0; 8 << 10];
        while self.read(&mut rest).is_ok_and(|read| read > 0) {}
        // Whoever waits for it gets the state next, which is free when this is gone.
        *lock(self.in_group) = false;
    }
}
