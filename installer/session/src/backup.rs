//! Backups of a cluster: made on a control plane, kept in a folder of this machine, encrypted for the operators.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use kubexm_engine::backup::{
    ARCHIVE, BackupAbout, BackupError, BackupHeader, BackupKey, HEADER, read_contents, verify_archive, verify_contents,
};
use kubexm_engine::clock::rfc3339;
use kubexm_engine::link::Link;
use kubexm_engine::{ClusterLock, EventSink};
use kubexm_plan::backup::{Archive, BackedUpCluster, BackupAnswer, BackupAsk, CHUNK, SnapshotFacts};
use kubexm_plan::cluster_facts::EtcdMember;
use kubexm_plan::{ClusterFacts, Recipient};
use kubexm_spec::cluster::EtcdKind;
use kubexm_spec::digest::Hasher;
use kubexm_spec::{Cluster, Digest};
use zeroize::Zeroizing;

use crate::access::Access;
use crate::bundle::cluster_source::ClusterSource;
use crate::cluster_facts::{self, Asked};
use crate::error::SessionError;
use crate::events;
use crate::files;
use crate::fleet::{Fleet, Reach};
use crate::options::HostOptions;
use crate::session::Session;

/// Longer than an archive is: etcd's data has 8 GiB at most (its documentation, "System limits").
const LARGEST: u64 = 20 << 30;

/// Where a backup goes.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// The folder of backups; it is made if there is none.
    pub to: PathBuf,
    /// How many of this cluster are kept, the new one included; none for all.
    pub keep: Option<usize>,
}

/// A backup that was made.
#[derive(Clone, Debug)]
pub struct BackedUp {
    /// Its folder.
    pub folder: PathBuf,
    pub about: BackupAbout,
    /// Older ones of this cluster that were removed.
    pub removed: Vec<PathBuf>,
}

/// A backup that was read to its end.
#[derive(Clone, Debug)]
pub struct VerifiedBackup {
    pub about: BackupAbout,
    /// Files beside the snapshot of etcd.
    pub files: usize,
}

/// A backup that was verified to its end. Only [`Session::open_backup`] creates one.
pub(crate) struct OpenedBackup {
    pub folder: PathBuf,
    pub header: BackupHeader,
    pub key: BackupKey,
    /// Why it is not known who made it.
    pub unauthenticated: Option<String>,
    /// Files of its archive, by their path on the host. Secret.
    pub files: BTreeMap<String, Zeroizing<Vec<u8>>>,
}

