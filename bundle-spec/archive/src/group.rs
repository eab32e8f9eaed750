//! Members that are compressed together, in one zstd frame: programs of one release share most of their bytes, and a frame of one
//! member cannot refer to another member's. The window reaches back 128 MiB, the most that `zstd -d` and `tar --zstd` accept
//! without an option.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;
use kubexm_spec::manifest::Member;
use serde::{Deserialize, Serialize};
use zstd::stream::raw::{Decoder, Encoder, InBuffer, Operation as _, OutBuffer};
use zstd::zstd_safe::{CParameter, DParameter};

use crate::{Encoding, frame, members};

/// Most bytes of tar stream in a group: whoever reads one member reads at most so much.
pub const GROUP_LIMIT: u64 = 256 << 20;
/// Bytes that a match may reach back, as a power of two.
const WINDOW_LOG: u32 = 27;
/// Bytes of input that one thread compresses at a time. Part of the format as far as the bytes of a group depend on it.
const JOB: u32 = 4 << 20;
/// Long matches are searched from every 256th position on the average (the logarithm): every 128th, as libzstd would by itself, finds
/// 3 % more in programs, for a seventh of the time.
const SEARCHED: u32 = 8;
/// More threads gain nothing, as long matches are searched by one, and each needs memory.
const WORKERS: usize = 4;
/// Threads beyond those that are asked for, as one of them waits for the search before its own, and one for the caller: with as many
/// as there are cores a tenth of them was idle.
const WAITING: usize = 2;
/// Bytes of a frame that are read at a time.
const CHUNK: usize = 1 << 20;

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
    /// The level that programs are worth at least: 5 % smaller than at level 1, for a sixth more time.
    pub const DEFAULT_LEVEL: i32 = 2;

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

/// The compressor of groups. Its output does not depend on the number of threads, as there is always at least one beside the
/// caller's, nor on the pieces in which it gets its input, nor on the groups before. Used again, it has its window and tables already.
pub(crate) struct Compressor(Encoder<'static>);

impl Compressor {
    pub(crate) fn new(level: i32, threads: usize) -> io::Result<Self> {
        let mut encoder = Encoder::new(level)?;
        encoder.set_parameter(CParameter::ChecksumFlag(true))?;
        encoder.set_parameter(CParameter::ContentSizeFlag(true))?;
        encoder.set_parameter(CParameter::DictIdFlag(false))?;
        encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
        encoder.set_parameter(CParameter::EnableLongDistanceMatching(true))?;
        encoder.set_parameter(CParameter::LdmHashRateLog(SEARCHED))?;
        encoder.set_parameter(CParameter::NbWorkers((threads + WAITING).min(WORKERS) as u32))?;
        encoder.set_parameter(CParameter::JobSize(JOB))?;
        Ok(Self(encoder))
    }

    /// Begins a frame of so many bytes of content.
    pub(crate) fn begin(&mut self, size: u32) -> io::Result<()> {
        self.0.reinit()?;
        self.0.set_pledged_src_size(Some(u64::from(size)))
    }

    /// Takes content, and has `full` exchange the buffer for the frame whenever it is full.
    pub(crate) fn take(
        &mut self,
        content: &[u8],
        frame: &mut Vec<u8>,
        mut full: impl FnMut(&mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut content = InBuffer::around(content);
        while content.pos() < content.src.len() {
            if frame.len() == frame.capacity() {
                full(frame)?;
            }
            let at = frame.len();
            self.0.run(&mut content, &mut OutBuffer::around_pos(frame, at))?;
        }
        Ok(())
    }

    /// Ends the frame in the same way.
    pub(crate) fn end(
        &mut self,
        frame: &mut Vec<u8>,
        mut full: impl FnMut(&mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        loop {
            if frame.len() == frame.capacity() {
                full(frame)?;
            }
            let at = frame.len();
            if self.0.finish(&mut OutBuffer::around_pos(frame, at), false)? == 0 {
                return Ok(());
            }
        }
    }
}

/// A decompressor of groups. Whoever reads several, one after the other, uses it again: its window is memory that the kernel need not
/// find and clear a second time.
pub(crate) fn decoder() -> io::Result<Decoder<'static>> {
    let mut decoder = Decoder::new()?;
    decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
    Ok(decoder)
}

/// What else becomes of the bytes of a frame while it is decoded.
pub(crate) trait Watch {
    /// A buffer to read the next bytes into.
    fn buffer(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// The next bytes of the frame, which are decoded next.
    fn chunk(&mut self, chunk: &Arc<Vec<u8>>);

    /// They are decoded.
    fn done(&mut self, chunk: Arc<Vec<u8>>) {
        drop(chunk);
    }
}

/// Nothing: the digest of the content says whether the frame is right.
impl Watch for () {
    fn chunk(&mut self, _: &Arc<Vec<u8>>) {}
}

/// A group's content while its frame is read: the window, and a piece of the frame, are in memory.
pub(crate) struct Reader<R, W> {
    input: R,
    decoder: Decoder<'static>,
    watch: W,
    /// A piece of the frame, and how far it is decoded.
    piece: Arc<Vec<u8>>,
    at: usize,
    /// Bytes of the frame so far, and of content still to come.
    stored: u64,
    size: u32,
    left: u64,
    /// Nothing may follow the frame in the input.
    ended: bool,
}

impl<R: Read, W: Watch> Reader<R, W> {
    /// `input` ends behind the frame, whose content has `size` bytes.
    pub(crate) fn new(input: R, size: u32, mut decoder: Decoder<'static>, watch: W) -> io::Result<Self> {
        decoder.reinit()?;
        let (piece, left) = (Arc::default(), u64::from(size));
        Ok(Self { input, decoder, watch, piece, at: 0, stored: 0, size, left, ended: false })
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

    /// Demands that the frame ends here, and the input with it. The bytes of the frame.
    pub(crate) fn end(&mut self) -> Result<u64, String> {
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
        Ok(self.stored)
    }

    /// Reads what is left of the frame without decoding it. Its bytes.
    pub(crate) fn drain(&mut self) -> Result<u64, String> {
        while self.more()? {}
        Ok(self.stored)
    }

    /// Who watches.
    pub(crate) fn watch(&self) -> &W {
        &self.watch
    }

    /// The decompressor, to be used again.
    pub(crate) fn into_decoder(self) -> Decoder<'static> {
        self.decoder
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
        let used = std::mem::take(&mut self.piece);
        self.watch.done(used);
        let mut piece = self.watch.buffer();
        piece.resize(CHUNK, 0);
        let mut filled = 0;
        while filled < CHUNK {
            match self.input.read(&mut piece[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("cannot be read: {e}")),
            }
        }
        piece.truncate(filled);
        self.piece = Arc::new(piece);
        self.at = 0;
        self.stored += filled as u64;
        self.watch.chunk(&self.piece);
        Ok(filled > 0)
    }
}

/// The digest of a frame, without decoding it.
pub(crate) fn digest(mut input: impl Read) -> io::Result<Digest> {
    let (mut hasher, mut chunk) = (Hasher::default(), vec![0; CHUNK]);
    loop {
        match input.read(&mut chunk) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(read) => hasher.update(&chunk[..read]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// How a member of a group must be encoded.
pub(crate) const ENCODING: Encoding = Encoding::Zstd;
