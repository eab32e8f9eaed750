//! One zstd frame (RFC 8878): raw blocks that we write ourselves, or what libzstd makes of the same bytes.
//!
//! Every frame carries its content's size and checksum, so that `zstd -t` and `tar --zstd` on a host without our
//! programs find damage too.

use std::hash::Hasher as _;

use kubexm_spec::Digest;
use twox_hash::XxHash64;
use zstd::zstd_safe::{self, CParameter};

use crate::Encoding;

/// Most bytes of input in one frame: a larger member is cut at multiples of it.
pub(crate) const INPUT: u32 = 8 << 20;
/// Most bytes in one raw block (RFC 8878, "Block_Maximum_Size").
const BLOCK: usize = 128 << 10;
const BLOCK_HEADER: usize = 3;
const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// Single segment, four-byte content size, content checksum, no dictionary.
const RAW_DESCRIPTOR: u8 = 0b1010_0100;
/// Magic, descriptor, content size.
const RAW_HEADER: usize = 9;
const CHECKSUM: usize = 4;
/// Bits that every frame descriptor has (checksum) and that none has (unused, reserved, dictionary id).
const DESCRIPTOR_SET: u8 = 0b0000_0100;
const DESCRIPTOR_CLEAR: u8 = 0b0001_1011;

/// The most bytes that the frame of a single member takes in the file.
pub(crate) fn max_len() -> u32 {
    bound(INPUT)
}

/// The most bytes that a compressed frame of so many bytes takes in the file.
pub(crate) fn bound(size: u32) -> u32 {
    u32::try_from(zstd_safe::compress_bound(size as usize)).unwrap_or(u32::MAX)
}

/// How many bytes a frame of raw blocks takes, for `input` bytes (at least one).
pub(crate) const fn raw_len(input: u32) -> u32 {
    (RAW_HEADER + CHECKSUM) as u32 + input + BLOCK_HEADER as u32 * input.div_ceil(BLOCK as u32)
}

/// The content size in the header of a raw frame, in bytes.
pub(crate) fn raw_size(frame: &[u8]) -> Option<u32> {
    let size = frame.get(RAW_HEADER - 4..RAW_HEADER).filter(|_| begins_raw(frame))?;
    Some(u32::from_le_bytes(size.try_into().ok()?)).filter(|size| (1..=INPUT).contains(size))
}

/// Whether bytes begin as every bundle does: with a frame of raw blocks.
pub(crate) fn begins_raw(bytes: &[u8]) -> bool {
    let want = [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], RAW_DESCRIPTOR];
    bytes.iter().zip(want).all(|(found, wanted)| *found == wanted)
}

/// Where the content begins in a frame of raw blocks.
pub(crate) const RAW_CONTENT: usize = RAW_HEADER + BLOCK_HEADER;

/// Makes frames; keeps the compressor's tables between them.
pub(crate) struct Encoder(zstd::bulk::Compressor<'static>);

impl Encoder {
    /// For one level of zstd.
    pub(crate) fn new(level: i32) -> std::io::Result<Self> {
        let mut compressor = zstd::bulk::Compressor::new(level)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        compressor.set_parameter(CParameter::ContentSizeFlag(true))?;
        compressor.set_parameter(CParameter::DictIdFlag(false))?;
        Ok(Self(compressor))
    }

    /// Replaces `frame` by the frame of `input` (at most [`INPUT`] bytes).
    pub(crate) fn encode(&mut self, encoding: Encoding, input: &[u8], frame: &mut Vec<u8>) -> std::io::Result<()> {
        frame.clear();
        match encoding {
            Encoding::Raw => encode_raw(input, frame),
            Encoding::Zstd => {
                frame.reserve(zstd_safe::compress_bound(input.len()));
                self.0.compress_to_buffer(input, frame)?;
            }
        }
        Ok(())
    }
}

fn encode_raw(input: &[u8], frame: &mut Vec<u8>) {
    let size = input.len() as u32;
    frame.reserve(raw_len(size) as usize);
    frame.extend_from_slice(&MAGIC);
    frame.push(RAW_DESCRIPTOR);
    frame.extend_from_slice(&size.to_le_bytes());
    let mut left = input.len();
    for block in input.chunks(BLOCK) {
        left -= block.len();
        frame.extend_from_slice(&block_header(block.len(), left == 0));
        frame.extend_from_slice(block);
    }
    frame.extend_from_slice(&checksum([input].into_iter()));
}

/// Block_Header of a raw block: last-block bit, type 0 in two bits, size.
fn block_header(size: usize, last: bool) -> [u8; BLOCK_HEADER] {
    let bits = (size as u32) << 3 | u32::from(last);
    let [first, second, third, _] = bits.to_le_bytes();
    [first, second, third]
}

/// Content_Checksum: the low four bytes of xxh64 with seed 0.
fn checksum<'a>(content: impl Iterator<Item = &'a [u8]>) -> [u8; CHECKSUM] {
    let mut hasher = XxHash64::with_seed(0);
    for part in content {
        hasher.write(part);
    }
    (hasher.finish() as u32).to_le_bytes()
}