impl Session<'_> {
    /// Makes a backup on a control plane with a healthy member of etcd. Nothing of it stays on the host.
    ///
    /// # Errors
    /// No member is healthy, the snapshot cannot be verified, or the folder cannot be written.
    pub async fn backup(
        &self,
        source: &ClusterSource,
        access: &Access,
        hosts: &HostOptions,
        options: &BackupOptions,
    ) -> Result<BackedUp, SessionError> {
        let cluster = source.cluster();
        let home = self.home.cluster(&cluster.name);
        let holder = self.holder("backup", &cluster.name);
        let _lock = ClusterLock::take(&home.folder, &home.name, &holder)?;
        let recipients = self.recipients(cluster)?;
        let reach = Reach { access, bundle: source.bundle(), hosts, holder: &holder };
        let (fleet, errors) = Fleet::connect_to_some(self, reach).await?;
        for error in errors.values() {
            events::warning(self.events, error.to_string());
        }
        events::phase(self.events, "look");
        let running = cluster_facts::of(&fleet, cluster, Asked::ControlPlanes).await;
        let made = self.make(&fleet, cluster, (&running, recipients), options).await;
        fleet.revert_agents(self.events).await;
        fleet.close().await;
        let (folder, about) = made?;
        let removed = match options.keep {
            Some(keep) => {
                let identity = self.home.operator(self.credentials)?;
                let operators: Vec<String> = about.recipients.iter().map(|one| one.key.clone()).collect();
                let is_known = |folder: &Path, header: &BackupHeader| {
                    header.open(folder, &identity)?;
                    header.authenticate(folder, &identity, &operators)
                };
                retain(&options.to, (&folder, &about), (keep, &is_known), self.events)?
            }
            None => Vec::new(),
        };
        Ok(BackedUp { folder, about, removed })
    }

    /// Reads a backup to its end: every byte of the archive, the snapshot in it, and that this home can open it.
    ///
    /// # Errors
    /// It was cut off or altered, is sealed for others, or is no backup.
    /// Somebody other than this home and `senders` made it.
    pub fn verify_backup(&self, folder: &Path, senders: &[String]) -> Result<VerifiedBackup, SessionError> {
        let header = BackupHeader::read(folder)?;
        events::phase(self.events, "verify");
        verify_archive(folder, &header.about)?;
        let identity = self.home.operator(self.credentials)?;
        let key = header.open(folder, &identity)?;
        header.authenticate(folder, &identity, senders)?;
        let files = verify_contents(folder, &header.about, &key)?.len();
        Ok(VerifiedBackup { about: header.about, files })
    }

    /// Verifies a backup to its end: also that this home or one of `operators` made it, unless another one is allowed. With the files of
    /// its archive that are wanted.
    pub(crate) fn open_backup(
        &self,
        folder: &Path,
        operators: &[String],
        allow_unauthenticated: bool,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<OpenedBackup, SessionError> {
        let header = BackupHeader::read(folder)?;
        events::phase(self.events, "verify");
        verify_archive(folder, &header.about)?;
        let identity = self.home.operator(self.credentials)?;
        let key = header.open(folder, &identity)?;
        let unauthenticated = match header.authenticate(folder, &identity, operators) {
            Err(error) if allow_unauthenticated => Some(error.to_string()),
            checked => checked.map(|()| None)?,
        };
        let files = read_contents(folder, &header.about, &key, wanted)?.files;
        Ok(OpenedBackup { folder: folder.to_owned(), header, key, unauthenticated, files })
    }

    /// The operators of cluster.yaml, and this home.
    fn recipients(&self, cluster: &Cluster) -> Result<Vec<Recipient>, SessionError> {
        let own = self.home.operator(self.credentials)?.recipient();
        let named = cluster.operators.iter();
        let named = named.map(|one| Recipient { key: one.recipient.clone(), name: Some(one.name.clone()) });
        let mut all: Vec<Recipient> = named.collect();
        if all.iter().all(|one| one.key != own) {
            all.push(Recipient { key: own, name: None });
        }
        all.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(all)
    }

    async fn make(
        &self,
        fleet: &Fleet,
        cluster: &Cluster,
        (running, recipients): (&ClusterFacts, Vec<Recipient>),
        options: &BackupOptions,
    ) -> Result<(PathBuf, BackupAbout), SessionError> {
        self.check_interrupt()?;
        let cluster_id = running.id.ok_or_else(|| {
            let text = "the cluster has no id: `kubexm-install create` gives it one";
            BackupError::CannotMake(text.to_owned())
        })?;
        let host = healthy(fleet, cluster, running)?;
        let link = fleet
            .link_of(host)
            .map(|link| link.link())
            .ok_or_else(|| BackupError::CannotMake(format!("{host} is not connected any more")))?;
        let created = self.unix_time();
        let time: String = rfc3339(created).chars().filter(|c| !"-:".contains(*c)).collect();
        let name = format!("{}-{time}", cluster.name);
        let partial = Partial::create(&options.to, &name)?;
        let key = BackupKey::generate();
        events::phase(self.events, "snapshot");
        let ask = BackupAsk::Make { name: name.clone(), recipient: key.recipient() };
        let answer = link.backup(&ask).await.map_err(|error| SessionError::links([error]));
        let fetched = match answer {
            Ok(BackupAnswer::Made { archive, etcd }) => {
                events::phase(self.events, "fetch");
                self.fetch(&*link, host, &name, archive, &partial).await.map(|()| (archive, etcd))
            }
            Ok(_) => Err(misfit(host)),
            Err(error) => Err(error),
        };
        // Encrypted, but of no use there.
        if let Err(error) = link.backup(&BackupAsk::Forget { name: name.clone() }).await {
            events::warning(self.events, format!("the archive stays on {host} and can be removed: {error}"));
        }
        let (archive, etcd) = fetched?;
        let (program, host) = (self.controller.tool.clone(), host.to_owned());
        let kubernetes = running.server_version.clone();
        let mut about = about(cluster, (cluster_id, created), (kubernetes, host, program), recipients, (archive, etcd));
        about.had = Some(BackedUpCluster::of(running));
        let header = BackupHeader::seal(about, &key, &self.home.operator(self.credentials)?)?;
        files::write_private(&partial.folder.join(HEADER), header.to_json()?.as_bytes())?;
        // What is in the folder is read back before it has its name.
        if BackupHeader::read(&partial.folder)? != header {
            let text = format!("its {HEADER} does not say what was written to it; run again");
            return Err(BackupError::CannotMake(text).into());
        }
        verify_archive(&partial.folder, &header.about)?;
        verify_contents(&partial.folder, &header.about, &key)?;
        Ok((partial.finish()?, header.about))
    }

    async fn fetch(
        &self,
        link: &dyn Link,
        host: &str,
        name: &str,
        archive: Archive,
        partial: &Partial,
    ) -> Result<(), SessionError> {
        let path = partial.folder.join(ARCHIVE);
        let failed = |error: std::io::Error| SessionError::disk("write", &path, &error);
        let mut options = File::options();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        if archive.size > LARGEST {
            let text =
                format!("{host} has an archive of {} bytes, which no etcd fills; look at that host", archive.size);
            return Err(BackupError::CannotMake(text).into());
        }
        let (mut hasher, mut offset) = (Hasher::default(), 0);
        while offset < archive.size {
            self.check_interrupt()?;
            let ask = BackupAsk::Read { name: name.to_owned(), offset };
            let BackupAnswer::Bytes { bytes } =
                link.backup(&ask).await.map_err(|error| SessionError::links([error]))?
            else {
                return Err(misfit(host));
            };
            if bytes.is_empty() {
                break;
            }
            let count = bytes.len() as u64;
            if count > CHUNK || count > archive.size - offset {
                return Err(misfit(host));
            }
            hasher.update(&bytes);
            file.write_all(&bytes).map_err(failed)?;
            offset += count;
        }
        file.sync_all().map_err(failed)?;
        match offset == archive.size && hasher.finish() == archive.sha256 {
            true => Ok(()),
            false => {
                let text = format!("what {host} has sent is not the archive that it has written; run again");
                Err(BackupError::CannotMake(text).into())
            }
        }
    }
}

