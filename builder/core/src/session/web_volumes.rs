//! The volumes of a split bundle on a web server, read in place like those on a disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use kubexm_archive::ReadAt;
use kubexm_transport::HttpFile;

/// The most volumes: their numbers have three digits.
pub(super) const MOST: u32 = 999;

/// How the names of bundles end.
const SUFFIX: &str = ".tar.zst";

/// The address of a volume of the bundle at an address: the number goes before a query.
pub(super) fn address_of(bundle: &str, number: u32) -> String {
    let (path, rest) = split(bundle);
    format!("{path}.{number:03}{rest}")
}

/// The address of the bundle that a volume is of, where an address names a volume.
pub(super) fn bundle_of(volume: &str) -> Option<String> {
    let (path, rest) = split(volume);
    let (bundle, digits) = path.rsplit_once('.')?;
    let is_number = digits.len() == 3 && digits.bytes().all(|digit| digit.is_ascii_digit());
    (is_number && bundle.ends_with(SUFFIX)).then(|| format!("{bundle}{rest}"))
}

fn split(address: &str) -> (&str, &str) {
    address.split_at(address.find(['?', '#']).unwrap_or(address.len()))
}

/// All volumes as one row of bytes.
#[derive(Debug)]
pub(super) struct WebVolumes {
    /// Each with the offset of its first byte.
    parts: Vec<(u64, Arc<HttpFile>)>,
    len: u64,
}

impl WebVolumes {
    /// Of volumes in their order.
    pub(super) fn new(files: Vec<Arc<HttpFile>>) -> Self {
        let (mut parts, mut len) = (Vec::with_capacity(files.len()), 0);
        for file in files {
            let start = len;
            len += file.len();
            parts.push((start, file));
        }
        Self { parts, len }
    }

    fn part(&self, offset: u64) -> Option<&(u64, Arc<HttpFile>)> {
        self.parts.get(self.parts.partition_point(|(start, _)| *start <= offset).checked_sub(1)?)
    }
}

impl ReadAt for WebVolumes {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some((start, file)) = self.part(offset).filter(|_| offset < self.len) else { return Ok(0) };
        let left = usize::try_from(start + file.len() - offset).unwrap_or(usize::MAX).min(buffer.len());
        file.read_at(&mut buffer[..left], offset - start)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn locate(&self, offset: u64) -> Option<(PathBuf, u64)> {
        let (start, file) = self.part(offset)?;
        Some((PathBuf::from(file.name()), offset - start))
    }

    fn has_changed(&self) -> bool {
        self.parts.iter().any(|(_, file)| file.has_changed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_volume_goes_before_a_query_and_comes_off_again() {
        let bundle = "https://h/a.b/x.tar.zst?token=1.tar.zst.002";
        assert_eq!(address_of(bundle, 7), "https://h/a.b/x.tar.zst.007?token=1.tar.zst.002");
        assert_eq!(bundle_of(&address_of(bundle, 7)).as_deref(), Some(bundle));
        for other in ["https://h/x.tar.zst", "https://h/x.tar.zst.01", "https://h/x.bin.001", "https://h/x.tar.zst.abc"]
        {
            assert_eq!(bundle_of(other), None, "{other}");
        }
    }
}
