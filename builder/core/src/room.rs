//! Whether what a build writes has room: asked before anything is fetched, of sizes that are known by then.
//!
//! Nothing is refused that may fit. Of the bundle only what is stored as it is counts, since the rest may compress; other programs
//! may write there too, so that a disk can still become full.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{BuildError, disk};

/// Bytes that will be written below a folder.
#[derive(Clone, Debug)]
pub struct Need<'a> {
    /// A file or folder that will be written; it need not exist yet.
    pub path: &'a Path,
    /// `the bundle`, `the cache`.
    pub what: &'static str,
    /// At least so many.
    pub bytes: u64,
}

/// Refuses what cannot fit, all on one file system together.
pub fn check(needs: &[Need<'_>]) -> Result<(), BuildError> {
    let mut disks: Vec<(u64, PathBuf, u64, Vec<&'static str>)> = Vec::new();
    for need in needs.iter().filter(|need| need.bytes > 0) {
        // Where even that cannot be asked, the write itself gives the better error.
        let Some((folder, device)) = folder_of(need.path) else { continue };
        match disks.iter_mut().find(|(other, ..)| *other == device) {
            Some((_, _, bytes, whats)) => {
                *bytes = bytes.saturating_add(need.bytes);
                whats.push(need.what);
            }
            None => disks.push((device, folder, need.bytes, vec![need.what])),
        }
    }
    let full = disks.into_iter().filter_map(|(_, path, needed, whats)| {
        let free = disk::free(&path).ok().filter(|free| *free < needed)?;
        Some(BuildError::NoRoom { path, what: whats.join(" and "), free, needed })
    });
    let full: Vec<BuildError> = full.collect();
    if full.is_empty() { Ok(()) } else { Err(BuildError::from_many(full)) }
}

/// The nearest folder that exists, and its file system.
fn folder_of(path: &Path) -> Option<(PathBuf, u64)> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find_map(|folder| match folder.metadata() {
        Ok(found) if found.is_dir() => Some(Some((folder.to_owned(), found.dev()))),
        Ok(_) => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(None),
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_together_is_refused_and_what_may_fit_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (bundle, cache) = (folder.path().join("out.tar.zst"), folder.path().join("not/yet/there"));
        let half = disk::free(folder.path()).unwrap() / 2;
        let needs = |bytes: u64| {
            [Need { path: &bundle, what: "the bundle", bytes }, Need { path: &cache, what: "the cache", bytes }]
        };
        assert!(check(&needs(half / 4)).is_ok());
        assert!(check(&needs(half + half / 2)[..1]).is_ok(), "alone it fits");
        let error = check(&needs(half + half / 2)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("the bundle and the cache") && text.contains("free"), "{text}");
        assert_eq!(error.exit_code(), kubexm_spec::ExitCode::Disk);
    }
}
