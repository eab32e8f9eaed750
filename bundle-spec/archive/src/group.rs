//! Members that are compressed together, in one zstd frame: programs of one release share most of their bytes, and a frame of one
//! member cannot refer to another member's. The window reaches back 128 MiB, the most that `zstd -d` and `tar --zstd` accept
//! without an option.

use std::io::{self, Read, Write};
use std::ops::Range;

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;
use kubexm_spec::manifest::Member;
use serde::{Deserialize, Serialize};
use zstd::stream::raw::{Decoder, Operation as _};
use zstd::zstd_safe::{CParameter, DParameter};

use crate::{Encoding, frame, members};

/// Most bytes of tar stream in a group: whoever reads one member reads at most so much.
pub const GROUP_LIMIT: u64 = 256 << 20;
/// Bytes that a match may reach back, as a power of two.
const WINDOW_LOG: u32 = 27;
/// Bytes of input that one thread compresses at a time. Part of the format as far as the bytes of a group depend on it.
const JOB: u32 = 4 << 20;
/// More threads gain nothing, as long matches are searched by one, and each needs memory.
const WORKERS: usize = 4;
/// Bytes of a frame that are read at a time.
const CHUNK: usize = 4 << 20;

/// Consecutive members of the manifest that are compressed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Group {
    /// Name of the first of them.
    pub first: String,
    /// Level of zstd, 1 to 19.
    pub level: i32,
    /// How many there are in the full bundle; those that a delta leaves out are among them.
    pub members: usize,
}

impl Group {
    /// The level that programs are worth: with long matches, it takes little longer than level 1.
    pub const DEFAULT_LEVEL: i32 = 3;

    /// Groups of those members that are to be compressed together, in the manifest's order. A member that is larger than a group can
    /// be, or has no neighbour to share with, stays by itself.
    pub fn of<'m>(members: impl IntoIterator<Item = (&'m Member, bool)>, level: i32) -> Vec<Self> {
        let (mut groups, mut size): (Vec<Self>, u64) = (Vec::new(), u64::MAX);
        for (member, together) in members {
            let len = members::stream_len(member.size).filter(|len| together && *len <= GROUP_LIMIT);
            let Some(len) = len else {
                size = u64::MAX;
                continue;
            };
            match groups.last_mut() {
                Some(last) if size.saturating_add(len) <= GROUP_LIMIT => {
                    (last.members, size) = (last.members + 1, size + len);
                }
                _ => {
                    groups.push(Self { first: member.name.clone(), level, members: 1 });
                    size = len;
                }
            }
        }
        groups.retain(|group| group.members > 1);
        groups
    }
}

/// Where each group is among the manifest's members; or what is wrong with it.
pub(crate) fn ranges(groups: &[Group], listed: &[Member]) -> Result<Vec<Range<usize>>, String> {
    let (mut all, mut after) = (Vec::with_capacity(groups.len()), 0);
    for group in groups {
        let name = &group.first;
        let rest = listed.get(after..).unwrap_or_default();
        let first = rest.iter().position(|member| member.name == *name).map(|at| after + at);
        let range = first.and_then(|first| Some(first..first.checked_add(group.members)?));
        let Some((range, grouped)) = range.and_then(|range| Some((range.clone(), listed.get(range)?))) else {
            return Err(format!("has a group from {name} on that the manifest's members do not have there"));
        };
        if grouped.is_empty() {
            return Err(format!("has an empty group at {name}"));
        }
        let len = grouped.iter().try_fold(0_u64, |sum, member| sum.checked_add(members::stream_len(member.size)?));
        if len.is_none_or(|len| len > GROUP_LIMIT) {
            return Err(format!("has a group from {name} on that is larger than {GROUP_LIMIT} bytes"));
        }
        if grouped.iter().any(|member| !member.name.starts_with(members::BLOBS)) {
            return Err(format!("has a group from {name} on with a member that is no blob"));
        }
        after = range.end;
        all.push(range);
    }
    Ok(all)
}

/// The compressor of one group. Its output does not depend on the number of threads, as there is always at least one beside the
/// caller's, nor on the pieces in which it gets its input.
pub(crate) fn encoder<W: Write>(
    level: i32,
    size: u64,
    threads: usize,
    into: W,
) -> io::Result<zstd::stream::write::Encoder<'static, W>> {
    let mut encoder = zstd::stream::write::Encoder::new(into, level)?;
    encoder.include_checksum(true)?;
    encoder.include_contentsize(true)?;
    encoder.include_dictid(false)?;
    encoder.window_log(WINDOW_LOG)?;
    encoder.long_distance_matching(true)?;
    encoder.multithread(threads.clamp(1, WORKERS) as u32)?;
    encoder.set_parameter(CParameter::JobSize(JOB))?;
    encoder.set_pledged_src_size(Some(size))?;
    Ok(encoder)
}