fn about(
    cluster: &Cluster,
    (cluster_id, created): (kubexm_plan::ClusterId, i64),
    (kubernetes, host, program): (Option<String>, String, String),
    recipients: Vec<Recipient>,
    (archive, etcd): (Archive, SnapshotFacts),
) -> BackupAbout {
    let cluster = cluster.name.clone();
    BackupAbout { cluster, cluster_id, created, kubernetes, host, program, recipients, archive, etcd, had: None }
}

fn misfit(host: &str) -> SessionError {
    BackupError::CannotMake(format!(
        "{host} gave another answer than was asked for; remove the agent there and run again"
    ))
    .into()
}

/// The first control plane that is connected and whose member of etcd is healthy.
fn healthy<'c>(fleet: &Fleet, cluster: &'c Cluster, running: &ClusterFacts) -> Result<&'c str, SessionError> {
    let works = |name: &&String| {
        // An etcd of kubexm's may be elsewhere: any member is asked from any control plane.
        let own = |member: &&EtcdMember| member.name == **name || cluster.etcd.kind != EtcdKind::Kubeadm;
        let mut members = running.etcd.iter().filter(own);
        fleet.link(name).is_some() && members.any(|member| member.healthy && !member.learner)
    };
    let planes = &cluster.role_groups.control_plane;
    planes.iter().find(works).map(String::as_str).ok_or_else(|| {
        let gaps = running.gaps.iter().map(|gap| format!("\n- {}: {}: {}", gap.host, gap.what, gap.why));
        let text = format!(
            "no control plane that can be reached has a healthy member of etcd ({}){}",
            planes.join(", "),
            gaps.collect::<String>()
        );
        BackupError::CannotMake(text).into()
    })
}

/// A backup's folder before it is complete; removed if it never is.
struct Partial {
    folder: PathBuf,
    name: PathBuf,
    done: bool,
}

impl Partial {
    fn create(to: &Path, name: &str) -> Result<Self, SessionError> {
        let (folder, name) = (to.join(format!(".{name}.partial")), to.join(name));
        let failed = |error: std::io::Error| SessionError::disk("create", &folder, &error);
        if name.exists() {
            let text = format!("{} is there already; run again in a second", name.display());
            return Err(BackupError::CannotMake(text).into());
        }
        fs::create_dir_all(to).map_err(|error| SessionError::disk("create", to, &error))?;
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        Ok(Self { folder, name, done: false })
    }

    fn finish(mut self) -> Result<PathBuf, SessionError> {
        let rename = || {
            File::open(&self.folder)?.sync_all()?;
            fs::rename(&self.folder, &self.name)?;
            File::open(self.name.parent().unwrap_or(Path::new(".")))?.sync_all()
        };
        rename().map_err(|error: std::io::Error| SessionError::disk("rename", &self.folder, &error))?;
        self.done = true;
        Ok(self.name.clone())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Fails for a backup that this home cannot open, or that nobody who is trusted has made.
type IsKnown<'a> = &'a dyn Fn(&Path, &BackupHeader) -> Result<(), BackupError>;

/// Removes the older backups of this cluster. The one that was just made is kept whatever the clock says, and so is one that claims to
/// be newer. What is not a whole backup is left alone, and does not count; nor does one of a stranger, for which another would go.
fn retain(
    to: &Path,
    (made, newest): (&Path, &BackupAbout),
    (keep, is_known): (usize, IsKnown<'_>),
    events: &dyn EventSink,
) -> Result<Vec<PathBuf>, SessionError> {
    let entries = fs::read_dir(to).map_err(|error| SessionError::disk("list", to, &error))?;
    let mut all: Vec<(i64, PathBuf, Digest)> = entries
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
    use kubexm_engine::OperatorIdentity;
    use kubexm_engine::events::Silent;
    use kubexm_plan::ClusterId;

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