/// The content of one frame.
pub(crate) enum Decoded {
    /// The frame itself: content is read between the block headers, without a copy.
    Raw {
        /// The whole frame, checked.
        frame: Vec<u8>,
        /// Bytes of content.
        size: usize,
    },
    /// Decompressed.
    Zstd(Vec<u8>),
}

impl Decoded {
    /// The longest piece of content that lies in one piece from `offset` on; empty at the end.
    pub(crate) fn from(&self, offset: usize) -> &[u8] {
        match self {
            Self::Raw { frame, size } => raw_piece(frame, *size, offset),
            Self::Zstd(content) => content.get(offset..).unwrap_or_default(),
        }
    }

    /// All pieces in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let piece = self.from(offset);
            offset += piece.len();
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// The buffer, to be used again.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        match self {
            Self::Raw { frame, .. } => frame,
            Self::Zstd(content) => content,
        }
    }
}

fn raw_piece(frame: &[u8], size: usize, offset: usize) -> &[u8] {
    if offset >= size {
        return &[];
    }
    let start = RAW_HEADER + BLOCK_HEADER * (offset / BLOCK + 1) + offset;
    let len = (BLOCK - offset % BLOCK).min(size - offset);
    frame.get(start..start + len).unwrap_or_default()
}

/// Takes frames apart; keeps the decompressor's tables between them.
pub(crate) struct Decoder(zstd::bulk::Decompressor<'static>);

impl Decoder {
    /// A new one.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self(zstd::bulk::Decompressor::new()?))
    }

    /// The content of a frame that must hold exactly `size` bytes (at most [`INPUT`]). One of the two buffers goes into it, the
    /// frame's own or `spare`; the other stays to be used again. The error says what is wrong with the frame.
    pub(crate) fn decode(
        &mut self,
        encoding: Encoding,
        frame: &mut Vec<u8>,
        size: u32,
        spare: &mut Vec<u8>,
    ) -> Result<Decoded, String> {
        if encoding == Encoding::Raw {
            check_raw(frame, size)?;
            return Ok(Decoded::Raw { frame: std::mem::take(frame), size: size as usize });
        }
        check_zstd_header(frame, size)?;
        spare.clear();
        spare.reserve_exact(size as usize);
        let written = self.0.decompress_to_buffer(frame.as_slice(), spare).map_err(|e| format!("zstd: {e}"))?;
        if written != size as usize {
            return Err(format!("holds {written} bytes, not {size}"));
        }
        Ok(Decoded::Zstd(std::mem::take(spare)))
    }
}

/// Demands the bytes that [`encode_raw`] writes for this content.
fn check_raw(frame: &[u8], size: u32) -> Result<(), String> {
    if frame.len() != raw_len(size) as usize {
        return Err(format!("a raw frame of {size} bytes does not take {} bytes", frame.len()));
    }
    if !begins_raw(frame) || frame[5..RAW_HEADER] != size.to_le_bytes() {
        return Err("frame header is not that of raw blocks".into());
    }
    let size = size as usize;
    for offset in (0..size).step_by(BLOCK) {
        let len = BLOCK.min(size - offset);
        let at = RAW_HEADER + BLOCK_HEADER * (offset / BLOCK) + offset;
        if frame[at..at + BLOCK_HEADER] != block_header(len, offset + len == size) {
            return Err(format!("block header at byte {at} of the frame is wrong"));
        }
    }
    let pieces = (0..size).step_by(BLOCK).map(|offset| raw_piece(frame, size, offset));
    if frame[frame.len() - CHECKSUM..] != checksum(pieces) {
        return Err("content checksum does not match".into());
    }
    Ok(())
}

