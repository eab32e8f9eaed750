//! The one tar header a member can have: ustar (POSIX.1-1988) with GNU's base-256 size from 8 GiB on, never PAX.
//!
//! Everything but name and size is fixed (regular file, mode 0644, owner 0, mtime 0), so a reader demands a header
//! bit for bit instead of interpreting one.

/// Length of a header, and the unit that content is padded to, in bytes.
pub(crate) const BLOCK: u64 = 512;

/// The largest size that eleven octal digits hold.
const OCTAL_MAX: u64 = 0o777_7777_7777;

const NAME: usize = 100;
const SIZE: std::ops::Range<usize> = 124..136;
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// The header of a member. Names are ASCII, of at most 100 bytes (every name the format knows has at most 77).
pub(crate) fn encode(name: &str, size: u64) -> [u8; BLOCK as usize] {
    debug_assert!(name.is_ascii() && name.len() <= NAME);
    let mut header = [0; BLOCK as usize];
    let name = &name.as_bytes()[..name.len().min(NAME)];
    header[..name.len()].copy_from_slice(name);
    header[100..108].copy_from_slice(b"0000644\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    if size <= OCTAL_MAX {
        header[SIZE].copy_from_slice(format!("{size:011o}\0").as_bytes());
    } else {
        header[SIZE.start] = 0x80;
        header[SIZE.end - 8..SIZE.end].copy_from_slice(&size.to_be_bytes());
    }
    header[136..148].copy_from_slice(b"00000000000\0");
    header[CHECKSUM].copy_from_slice(b"        ");
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    header[329..337].copy_from_slice(b"0000000\0");
    header[337..345].copy_from_slice(b"0000000\0");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// The size in a header that must be the one of `name`; nothing when any byte differs from what [`encode`] writes.
pub(crate) fn size_of(name: &str, header: &[u8]) -> Option<u64> {
    let field = header.get(SIZE)?;
    let size = match field.first()? {
        0x80 => u64::from_be_bytes(field.get(4..)?.try_into().ok()?),
        _ => u64::from_str_radix(std::str::from_utf8(field.get(..11)?).ok()?, 8).ok()?,
    };
    (header == encode(name, size)).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_on_both_sides_of_8_gib_read_back() {
        for size in [0, 1, 511, OCTAL_MAX, OCTAL_MAX + 1, u64::MAX] {
            assert_eq!(size_of("index.json", &encode("index.json", size)), Some(size));
        }
    }

    #[test]
    fn a_header_with_any_other_bit_is_refused() {
        let good = encode("index.json", 7);
        for at in 0..good.len() {
            let mut bad = good;
            bad[at] ^= 1;
            // A changed size digit is a header of another size only with another checksum.
            assert_eq!(size_of("index.json", &bad), None, "byte {at}");
        }
        assert_eq!(size_of("oci-layout", &good), None);
        assert_eq!(size_of("index.json", &good[..511]), None);
    }
}
