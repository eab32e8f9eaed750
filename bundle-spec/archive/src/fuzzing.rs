//! The parsers inside, for the fuzz targets in `fuzz/`. Each takes any bytes; what it accepts must be the one encoding of
//! what it found there.

use crate::frame::{self, Decoder};
use crate::trailer::Trailer;
use crate::volume_header::VolumeHeader;
use crate::{Encoding, members, seek_table, tar_header, walk};

/// The seek table.
pub fn seek_table(bytes: &[u8]) {
    let _ = seek_table::frames_in(bytes);
    if let Some(frames) = seek_table::decode(bytes) {
        assert_eq!(seek_table::encode(&frames), bytes);
    }
}

/// The trailer.
pub fn trailer(bytes: &[u8]) {
    if let Ok(trailer) = Trailer::decode(bytes) {
        assert_eq!(trailer.encode(), bytes);
        for frame in [0, 1, trailer.digests.len(), usize::MAX] {
            let _ = trailer.digest_of(frame, 1);
        }
    }
}

/// The header of a volume.
pub fn volume_header(bytes: &[u8]) {
    if let Ok(header) = VolumeHeader::decode(bytes) {
        assert_eq!(header.encode(), bytes);
    }
}

/// The header of a member in the tar stream.
pub fn tar_header(bytes: &[u8]) {
    for name in [members::MANIFEST, members::SIGNATURE, members::LAYOUT] {
        if let Some(size) = tar_header::size_of(name, bytes) {
            assert_eq!(tar_header::encode(name, size), bytes);
        }
    }
}

/// One frame: the first four bytes are the size that it should have.
pub fn frame(bytes: &[u8]) {
    let Some((size, frame)) = bytes.split_first_chunk::<4>() else { return };
    let size = u32::from_le_bytes(*size) % (frame::INPUT + 1);
    let _ = (walk::header_len(frame), frame::raw_size(frame));
    let Ok(mut decoder) = Decoder::new() else { return };
    for encoding in [Encoding::Raw, Encoding::Zstd] {
        if let Ok(decoded) = decoder.decode(encoding, &mut frame.to_vec(), size, &mut Vec::new()) {
            assert_eq!(decoded.pieces().map(<[u8]>::len).sum::<usize>(), size as usize);
        }
    }
}