/// Demands one frame, no more, with content size and checksum and without a dictionary.
fn check_zstd_header(frame: &[u8], size: u32) -> Result<(), String> {
    check_header(frame, size)?;
    if zstd_safe::find_frame_compressed_size(frame) != Ok(frame.len()) {
        return Err("is not exactly one frame".into());
    }
    Ok(())
}

/// The same of the header alone, which may be followed by anything.
pub(crate) fn check_header(frame: &[u8], size: u32) -> Result<(), String> {
    let descriptor = frame.get(4).copied().unwrap_or_default();
    if !frame.starts_with(&MAGIC) || descriptor & DESCRIPTOR_SET == 0 || descriptor & DESCRIPTOR_CLEAR != 0 {
        return Err("frame header is not one that this format has".into());
    }
    if zstd_safe::get_frame_content_size(frame).ok().flatten() != Some(u64::from(size)) {
        return Err(format!("frame header does not state {size} bytes"));
    }
    Ok(())
}

/// Bytes of window that a frame needs (RFC 8878, "Window_Descriptor"): all of its content where that is one segment.
pub(crate) fn window_of(frame: &[u8]) -> Option<u64> {
    let descriptor = frame.get(4)?;
    if descriptor >> 5 & 1 == 1 {
        return zstd_safe::get_frame_content_size(frame).ok().flatten();
    }
    let window = frame.get(5)?;
    let base = 1_u64 << (10 + (window >> 3));
    Some(base + base / 8 * u64::from(window & 7))
}

/// A frame's place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// First byte in the file.
    pub(crate) offset: u64,
    /// Bytes in the file.
    pub(crate) len: u32,
    /// Bytes of content; 0 for skippable frames.
    pub(crate) size: u32,
}

/// Digest of a frame's bytes in the file, as the trailer holds it.
pub(crate) fn digest(frame: &[u8]) -> Digest {
    Digest::of(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * i / 7) as u8).collect()
    }

    #[test]
    fn frames_of_both_encodings_read_back_and_stock_zstd_reads_them() {
        let (mut encoder, mut decoder) = (Encoder::new(1).unwrap(), Decoder::new().unwrap());
        for len in [1, 512, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5, INPUT as usize] {
            let input = sample(len);
            for encoding in [Encoding::Raw, Encoding::Zstd] {
                let mut frame = Vec::new();
                encoder.encode(encoding, &input, &mut frame).unwrap();
                assert!(frame.len() <= max_len() as usize);
                assert_eq!(zstd::decode_all(&frame[..]).unwrap(), input, "{encoding:?} {len}");
                let decoded = decoder.decode(encoding, &mut frame, len as u32, &mut Vec::new()).unwrap();
                assert_eq!(decoded.pieces().collect::<Vec<_>>().concat(), input);
            }
        }
    }

    #[test]
    fn every_changed_byte_of_a_raw_frame_is_found_without_the_trailer() {
        let mut frame = Vec::new();
        encode_raw(&sample(BLOCK + 9), &mut frame);
        for at in (0..30).chain(BLOCK..BLOCK + 40) {
            let mut bad = frame.clone();
            let at = at.min(bad.len() - 1);
            bad[at] ^= 0x10;
            assert!(check_raw(&bad, (BLOCK + 9) as u32).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_frame_that_hides_a_second_one_is_refused() {
        let (mut encoder, mut decoder) = (Encoder::new(1).unwrap(), Decoder::new().unwrap());
        let mut frame = Vec::new();
        encoder.encode(Encoding::Zstd, &sample(600), &mut frame).unwrap();
        frame.extend(zstd::encode_all(&b""[..], 1).unwrap());
        assert!(decoder.decode(Encoding::Zstd, &mut frame, 600, &mut Vec::new()).is_err());
    }
}
