//! The control paragraph of a package file (deb(5)): an ar archive of `debian-binary`, `control.tar.*` and `data.tar.*`.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use super::control::{ControlError, Paragraph, Paragraphs};
use crate::compression;

/// The most bytes of `control.tar` as it is in the archive; the largest real ones hold a few hundred KiB of maintainer scripts.
const PACKED_LIMIT: u64 = 16 << 20;
/// The most bytes of it unpacked.
const UNPACKED_LIMIT: u64 = 64 << 20;
/// The most bytes of the control file.
const CONTROL_LIMIT: u64 = 4 << 20;

/// How an ar archive begins (ar(5)).
const MAGIC: &[u8; 8] = b"!<arch>\n";
/// Bytes of a member's header.
const HEADER: u64 = 60;

/// What is no package.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It cannot be read, ends too early, or cannot be unpacked.
    #[error("cannot be read as a .deb: {0}")]
    Read(#[from] io::Error),
    /// It is something else.
    #[error("is not a .deb: {0}")]
    NotADeb(String),
    /// Its control file is no paragraph of fields.
    #[error("its control file: {0}")]
    Control(#[from] ControlError),
}

/// The control paragraph as it is in the package, without what is around it. Reads no further than `control.tar`.
pub fn control(reader: impl Read) -> Result<String, ArchiveError> {
    let mut reader = BufReader::new(reader);
    let mut magic = [0; 8];
    reader.read_exact(&mut magic)?;
    if &magic != MAGIC {
        return Err(ArchiveError::NotADeb("it does not begin as an ar archive does".to_owned()));
    }
    let (name, size) = member(&mut reader)?;
    if name != "debian-binary" {
        return Err(ArchiveError::NotADeb(format!("its first member is {name:?}, not debian-binary")));
    }
    let mut version = Vec::new();
    reader.by_ref().take(size.min(64)).read_to_end(&mut version)?;
    if !version.starts_with(b"2.") {
        let shown = String::from_utf8_lossy(&version).trim().to_owned();
        return Err(ArchiveError::NotADeb(format!("it is of format {shown:?}, and only 2.x is read")));
    }
    skip(&mut reader, size - version.len() as u64 + size % 2)?;
    loop {
        let (name, size) = member(&mut reader)?;
        // deb(5): members whose names begin with an underscore may stand before and are passed over.
        if name.starts_with('_') {
            skip(&mut reader, size + size % 2)?;
            continue;
        }
        if name != "control.tar" && !name.starts_with("control.tar.") {
            return Err(ArchiveError::NotADeb(format!("its second member is {name:?}, not control.tar")));
        }
        if size > PACKED_LIMIT {
            return Err(ArchiveError::NotADeb(format!("its {name} has {size} bytes, more than {PACKED_LIMIT}")));
        }
        return of_tar(reader.take(size));
    }
}

/// Whether all of it is there: every member whole, one of them `data.tar.*`, and nothing behind the last. `size` is the file's.
pub fn complete(mut reader: impl Read + Seek, size: u64) -> Result<(), ArchiveError> {
    let cut = |name: &str| ArchiveError::NotADeb(format!("it ends within {name}, like a truncated copy"));
    let mut at = reader.seek(SeekFrom::Start(MAGIC.len() as u64))?;
    let mut data = false;
    while at < size {
        if size - at < HEADER {
            return Err(cut("the head of a member"));
        }
        let (name, length) = member(&mut reader)?;
        let end = at.saturating_add(HEADER).saturating_add(length);
        if end > size {
            return Err(cut(&name));
        }
        data |= name.starts_with("data.tar");
        // Members begin at even places; of the last one the byte between may be missing.
        at = reader.seek(SeekFrom::Start(end.saturating_add(length % 2)))?;
    }
    if data { Ok(()) } else { Err(ArchiveError::NotADeb("it has no data.tar, like a truncated copy".to_owned())) }
}

/// Name and size in bytes of the next member (ar(5), the common format with GNU's slash).
fn member(reader: &mut impl Read) -> Result<(String, u64), ArchiveError> {
    let mut header = [0; 60];
    reader.read_exact(&mut header)?;
    let field = |range: std::ops::Range<usize>| String::from_utf8_lossy(&header[range]).trim_end().to_owned();
    let bad = || ArchiveError::NotADeb("a member of it has no header".to_owned());
    if &header[58..] != b"`\n" {
        return Err(bad());
    }
    let size = field(48..58).parse::<u64>().map_err(|_| bad())?;
    Ok((field(0..16).trim_end_matches('/').to_owned(), size))
}

fn skip(reader: &mut impl Read, bytes: u64) -> io::Result<()> {
    let skipped = io::copy(&mut reader.take(bytes), &mut io::sink())?;
    if skipped == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn of_tar(packed: impl BufRead) -> Result<String, ArchiveError> {
    let plain = compression::unpacked(packed)?.take(UNPACKED_LIMIT);
    let mut tar = tar::Archive::new(plain);
    for entry in tar.entries()? {
        let mut entry = entry?;
        let path = entry.path_bytes();
        if path.strip_prefix(b"./").unwrap_or(&path) != b"control" || !entry.header().entry_type().is_file() {
            continue;
        }
        let mut bytes = Vec::new();
        entry.by_ref().take(CONTROL_LIMIT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > CONTROL_LIMIT {
            return Err(ArchiveError::NotADeb(format!("its control file has more than {CONTROL_LIMIT} bytes")));
        }
        let text =
            String::from_utf8(bytes).map_err(|_| ArchiveError::NotADeb("its control file is not UTF-8".to_owned()))?;
        only_one(&text)?;
        return Ok(text.trim_matches('\n').to_owned());
    }
    Err(ArchiveError::NotADeb("its control.tar has no file `control`".to_owned()))
}

/// One paragraph with a name, a version and an architecture: a second one would be a second package in an index.
fn only_one(text: &str) -> Result<(), ArchiveError> {
    let mut paragraphs = Paragraphs::new(text.as_bytes());
    paragraphs.read_next()?;
    if paragraphs.read_next()?.is_some() {
        return Err(ArchiveError::NotADeb("its control file has more than one paragraph".to_owned()));
    }
    let paragraph = Paragraph::of(text.trim_matches('\n'));
    for field in ["Package", "Version", "Architecture"] {
        if paragraph.get(field)?.is_none_or(str::is_empty) {
            return Err(ArchiveError::NotADeb(format!("its control file has no {field}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const CONTROL: &str = "Package: a\nVersion: 1\nArchitecture: all\nDescription: x\n";

    fn tar(name: &str, content: &[u8]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in [("./postinst", &b"#!/bin/sh\n"[..]), (name, content)] {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_entry_type(tar::EntryType::Regular);
            builder.append_data(&mut header, name, content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut ar = b"!<arch>\n".to_vec();
        for (name, content) in members {
            writeln!(ar, "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`", 0, 0, 0, 100_644, content.len()).unwrap();
            ar.extend_from_slice(content);
            if content.len() % 2 == 1 {
                ar.push(b'\n');
            }
        }
        ar
    }

    fn deb(control_name: &str, control_tar: &[u8]) -> Vec<u8> {
        ar(&[("debian-binary", b"2.0\n"), ("_own", b"odd"), (control_name, control_tar), ("data.tar", b"never read")])
    }

    #[test]
    fn the_control_paragraph_is_found_in_every_compression() {
        let plain = tar("./control", CONTROL.as_bytes());
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&plain).unwrap();
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
        xz.write_all(&plain).unwrap();
        for (name, packed) in [
            ("control.tar", plain.clone()),
            ("control.tar.gz/", gzip.finish().unwrap()),
            ("control.tar.xz", xz.finish().unwrap()),
            ("control.tar.zst", zstd::encode_all(&plain[..], 1).unwrap()),
        ] {
            assert_eq!(control(&deb(name, &packed)[..]).unwrap(), CONTROL.trim_end(), "{name}");
        }
    }

    #[test]
    fn what_is_no_package_is_refused() {
        let good = tar("control", CONTROL.as_bytes());
        let whole = deb("control.tar", &good);
        assert!(control(&whole[..]).is_ok());
        for end in [0, 7, 20, 100, 300, 800] {
            assert!(control(&whole[..end]).is_err(), "cut at {end}");
        }
        let two = format!("{CONTROL}\n{CONTROL}");
        for bad in [
            b"<html>log in</html>".to_vec(),
            ar(&[("data.tar", b"x")]),
            ar(&[("debian-binary", b"3.0\n"), ("control.tar", &good)]),
            ar(&[("debian-binary", b"2.0\n"), ("data.tar", b"x")]),
            deb("control.tar", &tar("./elsewhere", CONTROL.as_bytes())),
            deb("control.tar", &tar("control", two.as_bytes())),
            deb("control.tar", &tar("control", b"Package: a\n")),
            deb("control.tar", &tar("control", b"\xff\xfe")),
        ] {
            assert!(
                control(&bad[..]).is_err(),
                "{}",
                String::from_utf8_lossy(&bad).chars().take(200).collect::<String>()
            );
        }
    }
}
