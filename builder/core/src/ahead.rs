//! What a build is refused for before anything is fetched, by the sizes that are known by then: volumes that are too small, and disks
//! without room. Asked again when the lock has all sizes.

use std::collections::BTreeSet;
use std::path::Path;

use kubexm_archive::{ArchiveError, Encoding};
use kubexm_files::is_stdout;
use kubexm_manifests::requirements::Source;
use kubexm_spec::{Digest, Lock};
use kubexm_transport::Store;

use crate::base::Base;
use crate::origins::installer::Installers;
use crate::resolve::{Resolution, Resolved};
use crate::room::{self, Need};
use crate::{BuildError, pack, sizes};

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
struct Known {
    members: Vec<(u64, Encoding)>,
    absent: u64,
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
    let cache = ahead.cache.map(|path| Need { path, what: "the cache", bytes: known.absent });
    let folder = ahead.hand_over.map(|path| Need { path, what: "the hand-over folder", bytes: bundle });
    let needs = [Need { path: ahead.target, what: "the bundle", bytes: bundle }];
    room::check(&needs.into_iter().chain(folder).chain(cache).collect::<Vec<_>>())
}

fn of_lock(lock: &Lock, ahead: &Ahead<'_>) -> Known {
    let in_place = in_place(lock, ahead.resolution);
    let encodings = pack::encodings(lock);
    let mut known = Known::default();
    for (digest, size) in lock.blobs() {
        if ahead.base.is_some_and(|base| base.has(&digest)) {
            continue;
        }
        known.members.push((size, encodings.get(&digest).copied().unwrap_or(Encoding::Zstd)));
        if !in_place.contains(&digest) && ahead.store.is_none_or(|store| store.size(&digest).is_none()) {
            let begun = ahead.store.map_or(0, |store| store.partial_size(&digest));
            known.absent = known.absent.saturating_add(size.saturating_sub(begun));
        }
    }
    known
}

/// What a base has shows only when the digests are known.
fn of_resolution(ahead: &Ahead<'_>) -> Known {
    let mut known = Known { partly: ahead.base.is_none(), ..Known::default() };
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

/// Blobs that are packed from where they lie on this machine, and are not copied into the cache.
fn in_place(lock: &Lock, resolution: &Resolution) -> BTreeSet<Digest> {
    let in_place = |resolved: &Resolved| {
        matches!(resolved.requirement.source, Source::LocalFile { .. } | Source::LocalImage { .. } | Source::Installer)
    };
    // A lock may be of other needs: then the items differ, and the lock is refused for it.
    let items = lock.items.iter().zip(&resolution.items).filter(|(_, resolved)| in_place(resolved));
    items.flat_map(|(item, _)| item.blobs()).map(|(digest, _)| digest).collect()
}
