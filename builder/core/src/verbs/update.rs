//! A lock that is made anew, whole or item by item.

use std::path::{Path, PathBuf};

use kubexm_manifests::Doubt;
use kubexm_spec::lock::LockItem;
use kubexm_spec::{ArtifactKey, Digest, ExitCode, Lock, Platform, Trust};
use serde::Serialize;
use tokio::runtime::Handle;

use super::kinds;
use crate::Difference;
use crate::diff::{Change, Changed};
use crate::drift::drift;
use crate::lock::Sizes;
use crate::locked::with_places;
use crate::resolve::resolve;
use crate::session::{Fetching, Locking, Needed, Session, SessionError, lockfile};
use crate::update::{changes, chosen, merged, only};

/// What is locked anew.
pub struct Request<'a> {
    /// The lock's file.
    pub file: &'a Path,
    /// Items by key, name or image; all of them when empty.
    pub items: &'a [String],
    /// Only the places where the items may be had.
    pub sources: bool,
    pub fetching: &'a Fetching,
    /// Nothing is written.
    pub dry_run: bool,
}

/// What has changed.
#[derive(Debug, Serialize)]
pub struct Updated<'n> {
    pub file: PathBuf,
    pub written: bool,
    pub changed: Vec<ChangedItem>,
    /// Items in all, by number.
    pub artifacts: usize,
    /// What is still not as needed.
    pub differences: Vec<Difference>,
    pub unverified: &'n [Doubt],
}

/// An item that was added, removed or changed.
#[derive(Debug, Serialize)]
pub struct ChangedItem {
    pub change: Change,
    pub key: ArtifactKey,
    pub platform: Option<Platform>,
    pub old: Option<Content>,
    pub new: Option<Content>,
    /// What else is other where version, digest and trust are the same.
    #[serde(skip)]
    pub only: Option<&'static str>,
}

/// An item of one of the two locks.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Content {
    pub version: String,
    pub digest: Digest,
    /// Of all its blobs, in bytes.
    pub size: u64,
    pub trust: Trust,
}

/// Reads the lock that is to be made anew; refuses one that may not be written.
pub fn read(request: &Request<'_>) -> Result<Lock, SessionError> {
    let old = lockfile::read(request.file)?;
    if !request.dry_run {
        kubexm_files::check(request.file, &kinds::LOCK, false)?;
    }
    Ok(old)
}

/// Locks anew and writes what has changed.
pub fn update<'n>(
    session: &Session,
    request: &Request<'_>,
    needed: &'n Needed,
    old: &Lock,
    runtime: &Handle,
) -> Result<Updated<'n>, SessionError> {
    let new = renewed(session, request, needed, old, runtime)?;
    let written = new != *old && !request.dry_run;
    if written {
        kubexm_files::write(request.file, &kinds::LOCK, false, lockfile::text(&new)?.as_bytes())?;
    }
    Ok(Updated {
        file: request.file.to_owned(),
        written,
        changed: changes(old, &new).iter().filter_map(changed).collect(),
        artifacts: new.items.len(),
        differences: drift(&needed.requirements, &new),
        unverified: &needed.doubts,
    })
}

fn renewed(
    session: &Session,
    request: &Request<'_>,
    needed: &Needed,
    old: &Lock,
    runtime: &Handle,
) -> Result<Lock, SessionError> {
    if request.sources {
        return Ok(with_places(&needed.requirements, old, &needed.catalogue, &needed.zone));
    }
    let whole = resolve(&needed.requirements, &needed.zone);
    let keys = match request.items {
        [] => None,
        words => Some(chosen(words, &needed.requirements, old).map_err(|(word, near)| unknown(&word, &near, ""))?),
    };
    let other = old.zone.as_ref().filter(|was| keys.is_some() && **was != whole.zone);
    if let Some(was) = other {
        let now = &whole.zone;
        let text = format!(
            "the lock was made in zone {was}, and this is {now}: give --zone {was}, or update all items; `kubexm-bundle update --sources` brings the lock into this zone without another digest"
        );
        return Err(SessionError::refused(ExitCode::Usage, text));
    }
    // What is solved is solved as one: a package by itself would not fit the others.
    let is_wanted = |os: &str| keys.as_ref().is_none_or(|keys| has_packages(keys, os));
    let needs: Vec<_> = needed.requirements.packages.iter().filter(|need| is_wanted(&need.os)).cloned().collect();
    let resolution = match &keys {
        Some(keys) => only(&whole, keys),
        None => whole,
    };
    // Images of charts that are locked already stay, unless everything is locked anew.
    let whole = |new| match &keys {
        Some(keys) => merged(old, &new, keys, &needed.requirements),
        None => new,
    };
    // Whoever names an item wants it right: a size is not asked for again that may have been a lie.
    let sizes = if keys.is_some() { Sizes::Fetched } else { Sizes::Reported };
    let origins = session.origins(request.fetching)?;
    let locking = Locking { resolution: &resolution, packages: &needs, sizes, jobs: request.fetching.jobs };
    Ok(runtime.block_on(session.lock_part(needed, &origins, &locking, whole))?)
}

/// Whether packages of an operating system are among what is named.
fn has_packages(keys: &[ArtifactKey], of: &str) -> bool {
    keys.iter().any(|key| matches!(key, ArtifactKey::Package { os, .. } if os == of))
}

fn changed(changed: &Changed<'_, LockItem>) -> Option<ChangedItem> {
    let named = changed.new.or(changed.old)?;
    let content = |item: &LockItem| Content {
        version: item.version.clone(),
        digest: item.digest(),
        size: size(item),
        trust: item.trust,
    };
    let (old, new) = (changed.old.map(content), changed.new.map(content));
    let what = |item: &LockItem| (item.version.clone(), item.digest(), item.trust);
    let only = match (changed.old, changed.new) {
        (Some(old), Some(new)) if what(old) != what(new) => None,
        (Some(old), Some(new)) if old.sources != new.sources => Some("sources"),
        (Some(_), Some(_)) => Some("parts"),
        _ => None,
    };
    Some(ChangedItem { change: changed.change(), key: named.key.clone(), platform: named.platform, old, new, only })
}

/// Bytes of all blobs of an item.
pub fn size(item: &LockItem) -> u64 {
    item.blobs().iter().map(|(_, size)| size).sum()
}

/// A name that stands for nothing, with the nearest ones; `more` is added to the text.
pub(super) fn unknown(word: &str, near: &[String], more: &str) -> SessionError {
    let near = if near.is_empty() { String::new() } else { format!("; the nearest are {}", near.join(", ")) };
    SessionError::refused(ExitCode::UnknownVersion, format!("nothing here is called {word:?}{near}{more}"))
}
