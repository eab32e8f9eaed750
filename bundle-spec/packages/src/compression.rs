//! How indexes and members of packages are compressed. Reported by their first bytes: names lie, and are not at hand everywhere.

use std::io::{self, BufRead, BufReader, Read, Write as _};

/// Most memory that unpacking xz may take, in KiB: `xz -9` needs 65 MiB.
const XZ_MEMORY_KIB: u32 = 128 * 1024;

/// What is in `packed`: gzip, xz and zstd are unpacked, anything else is passed on as it is. Nothing bounds the output:
/// callers `take` what they are ready to read.
pub fn unpacked<'a>(mut packed: impl BufRead + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let head = packed.fill_buf()?;
    Ok(match head {
        [0x1f, 0x8b, ..] => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(packed))),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            Box::new(BufReader::new(lzma_rust2::XzReader::new_mem_limit(packed, true, XZ_MEMORY_KIB)))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(BufReader::new(zstd::Decoder::with_buffer(packed)?)),
        _ => Box::new(packed),
    })
}

/// All of what is in `packed`, which must not be more than `limit` bytes.
pub fn all_unpacked(packed: &[u8], limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    unpacked(packed)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("unpacks to more than {limit} bytes")));
    }
    Ok(bytes)
}

/// A text as gzip, without name and time: what every reader of either family knows.
pub fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::GzBuilder::new().mtime(0).write(Vec::new(), flate2::Compression::best());
    // A Vec takes whatever is written to it.
    let _ = encoder.write_all(text);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_compression_is_known_by_its_first_bytes_and_bounded() {
        let text = "Package: socat\n".repeat(1000);
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(6)).unwrap();
        xz.write_all(text.as_bytes()).unwrap();
        for packed in [
            gzip(text.as_bytes()),
            xz.finish().unwrap(),
            zstd::encode_all(text.as_bytes(), 3).unwrap(),
            text.clone().into_bytes(),
        ] {
            assert_eq!(all_unpacked(&packed, 15_000).unwrap(), text.as_bytes());
            assert_eq!(all_unpacked(&packed, 14_999).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
            if packed.len() < text.len() {
                assert!(all_unpacked(&packed[..packed.len() / 2], 15_000).is_err(), "a cut file passed");
            }
        }
        assert_eq!(all_unpacked(b"", 0).unwrap(), b"");
    }
}
