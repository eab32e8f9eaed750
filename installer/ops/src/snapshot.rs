//! Files with a snapshot of etcd: their checksum, and what etcd's own tool reads in them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use kubexm_spec::digest::Hasher;
use serde::Deserialize;

use crate::system::Program;
use crate::{Machine, OpError};

/// Size of the checksum (SHA-256) that etcd appends to the pages of its database (etcd, `snapshot/v3_snapshot.go`).
const CHECKSUM: u64 = 32;
/// The smallest page, to which a database is aligned.
const PAGE: u64 = 512;
const LIMIT_S: u64 = 600;

/// What etcdutl reads in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub revision: i64,
    #[serde(alias = "totalKeys")]
    pub total_key: u64,
}

/// Whether the file ends with the checksum of what comes before. A file that was cut off, or was copied from a data
/// directory, does not.
pub fn is_sound(path: &Path) -> Result<bool, OpError> {
    let failed = OpError::path("read", path);
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    sound(&mut file).map_err(failed)
}

fn sound(file: &mut File) -> std::io::Result<bool> {
    let size = file.metadata()?.len();
    if size <= CHECKSUM || size % PAGE != CHECKSUM {
        return Ok(false);
    }
    let mut hasher = Hasher::default();
    let mut left = size - CHECKSUM;
    let mut buffer = vec![0; 1 << 17];
    file.seek(SeekFrom::Start(0))?;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = file.read(&mut buffer[..most])?;
        if count == 0 {
            return Ok(false);
        }
        hasher.update(&buffer[..count]);
        left -= count as u64;
    }
    let mut checksum = [0; 32];
    file.read_exact(&mut checksum)?;
    let hex: String = checksum.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(hasher.finish().hex() == hex)
}

/// What etcdutl reads in a database file: fails if that is damaged.
pub fn status(machine: &Machine, path: &str) -> Result<Status, OpError> {
    let real = machine.path(path).display().to_string();
    let program = Program::new("etcdutl").args(["snapshot", "status", &real, "--write-out", "json"]).within(LIMIT_S);
    let output = machine.run(&program)?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| OpError::other(format!("`{program}` did not answer what was expected: {error}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn snapshot(pages: usize) -> Vec<u8> {
        let data: Vec<u8> = (0..pages * 512).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let hex = kubexm_spec::Digest::of(&data).hex().to_owned();
        let sum = (0..32).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap());
        data.iter().copied().chain(sum).collect()
    }

    #[test]
    fn a_snapshot_that_was_cut_off_or_altered_anywhere_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let is = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            is_sound(&path).unwrap()
        };
        let whole = snapshot(600);
        assert!(is(&whole));
        for cut in [0, 1, 31, 32, 512, 544, whole.len() - 1, whole.len() - 32, whole.len() - 512] {
            assert!(!is(&whole[..cut]), "cut to {cut} bytes");
        }
        for at in [0, 511, 200_000, whole.len() - 33, whole.len() - 1] {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            assert!(!is(&altered), "altered at {at}");
        }
        assert!(!is_sound(&folder.path().join("nothing")).unwrap());
    }
}
