//! What the depot of this host has: its configuration, the records of bundles beside it, and the blobs in the store. Read-only.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;

use kubexm_plan::depot::{self, DepotContent, Filled, RecordedBundle};
use kubexm_spec::Digest;
use kubexm_spec::depot::DepotConfig;

use crate::{Machine, OpError, fsio};

/// The end of a record's name while the depot may serve it still.
pub(crate) const LEAVING: &str = ".leaving";

/// Looks at it.
///
/// # Errors
/// The configuration is there and cannot be read, or a folder cannot.
pub fn look(machine: &Machine) -> Result<DepotContent, OpError> {
    let mut content = DepotContent { config: config(machine)?, blobs: blobs(machine)?, ..DepotContent::default() };
    for name in fsio::names(&machine.path(depot::BUNDLES))? {
        // One on its way out may be served still.
        let recorded = name.strip_suffix(LEAVING).unwrap_or(&name).strip_suffix(depot::RECORD);
        let (bundle, served) = match (name.strip_suffix(depot::LEFT), recorded) {
            (Some(bundle), _) => (bundle, false),
            (None, Some(bundle)) => (bundle, true),
            (None, None) => continue,
        };
        let path = format!("{}/{name}", depot::BUNDLES);
        match record(machine, &path) {
            Ok(Some(found)) if served => drop(content.bundles.entry(bundle.to_owned()).or_insert(found)),
            Ok(Some(found)) => drop(content.left.insert(bundle.to_owned(), found)),
            // It has gone meanwhile.
            Ok(None) => {}
            Err(error) => drop(content.unreadable.insert(path, error.full())),
        }
    }
    Ok(content)
}

/// The digests that nothing may delete: what the depot's configuration and the records of bundles name, and what the ledger needs.
pub(crate) fn needed(machine: &Machine) -> Result<BTreeSet<Digest>, OpError> {
    let found = look(machine)?;
    if let Some((path, why)) = found.unreadable.first_key_value() {
        return Err(OpError::other(format!("{path} cannot be read, so nobody knows which blobs it needs: {why}")));
    }
    let mut needed = Filled::of(&machine.ledger().records()?).needed;
    needed.extend(found.config.iter().flat_map(depot::named));
    needed.extend(found.bundles.values().flat_map(|bundle| depot::named(&bundle.content)));
    Ok(needed)
}

/// What the records of bundles name, by repository: nothing of it may go from a registry beside the depot.
///
/// # Errors
/// One of them needs something of this; the text says that another run has changed the registry.
pub(crate) fn refuse_needed(machine: &Machine, going: &[(&str, BTreeSet<Digest>)]) -> Result<(), OpError> {
    let found = look(machine)?;
    for (name, digests) in going {
        let needs = found.bundles.iter().find_map(|(bundle, recorded)| {
            let repository = recorded.content.images.get(*name)?;
            let all: BTreeSet<Digest> =
                repository.tags.values().chain(&repository.manifests).chain(&repository.blobs).copied().collect();
            let needed = digests.intersection(&all).next()?;
            Some((bundle, *needed))
        });
        if let Some((bundle, digest)) = needs {
            return Err(OpError::other(format!(
                "{name}@{digest} is needed by the bundle {bundle} by now, and nothing of it was removed: another run has changed the registry \
                 since this was planned; run `kubexm-install registry prune` again"
            )));
        }
    }
    Ok(())
}

/// Takes away the records that are served no more: their blobs are gone.
pub(crate) fn forget_left(machine: &Machine) -> Result<(), OpError> {
    let folder = machine.path(depot::BUNDLES);
    let left = fsio::names(&folder)?.into_iter().filter(|name| name.ends_with(depot::LEFT));
    left.map(|name| folder.join(name)).try_for_each(|path| fsio::remove(&path))
}

fn config(machine: &Machine) -> Result<Option<DepotConfig>, OpError> {
    let Some(bytes) = fsio::read(&machine.path(depot::CONFIG))? else { return Ok(None) };
    parse(depot::CONFIG, &bytes).map(Some)
}

fn parse(path: &str, bytes: &[u8]) -> Result<DepotConfig, OpError> {
    serde_json::from_slice(bytes).map_err(|error| {
        OpError::other(format!(
            "{path} is no configuration of a depot that this program can read: {error}; `kubexm-install create` with the bundle \
             writes it again"
        ))
    })
}

fn record(machine: &Machine, path: &str) -> Result<Option<RecordedBundle>, OpError> {
    let real = machine.path(path);
    let Some(bytes) = fsio::read(&real)? else { return Ok(None) };
    let written = real.metadata().map_err(OpError::path("look at", &real))?.mtime();
    Ok(Some(RecordedBundle { digest: Digest::of(&bytes), written, content: parse(path, &bytes)? }))
}

fn blobs(machine: &Machine) -> Result<BTreeMap<Digest, u64>, OpError> {
    let blob = machine.blob(&Digest::of(b""));
    let folder = blob.parent().unwrap_or(&blob);
    let mut blobs = BTreeMap::new();
    for name in fsio::names(folder)? {
        // Parts of transfers have other names.
        let Ok(digest) = Digest::from_hex(&name) else { continue };
        if let Ok(found) = folder.join(&name).symlink_metadata()
            && found.is_file()
        {
            blobs.insert(digest, found.len());
        }
    }
    Ok(blobs)
}
