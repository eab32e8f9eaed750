//! The data of a member of etcd from a backup's archive, made in a folder of its own: whoever calls this puts it where the member reads it.

use std::path::Path;

use kubexm_plan::SlotName;
use kubexm_spec::Digest;

use crate::system::Program;
use crate::{Machine, OpError, backup, fsio, snapshot};

const LIMIT_S: u64 = 3_600;
/// Far more than a cluster writes between a backup and its restore.
const LEAST_BUMP: u64 = 1_000_000_000;
/// More than etcd writes in a second, for as long as a cluster lives.
const WRITES_A_SECOND: u64 = 1_000;
/// Revisions are 63 bits, and each restore adds to them.
const MOST_BUMP: u64 = 1 << 53;

/// One member, and what it gets.
pub(crate) struct MemberData<'a> {
    /// Blob of the node's store: the encrypted archive.
    pub archive: &'a Digest,
    /// The slots of the op: one, with the key of the archive.
    pub slots: &'a [SlotName],
    /// Of the restore; see [`bump`].
    pub id: &'a str,
    pub name: &'a str,
    /// `https://10.0.0.1:2380`.
    pub peer: &'a str,
    /// Every member: `n1=https://10.0.0.1:2380,…`.
    pub initial_cluster: &'a str,
}

/// Before anything is changed.
pub(crate) fn can_restore(machine: &Machine) -> Result<(), OpError> {
    let help = machine.run(&Program::new("etcdutl").args(["snapshot", "restore", "--help"]).within(60))?;
    match String::from_utf8_lossy(&help.stdout).contains("--bump-revision") {
        true => Ok(()),
        false => Err(OpError::other(
            "etcdutl of this host cannot raise revisions (`--bump-revision`, since 3.5.10 and 3.6), without which clients take older \
             data for newer: put the etcdutl of such a version into /usr/local/bin, then run again",
        )),
    }
}

/// Writes the snapshot of the archive to `database`, and restores it into the folder `scratch`. The snapshot, which is not encrypted, is
/// removed whatever happens.
pub(crate) fn restore(
    machine: &Machine,
    data: &MemberData<'_>,
    (database, scratch): (&Path, &Path),
) -> Result<(), OpError> {
    let [slot] = data.slots else {
        return Err(OpError::other("an archive has one key; this is a fault of the plan"));
    };
    let restored = backup::extract(&machine.blob(data.archive), machine.slot(slot)?, database)
        .and_then(|()| match snapshot::is_sound(database)? {
            true => Ok(()),
            false => Err(OpError::other("the snapshot in the archive does not match its checksum; use another backup")),
        })
        .and_then(|()| {
            remove_all(scratch)?;
            let restore = Program::new("etcdutl")
                .args(["snapshot", "restore", &database.display().to_string()])
                .args(["--data-dir", &scratch.display().to_string()])
                .args(["--name", data.name, "--initial-advertise-peer-urls", data.peer])
                .args(["--initial-cluster", data.initial_cluster])
                .args(["--initial-cluster-token", &format!("kubexm-restore-{}", data.id)])
                .args(["--bump-revision", &bump(data.id).to_string(), "--mark-compacted"])
                .within(LIMIT_S);
            machine.run(&restore).map(drop)
        });
    let removed = fsio::remove(database);
    restored?;
    removed
}

/// Also of what is not there.
pub(crate) fn remove_all(path: &Path) -> Result<(), OpError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(OpError::path("remove", path)(error)),
        _ => Ok(()),
    }
}

/// What revisions are raised by: clients that have seen later ones must not take older data for newer (etcd, "Disaster recovery").
/// What a restore of the same backup raises again is higher, since its id, the time, is: watches of clients of the first one go on.
fn bump(id: &str) -> u64 {
    id.parse::<u64>().unwrap_or_default().saturating_mul(WRITES_A_SECOND).clamp(LEAST_BUMP, MOST_BUMP)
}

#[cfg(test)]
mod tests {
    use super::{LEAST_BUMP, MOST_BUMP, bump};

    #[test]
    fn a_later_restore_of_the_same_backup_raises_revisions_beyond_those_of_the_first() {
        let (first, an_hour_later) = (bump("1795642200"), bump("1795645800"));
        assert!(first > LEAST_BUMP && an_hour_later - first >= 3_600_000, "{first} {an_hour_later}");
        assert_eq!([bump("1"), bump("no number")], [LEAST_BUMP; 2]);
        assert_eq!(bump("18446744073709551615"), MOST_BUMP);
    }
}
