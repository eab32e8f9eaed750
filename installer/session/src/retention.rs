//! Which backups of a place are kept.

use std::collections::BTreeSet;
use std::path::Path;

use kubexm_engine::EventSink;
use kubexm_engine::backup::{BackupAbout, BackupError, BackupHeader};
use kubexm_spec::Digest;

use crate::events;

/// Fails for a backup that this home cannot open, or that nobody who is trusted has made.
pub(crate) type IsKnown<'a> = &'a (dyn Fn(&Path, &BackupHeader) -> Result<(), BackupError> + Sync);

/// A backup that is whole, as far as sizes tell, and that somebody who is trusted has made. Only [`Candidates::kept`] creates
/// one.
pub(crate) struct Kept {
    /// Where, for people.
    pub at: String,
    /// In its place.
    pub name: String,
    /// In seconds of Unix time.
    created: i64,
    /// Of its archive.
    sha256: Digest,
}

/// What a place has besides the backup that was just made.
pub(crate) struct Others {
    pub whole: Vec<Kept>,
    /// Why it may have more; only a server's place, which may list without end.
    pub not_looked_at: Option<String>,
}

/// Which backups of a place can be among those that are kept, or go.
#[derive(Clone, Copy)]
pub(crate) struct Candidates<'a> {
    /// The one that was just made.
    pub newest: &'a BackupAbout,
    pub is_known: IsKnown<'a>,
    pub events: &'a dyn EventSink,
}

impl Candidates<'_> {
    /// A backup whose archive has so many bytes there; none if it is not a whole one of this cluster. One of a stranger, for
    /// which another would go, is left alone and does not count. Called before the next header is read: each may take half a
    /// GiB of memory, whoever wrote it.
    pub fn kept(&self, at: String, name: String, header: &BackupHeader, archive: u64) -> Option<Kept> {
        let about = &header.about;
        // Hosts say the id, and another cluster's can be learned. The name is of this home's cluster.yaml.
        let is_of = about.cluster == self.newest.cluster && about.cluster_id == self.newest.cluster_id;
        if !is_of || about.archive.size != archive {
            return None;
        }
        match (self.is_known)(Path::new(&at), header) {
            Ok(()) => Some(Kept { at, name, created: about.created, sha256: about.archive.sha256 }),
            Err(error) => {
                events::warning(self.events, format!("it stays, and does not count: {error}"));
                None
            }
        }
    }
}

/// Of the backups of a cluster besides the one that was just made, those that go, the oldest first. The new one is kept whatever the
/// clock says, and so is one that claims to be newer.
pub(crate) fn too_old(mut all: Vec<Kept>, newest: &BackupAbout, keep: usize, events: &dyn EventSink) -> Vec<Kept> {
    all.sort_by(|one, other| (one.created, &one.at).cmp(&(other.created, &other.at)));
    // A header can be copied, and the size of its archive can be had for nothing.
    let mut known = BTreeSet::from([newest.archive.sha256]);
    all.retain(|one| {
        let first = known.insert(one.sha256);
        if !first {
            let text = format!("{} has the archive of another backup; it stays, and does not count", one.at);
            events::warning(events, text);
        }
        first
    });
    let is_later = |one: &Kept| one.created > newest.created;
    let later: Vec<String> = all.iter().filter(|one| is_later(one)).map(|one| one.at.clone()).collect();
    if !later.is_empty() {
        let text = "these backups say that they are newer than the one that was just made, so a clock was wrong or they were forged; \
                    they stay, and do not count";
        events::warning(events, format!("{text}: {}", later.join(", ")));
        all.retain(|one| !is_later(one));
    }
    let goes = all.len().saturating_sub(keep.saturating_sub(1));
    all.truncate(goes);
    all
}
