//! A lock that is made and written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kubexm_files::put;
use kubexm_manifests::Notice;
use kubexm_manifests::{Checked, Doubt};
use kubexm_spec::Lock;
use serde::Serialize;
use tokio::runtime::Handle;

use super::kinds;
use super::outputs::apart;
use crate::session::{Fetching, Needed, Selection, Session, SessionError, lockfile};

/// What was locked.
#[derive(Debug, Serialize)]
pub struct Locked<'n> {
    /// The lock's file; `-` of standard output.
    pub file: PathBuf,
    pub zone: Option<String>,
    pub kubernetes: Option<String>,
    /// By number.
    pub artifacts: usize,
    /// Of all blobs.
    pub bytes: u64,
    /// How many items are trusted for which reason.
    pub trust: BTreeMap<String, usize>,
    pub unverified: &'n [Doubt],
    pub verified: &'n [Checked],
    pub notices: &'n [Notice],
}

/// Refuses a place that the lock may not be written to, and what fetching would be refused for.
pub fn check(
    session: &Session,
    target: &Path,
    selection: &Selection,
    fetching: &Fetching,
    force: bool,
) -> Result<(), SessionError> {
    apart(target, &session.inputs(selection))?;
    kubexm_files::check(target, &kinds::LOCK, force)?;
    session.check_fetching(fetching)
}

/// Locks everything that is needed.
pub fn lock(session: &Session, needed: &Needed, fetching: &Fetching, runtime: &Handle) -> Result<Lock, SessionError> {
    let origins = session.origins(fetching)?;
    Ok(runtime.block_on(session.lock(needed, &origins, fetching.jobs))?)
}

/// Writes the lock: complete, or not at all.
pub fn write<'n>(
    target: &Path,
    lock: &Lock,
    needed: &'n Needed,
    force: bool,
    stdout: &dyn Fn(&[u8]),
) -> Result<Locked<'n>, SessionError> {
    put(target, &kinds::LOCK, force, lockfile::text(lock)?.as_bytes(), stdout)?;
    let mut trust = BTreeMap::new();
    for item in &lock.items {
        *trust.entry(item.trust.to_string()).or_default() += 1;
    }
    Ok(Locked {
        file: target.to_owned(),
        zone: lock.zone.clone(),
        kubernetes: lock.kubernetes.clone(),
        artifacts: lock.items.len(),
        bytes: lock.blobs().values().sum(),
        trust,
        unverified: &needed.doubts,
        verified: &needed.verified,
        notices: &needed.notices,
    })
}
