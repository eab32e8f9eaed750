//! What a build is refused for before anything is fetched, by the sizes that are known by then: volumes that are too small, and disks
//! without room. Asked again when the lock has all sizes.

use std::collections::BTreeSet;
use std::path::Path;

use kubexm_archive::{ArchiveError, Encoding};
use kubexm_files::is_stdout;
use kubexm_manifests::requirements::Source;
use kubexm_spec::{Lock, Platform};
use kubexm_transport::Store;

use crate::base::Base;
use crate::origins::installer::Installers;
use crate::resolve::{Resolution, Resolved};
use crate::room::{self, Need};
use crate::{BuildError, disk, pack, sizes};

/// What is written, and where to.
pub struct Ahead<'a> {
    pub resolution: &'a Resolution,
    /// The sizes of everything, where there is a lock.
    pub lock: Option<&'a Lock>,
    /// What need not be carried.
    pub base: Option<&'a Base>,
    /// The most bytes of a volume.
    pub split: Option<u64>,
    /// The bundle's file; `-` for standard output.
    pub target: &'a Path,
    /// The folder that the bundle is then copied into.
    pub hand_over: Option<&'a Path>,
    /// The cache's folder where it is known, and the cache where it exists.
    pub cache: Option<&'a Path>,
    pub store: Option<&'a Store>,
    pub installers: &'a Installers,
}

/// Members of the bundle that are known, and bytes that are not in the cache yet.
#[derive(Default)]
struct Known<'a> {
    members: Vec<(u64, Encoding)>,
    absent: u64,
    /// Files of this machine that are copied into the cache, by size: whether it has them shows only when they are read.
    local: Vec<(&'a Path, u64)>,
    /// Some sizes are not known.
    partly: bool,
}

/// Refuses what certainly cannot be written.
pub fn check(ahead: &Ahead<'_>) -> Result<(), BuildError> {
    let known = match ahead.lock {
        Some(lock) => of_lock(lock, ahead),
        None => of_resolution(ahead),
    };
    if let Some(split) = ahead.split {
        if known.partly && split < kubexm_archive::safe_split() {
            return Err(ArchiveError::SplitTooSmall { split, fits: kubexm_archive::safe_split() }.into());
        }
        kubexm_archive::check_split(split, &known.members)?;
    }
    let raw = known.members.iter().filter(|(_, encoding)| *encoding == Encoding::Raw).map(|(size, _)| size);
    let bundle = if is_stdout(ahead.target) { 0 } else { raw.sum() };
    let check = |local: u64| {
        let cache = ahead.cache.map(|path| Need { path, what: "the cache", bytes: known.absent.saturating_add(local) });
        let folder = ahead.hand_over.map(|path| Need { path, what: "the hand-over folder", bytes: bundle });
        let needs = [Need { path: ahead.target, what: "the bundle", bytes: bundle }];
        room::check(&needs.into_iter().chain(folder).chain(cache).collect::<Vec<_>>())
    };
    match check(known.local.iter().map(|(_, size)| size).sum()) {
        // What is in the cache already takes no more room in it, but for one at a time.
        Err(_) if !known.local.is_empty() => {
            let is_absent = |path: &Path| {
                let cached = |store: &Store| disk::digest(path).is_ok_and(|digest| store.size(&digest).is_some());
                !ahead.store.is_some_and(cached)
            };
            check(known.local.iter().filter(|(path, _)| is_absent(path)).map(|(_, size)| size).sum())
        }
        checked => checked,
    }
}

fn of_lock<'a>(lock: &Lock, ahead: &Ahead<'a>) -> Known<'a> {
    let encodings = pack::encodings(lock);
    let mut known = Known::default();
    for (digest, size) in lock.blobs() {
        if ahead.base.is_some_and(|base| base.has(&digest)) {
            continue;
        }
        known.members.push((size, encodings.get(&digest).copied().unwrap_or(Encoding::Zstd)));
        if ahead.store.is_none_or(|store| store.size(&digest).is_none()) {
            let begun = ahead.store.map_or(0, |store| store.partial_size(&digest));
            known.absent = known.absent.saturating_add(size.saturating_sub(begun));
        }
    }
    known
}

/// What a base has shows only when the digests are known.
fn of_resolution<'a>(ahead: &Ahead<'a>) -> Known<'a> {
    let mut known = Known { partly: ahead.base.is_none(), local: local(ahead), ..Known::default() };
    if ahead.base.is_some() {
        return known;
    }
    let all = sizes::known(ahead.resolution, None, ahead.store, ahead.installers);
    known.partly = all.iter().any(Option::is_none);
    for (resolved, parts) in ahead.resolution.items.iter().zip(&all) {
        let Some(size) = parts.as_ref().map(sizes::bytes) else { continue };
        let source = &resolved.requirement.source;
        let name = match source {
            Source::File { file_name, .. } => file_name.clone(),
            _ => resolved.requirement.key.name().into_owned(),
        };
        known.members.push((size, pack::encoding_of_file(&name)));
        if let Source::File { sha256: Some(digest), .. } = source
            && ahead.store.is_none_or(|store| store.size(digest).is_none())
        {
            let begun = ahead.store.map_or(0, |store| store.partial_size(digest));
            known.absent = known.absent.saturating_add(size.saturating_sub(begun));
        }
    }
    known
}

/// Files of this machine that go into the bundle, each once.
fn local<'a>(ahead: &Ahead<'a>) -> Vec<(&'a Path, u64)> {
    let path = |resolved: &'a Resolved| match &resolved.requirement.source {
        Source::LocalFile { path } => Some(path.as_path()),
        Source::Installer => ahead.installers.path(resolved.requirement.platform.unwrap_or(Platform::LINUX_AMD64)).ok(),
        _ => None,
    };
    let paths: BTreeSet<&Path> = ahead.resolution.items.iter().filter_map(path).collect();
    paths.into_iter().filter_map(|path| Some((path, path.metadata().ok()?.len()))).collect()
}
