//! Which backups of a folder are kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kubexm_engine::EventSink;
use kubexm_engine::backup::{ARCHIVE, BackupAbout, BackupError, BackupHeader, HEADER};

use crate::error::SessionError;
use crate::events;

/// Fails for a backup that this home cannot open, or that nobody who is trusted has made.
pub(crate) type IsKnown<'a> = &'a dyn Fn(&Path, &BackupHeader) -> Result<(), BackupError>;

/// Removes the older backups of this cluster. The one that was just made is kept whatever the clock says, and so is one that claims to
/// be newer. What is not a whole backup is left alone, and does not count; nor does one of a stranger, for which another would go.
pub(crate) fn retain(
    to: &Path,
    (made, newest): (&Path, &BackupAbout),
    (keep, is_known): (usize, IsKnown<'_>),
    events: &dyn EventSink,
) -> Result<Vec<PathBuf>, SessionError> {
    let entries = fs::read_dir(to).map_err(|error| SessionError::disk("list", to, &error))?;
    let mut all: Vec<(i64, PathBuf, kubexm_spec::Digest)> = entries
        .flatten()
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
        // No link: what it points at is somebody else's.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.path() != made)
        .filter_map(|entry| {
            let header = BackupHeader::read(&entry.path()).ok()?;
            let about = &header.about;
            let size = fs::symlink_metadata(entry.path().join(ARCHIVE)).ok()?.len();
            if about.cluster_id != newest.cluster_id || size != about.archive.size {
                return None;
            }
            match is_known(&entry.path(), &header) {
                Ok(()) => Some((about.created, entry.path(), about.archive.sha256)),
                Err(error) => {
                    events::warning(events, format!("it stays, and does not count: {error}"));
                    None
                }
            }
        })
        .collect();
    all.sort();
    // A header can be copied, and the size of its archive can be had for nothing.
    let mut known = BTreeSet::from([newest.archive.sha256]);
    all.retain(|(_, folder, archive)| {
        let first = known.insert(*archive);
        if !first {
            let text = format!("{} has the archive of another backup; it stays, and does not count", folder.display());
            events::warning(events, text);
        }
        first
    });
    let later: Vec<String> = all
        .iter()
        .filter(|(created, ..)| *created > newest.created)
        .map(|(_, path, _)| path.display().to_string())
        .collect();
    if !later.is_empty() {
        let text = "these backups say that they are newer than the one that was just made, so a clock was wrong or they were forged; \
                    they stay, and do not count";
        events::warning(events, format!("{text}: {}", later.join(", ")));
        all.retain(|(created, ..)| *created <= newest.created);
    }
    let goes = all.len().saturating_sub(keep.saturating_sub(1));
    let mut removed = Vec::new();
    for (_, folder, _) in all.into_iter().take(goes) {
        // The header goes last: without it nobody would know what the rest is.
        let remove = || {
            fs::remove_file(folder.join(ARCHIVE))?;
            fs::remove_file(folder.join(HEADER))?;
            fs::remove_dir(&folder)
        };
        remove().map_err(|error| SessionError::disk("remove", &folder, &error))?;
        removed.push(folder);
    }
    Ok(removed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::partial_backup::Partial;
    use kubexm_engine::OperatorIdentity;
    use kubexm_engine::backup::BackupKey;
    use kubexm_engine::events::Silent;
    use kubexm_plan::backup::{Archive, SnapshotFacts};
    use kubexm_plan::{ClusterId, Recipient};
    use kubexm_spec::Digest;

    fn about(id: u8, created: i64) -> BackupAbout {
        BackupAbout {
            cluster: "red".to_owned(),
            cluster_id: ClusterId::from_random([id; 16]),
            created,
            kubernetes: None,
            host: "cp1".to_owned(),
            program: "test".to_owned(),
            recipients: vec![Recipient { key: BackupKey::generate().recipient(), name: None }],
            archive: Archive { sha256: Digest::of(format!("{id} {created}")), size: 7 },
            etcd: SnapshotFacts { revision: 1, keys: 1, size: 1 },
            had: None,
        }
    }

    fn backup(to: &Path, name: &str, about: BackupAbout) {
        let partial = Partial::create(to, name).unwrap();
        let home = tempfile::tempdir().unwrap();
        let own = OperatorIdentity::read_or_make(&home.path().join("identity"), &|_| Err(String::new())).unwrap();
        let header = BackupHeader::seal(about, &BackupKey::generate(), &own).unwrap();
        fs::write(partial.folder.join(HEADER), header.to_json().unwrap()).unwrap();
        fs::write(partial.folder.join(ARCHIVE), "archive").unwrap();
        partial.finish().unwrap();
    }

    fn names(to: &Path) -> Vec<String> {
        let entries = fs::read_dir(to).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    }

    #[test]
    fn older_backups_of_this_cluster_go_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path();
        for (name, id, created) in [("red-1", 1, 10), ("red-2", 1, 20), ("red-3", 1, 30), ("red-0", 2, 1)] {
            backup(to, name, about(id, created));
        }
        fs::create_dir(to.join("photos")).unwrap();
        fs::write(to.join("photos").join(HEADER), "{}").unwrap();
        fs::write(to.join("notes"), "mine").unwrap();
        let anybody: IsKnown<'_> = &|_, _| Ok(());
        let retain = |keep| retain(to, (&to.join("red-3"), &about(1, 30)), (keep, anybody), &Silent).unwrap();
        assert_eq!(retain(5), Vec::<PathBuf>::new());
        assert_eq!(retain(1), [to.join("red-1"), to.join("red-2")]);
        assert_eq!(names(to), ["notes", "photos", "red-0", "red-3"]);
    }

    #[test]
    fn the_backup_that_was_just_made_stays_whatever_the_clock_says_and_one_that_is_cut_off_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path();
        for (name, created) in [("red-1", 10), ("red-2", 20), ("red-3", 30), ("red-4", i64::MAX)] {
            backup(to, name, about(1, created));
        }
        let elsewhere = tempfile::tempdir().unwrap();
        backup(elsewhere.path(), "red-0", about(1, 1));
        std::os::unix::fs::symlink(elsewhere.path().join("red-0"), to.join("red-0")).unwrap();
        fs::write(to.join("red-2").join(ARCHIVE), "cut").unwrap();
        // Made with a clock that went back.
        let anybody: IsKnown<'_> = &|_, _| Ok(());
        let retain = |keep| retain(to, (&to.join("red-1"), &about(1, 10)), (keep, anybody), &Silent).unwrap();
        assert_eq!(retain(1), Vec::<PathBuf>::new());
        let retain = |keep| super::retain(to, (&to.join("red-3"), &about(1, 30)), (keep, anybody), &Silent).unwrap();
        assert_eq!(retain(2), Vec::<PathBuf>::new());
        assert_eq!(retain(1), [to.join("red-1")]);
        assert_eq!(names(to), ["red-0", "red-2", "red-3", "red-4"]);
        assert!(elsewhere.path().join("red-0").join(ARCHIVE).is_file());
    }

    #[test]
    fn copies_of_one_backup_count_once() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path();
        for (name, created) in [("red-1", 10), ("red-2", 20), ("red-2-copy", 20), ("red-3", 30)] {
            backup(to, name, about(1, created));
        }
        let anybody: IsKnown<'_> = &|_, _| Ok(());
        assert!(retain(to, (&to.join("red-3"), &about(1, 30)), (3, anybody), &Silent).unwrap().is_empty());
        assert_eq!(names(to), ["red-1", "red-2", "red-2-copy", "red-3"]);
    }

    #[test]
    fn backups_of_strangers_stay_and_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path();
        for (name, created) in [("red-1", 10), ("red-2", 20), ("red-3", 30)] {
            backup(to, name, about(1, created));
        }
        let is_known: IsKnown<'_> = &|folder, _| match folder.ends_with("red-2") {
            true => Err(BackupError::CannotMake("a stranger made it".to_owned())),
            false => Ok(()),
        };
        let removed = retain(to, (&to.join("red-3"), &about(1, 30)), (2, is_known), &Silent).unwrap();
        assert_eq!((removed, names(to)), (Vec::new(), ["red-1", "red-2", "red-3"].map(str::to_owned).to_vec()));
        let removed = retain(to, (&to.join("red-3"), &about(1, 30)), (1, is_known), &Silent).unwrap();
        assert_eq!(removed, [to.join("red-1")]);
    }

    #[test]
    fn a_backup_that_was_not_finished_leaves_nothing_and_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let partial = Partial::create(folder.path(), "red-1").unwrap();
        fs::write(partial.folder.join(ARCHIVE), "half").unwrap();
        assert_eq!(names(folder.path()), [".red-1.partial"]);
        drop(partial);
        assert_eq!(names(folder.path()), Vec::<String>::new());
        backup(folder.path(), "red-1", about(1, 1));
        let Err(error) = Partial::create(folder.path(), "red-1") else { unreachable!("there is one") };
        assert!(error.to_string().contains("is there already"), "{error}");
    }
}
