//! `NAME.sums`: the files of a bundle in the form of `sha256sum -c`.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use kubexm_spec::Digest;

use crate::ArchiveError;
use crate::partial::Partial;
use crate::source::io_error;

/// What sums are never longer than, in bytes: more than the lines of 999 volumes.
pub(crate) const SUMS_LIMIT: u64 = 1 << 20;

/// Where the sums of a bundle are: `x.tar.zst` has `x.sums`, a name that `x.tar.zst.*` does not match.
pub fn path_of(bundle: &Path) -> PathBuf {
    let name = bundle.as_os_str().to_string_lossy();
    format!("{}.sums", name.strip_suffix(".tar.zst").unwrap_or(&name)).into()
}

/// Writes them, for files that lie beside.
pub fn write(sums: &Path, files: &[(Digest, String)]) -> Result<(), ArchiveError> {
    let partial = Partial::create(sums)?;
    partial.file().write_all(text(files).as_bytes()).map_err(io_error("write", partial.path()))?;
    partial.commit()
}

/// The lines, as `sha256sum` writes them.
pub fn text(files: &[(Digest, String)]) -> String {
    files.iter().map(|(digest, name)| format!("{}  {name}\n", digest.hex())).collect()
}

/// Reads them; lines of another form are an error.
pub fn read(sums: &Path) -> Result<Vec<(Digest, String)>, ArchiveError> {
    let mut text = String::new();
    let read = fs::File::open(sums).and_then(|file| file.take(SUMS_LIMIT + 1).read_to_string(&mut text));
    if read.map_err(io_error("read", sums))? as u64 > SUMS_LIMIT {
        let problem = format!("sums have at most {SUMS_LIMIT} bytes");
        return Err(ArchiveError::Damaged {
            path: sums.to_owned(),
            part: "the file".to_owned(),
            offset: SUMS_LIMIT,
            problem,
        });
    }
    parse(&text, sums)
}

/// The same of their text; `sums` is where it was, for people.
pub fn parse(text: &str, sums: &Path) -> Result<Vec<(Digest, String)>, ArchiveError> {
    text.lines()
        .enumerate()
        .map(|(number, line)| {
            let wrong = || ArchiveError::Damaged {
                path: sums.to_owned(),
                part: format!("line {}", number + 1),
                offset: 0,
                problem: "it is not a digest, two blanks and a name".to_owned(),
            };
            let (hex, name) = line.split_once("  ").ok_or_else(wrong)?;
            Ok((Digest::from_hex(hex).map_err(|_| wrong())?, name.to_owned()))
        })
        .collect()
}
