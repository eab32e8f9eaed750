//! How a member is stored: as raw blocks, or compressed.

use serde::{Deserialize, Serialize};

/// The coding of all frames of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Raw blocks: for data that is compressed already. The bytes depend on no compressor.
    Raw,
    /// Compressed with the level that layout.json names.
    Zstd,
}

/// How many bytes from the start of a file [`encoding_for`] looks at.
pub const MAGIC_BYTES: usize = 8;

/// The first bytes of formats that a second compression does not make smaller.
const COMPRESSED: [&[u8]; 6] = [
    b"\x1f\x8b",         // gzip (RFC 1952)
    b"\x28\xb5\x2f\xfd", // zstd (RFC 8878)
    b"\xfd7zXZ\0",       // xz
    b"BZh",              // bzip2
    b"!<arch>\n",        // ar: a .deb, whose members are compressed
    b"\xed\xab\xee\xdb", // rpm lead
];

/// Chooses the coding from the first bytes (at least [`MAGIC_BYTES`], unless the file is shorter) of a member.
pub fn encoding_for(first_bytes: &[u8]) -> Encoding {
    if COMPRESSED.iter().any(|magic| first_bytes.starts_with(magic)) { Encoding::Raw } else { Encoding::Zstd }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_already_is_stored_raw() {
        for first in [&b"\x1f\x8b\x08\0"[..], b"\x28\xb5\x2f\xfd\x04", b"!<arch>\ndebian", b"\xfd7zXZ\0\0", b"BZh9"] {
            assert_eq!(encoding_for(first), Encoding::Raw, "{first:?}");
        }
        for first in [&b"\x7fELF"[..], b"{}", b"", b"\x1f", b"ustar"] {
            assert_eq!(encoding_for(first), Encoding::Zstd, "{first:?}");
        }
    }
}