/// A group's content while its frame is read: the window, and a piece of the frame, are in memory.
pub(crate) struct Reader<R> {
    input: R,
    decoder: Decoder<'static>,
    /// A piece of the frame, and how far it is decoded.
    piece: Vec<u8>,
    at: usize,
    hasher: Hasher,
    /// Bytes of the frame so far, and of content still to come.
    stored: u64,
    size: u32,
    left: u64,
    /// Nothing may follow the frame in the input.
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// `input` ends behind the frame, whose content has `size` bytes.
    pub(crate) fn new(input: R, size: u32) -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
        let (piece, hasher, left) = (Vec::new(), Hasher::default(), u64::from(size));
        Ok(Self { input, decoder, piece, at: 0, hasher, stored: 0, size, left, ended: false })
    }

    /// Reads the begin of the frame. What its header asks for is refused, before there is memory for it, when it is more than this
    /// format allows.
    fn begin(&mut self) -> Result<(), String> {
        if self.stored > 0 {
            return Ok(());
        }
        self.more()?;
        if frame::window_of(&self.piece).is_some_and(|window| window > 1 << WINDOW_LOG) {
            return Err(format!("needs a window of more than {} bytes", 1_u64 << WINDOW_LOG));
        }
        frame::check_header(&self.piece, self.size)
    }

    /// The next `len` bytes of content, or up to the end, in a buffer that may have been used before.
    pub(crate) fn next(&mut self, len: u64, buffer: &mut Vec<u8>) -> Result<(), String> {
        self.begin()?;
        let len = usize::try_from(self.left.min(len)).map_err(|e| e.to_string())?;
        buffer.resize(len, 0);
        let mut filled = 0;
        while filled < len {
            if self.at == self.piece.len() && !self.more()? {
                return Err("the frame ends before its content does".to_owned());
            }
            let status = self.step(&mut buffer[filled..])?;
            if status.bytes_read == 0 && status.bytes_written == 0 && status.remaining == 0 {
                return Err("the frame ends before its content does".to_owned());
            }
            filled += status.bytes_written;
        }
        self.left -= len as u64;
        Ok(())
    }

    /// Demands that the frame ends here, and the input with it. The digest of the frame, and its bytes.
    pub(crate) fn end(mut self) -> Result<(Digest, u64), String> {
        if self.left > 0 {
            return Err(format!("{} bytes of content are left", self.left));
        }
        while !self.ended {
            let more = self.at < self.piece.len() || self.more()?;
            let status = self.step(&mut [])?;
            if status.remaining > 0 && !more {
                return Err("the frame is cut".to_owned());
            }
        }
        if self.at < self.piece.len() || self.more()? {
            return Err("is not exactly one frame".to_owned());
        }
        Ok((self.hasher.finish(), self.stored))
    }

    /// Reads what is left of the frame without decoding it. Its digest and bytes.
    pub(crate) fn drain(mut self) -> Result<(Digest, u64), String> {
        while self.more()? {}
        Ok((self.hasher.finish(), self.stored))
    }

    fn step(&mut self, output: &mut [u8]) -> Result<zstd::stream::raw::Status, String> {
        if self.ended {
            return Err("holds less than its header states".to_owned());
        }
        let status = self.decoder.run_on_buffers(&self.piece[self.at..], output).map_err(|e| format!("zstd: {e}"))?;
        self.at += status.bytes_read;
        self.ended = status.remaining == 0;
        Ok(status)
    }

    /// Reads more of the frame; false at its end.
    fn more(&mut self) -> Result<bool, String> {
        self.piece.resize(CHUNK, 0);
        let mut filled = 0;
        while filled < CHUNK {
            match self.input.read(&mut self.piece[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("cannot be read: {e}")),
            }
        }
        self.piece.truncate(filled);
        self.at = 0;
        self.stored += filled as u64;
        self.hasher.update(&self.piece);
        Ok(filled > 0)
    }
}

/// How a member of a group must be encoded.
pub(crate) const ENCODING: Encoding = Encoding::Zstd;
