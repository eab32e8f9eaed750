//! Addresses of packages: below which repository of their release they are, and which file they name.

use kubexm_manifests::os::{Profile, Profiles, Repository};
use kubexm_spec::lock::{Content, LockItem};
use kubexm_spec::{ArtifactKey, Platform};

/// A package's own address: the one of its sources that is below a repository of its release.
pub(super) fn own_address(item: &LockItem, os: &str, platform: Platform, file_name: &str) -> Option<String> {
    let profile = Profiles::embedded().all.get(os)?;
    let is_own =
        |source: &&String| repository(profile, platform, source).is_some() && file_name_of(source) == file_name;
    item.sources.iter().rev().find(is_own).cloned()
}

/// The own address of an item that is a package.
pub(crate) fn own(item: &LockItem) -> Option<String> {
    match (&item.key, &item.content, item.platform) {
        (ArtifactKey::Package { os, .. }, Content::File { file_name, .. }, Some(platform)) => {
            own_address(item, os, platform, file_name)
        }
        _ => None,
    }
}

/// The repository that an address is below.
pub(super) fn repository<'p>(profile: &'p Profile, platform: Platform, address: &str) -> Option<&'p Repository> {
    let below = |base: &str| address.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
    profile.repositories.iter().find(|one| below(&one.base(profile.family, platform.arch)))
}

/// The last part of an address, as its pool has it. (An epoch, where one has it there, stays `%3a`.)
pub(super) fn file_name_of(address: &str) -> String {
    let last = address.split(['?', '#']).next().unwrap_or(address).rsplit('/').next().unwrap_or_default();
    let mut bytes = Vec::with_capacity(last.len());
    let mut rest = last.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let decoded = behind.get(..2).filter(|_| *first == b'%').and_then(|hex| {
            let byte = u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?;
            // No part of a path, and no place or stream of a file on other systems.
            (byte.is_ascii_graphic() && !matches!(byte, b'/' | b':' | b'\\' | b'%')).then_some(byte)
        });
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
