//! A bundle on a web server, in one file or in volumes, read in place like those on a disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use kubexm_archive::ReadAt;
use kubexm_spec::ExitCode;

use crate::http::shown;
use crate::{HttpFile, TransportError};

/// The most volumes: their numbers have three digits.
const MOST: u32 = 999;

/// How the names of bundles end.
const SUFFIX: &str = ".tar.zst";

/// The address of a volume of the bundle at an address: the number goes before a query.
fn address_of(bundle: &str, number: u32) -> String {
    let (path, rest) = split(bundle);
    format!("{path}.{number:03}{rest}")
}

/// The address of the bundle that a volume is of, where an address names a volume.
fn bundle_of(volume: &str) -> Option<String> {
    let (path, rest) = split(volume);
    let (bundle, digits) = path.rsplit_once('.')?;
    let is_number = digits.len() == 3 && digits.bytes().all(|digit| digit.is_ascii_digit());
    (is_number && bundle.ends_with(SUFFIX)).then(|| format!("{bundle}{rest}"))
}

fn split(address: &str) -> (&str, &str) {
    address.split_at(address.find(['?', '#']).unwrap_or(address.len()))
}

/// What is read of a bundle at an address, and its name for people. The address may be that of a file, of a volume, or the name
/// that the bundle was built with, where only volumes are there. `file_at` opens what is at an address.
pub fn open(
    address: &str,
    file_at: impl Fn(&str) -> Result<Arc<HttpFile>, TransportError>,
) -> Result<(PathBuf, Arc<dyn ReadAt>), TransportError> {
    if let Some(bundle) = bundle_of(address) {
        return volumes(&bundle, None, file_at);
    }
    match file_at(address) {
        Ok(file) => Ok((PathBuf::from(file.name()), file)),
        // The name that was given to `build --split -o`.
        Err(error) if error.exit_code() == ExitCode::OriginMissing => volumes(address, Some(error), file_at),
        Err(error) => Err(error),
    }
}

/// `address` is without the numbers. `missing`: why there is no file of that name.
fn volumes(
    address: &str,
    missing: Option<TransportError>,
    file_at: impl Fn(&str) -> Result<Arc<HttpFile>, TransportError>,
) -> Result<(PathBuf, Arc<dyn ReadAt>), TransportError> {
    let mut files = Vec::new();
    for number in 1..=MOST {
        match file_at(&address_of(address, number)) {
            Ok(file) => files.push(file),
            Err(error) if error.exit_code() == ExitCode::OriginMissing && files.is_empty() => {
                return Err(missing.unwrap_or(error));
            }
            Err(error) if error.exit_code() == ExitCode::OriginMissing => break,
            Err(error) => return Err(error),
        }
    }
    Ok((PathBuf::from(shown(address)), Arc::new(WebVolumes::new(files))))
}

/// All volumes as one row of bytes.
#[derive(Debug)]
struct WebVolumes {
    /// Each with the offset of its first byte.
    parts: Vec<(u64, Arc<HttpFile>)>,
    len: u64,
}

impl WebVolumes {
    /// Of volumes in their order.
    fn new(files: Vec<Arc<HttpFile>>) -> Self {
        let (starts, len) = starts(files.iter().map(|file| file.len()));
        Self { parts: starts.into_iter().zip(files).collect(), len }
    }

    fn part(&self, offset: u64) -> Option<&(u64, Arc<HttpFile>)> {
        self.parts.get(self.parts.partition_point(|(start, _)| *start <= offset).checked_sub(1)?)
    }
}

/// The offsets at which volumes of these sizes begin, and where the last one ends. A server may say any size.
fn starts(sizes: impl IntoIterator<Item = u64>) -> (Vec<u64>, u64) {
    let mut end = 0_u64;
    let starts = sizes.into_iter().map(|size| {
        let start = end;
        end = end.saturating_add(size);
        start
    });
    (starts.collect(), end)
}

impl ReadAt for WebVolumes {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some((start, file)) = self.part(offset).filter(|_| offset < self.len) else { return Ok(0) };
        let left = usize::try_from(start.saturating_add(file.len()).saturating_sub(offset))
            .unwrap_or(usize::MAX)
            .min(buffer.len());
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
    fn sizes_that_a_server_says_are_summed_without_an_overflow() {
        assert_eq!(starts([3, 0, 4]), (vec![0, 3, 3], 7));
        assert_eq!(starts([3, u64::MAX, 4]), (vec![0, 3, u64::MAX], u64::MAX));
        assert_eq!(starts([]), (vec![], 0));
    }

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
