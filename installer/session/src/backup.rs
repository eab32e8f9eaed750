//! Backups of a cluster: made on a control plane, kept in a folder of this machine or in a bucket of S3, encrypted for the operators.

mod adopted;
mod fetched;

use std::collections::BTreeMap;
use std::path::Path;

use kubexm_engine::ClusterLock;
use kubexm_engine::backup::{
    BackupAbout, BackupError, BackupHeader, BackupKey, HEADER, extract_contents, read_contents, verify_archive,
    verify_contents,
};
use kubexm_engine::clock::rfc3339;
use kubexm_plan::backup::{Archive, BackedUpCluster, BackupAnswer, BackupAsk, SnapshotFacts};
use kubexm_plan::cluster_facts::{EtcdMember, Gap};
use kubexm_plan::{ClusterFacts, Recipient};
use kubexm_spec::cluster::EtcdKind;
use kubexm_spec::{Cluster, one_line};
use zeroize::Zeroizing;

use crate::access::Access;

use crate::backup_place::{BackupPlace, LocalBackup, OpenPlace, Partial, Removal};
use crate::bundle::cluster_source::ClusterSource;
use crate::cluster_facts::{self, Asked};
use crate::error::SessionError;
use crate::events;
use crate::files;
use crate::fleet::{Fleet, Reach};
use crate::identity;
use crate::options::HostOptions;
use crate::retention::{self, Candidates};
use crate::session::Session;

/// The most gaps that an error names.
const MOST_GAPS: usize = 100;

/// Where a backup goes.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// Where backups are kept. A folder is made if there is none; a bucket is not.
    pub to: BackupPlace,
    /// How many of this cluster are kept, the new one included; none for all.
    pub keep: Option<usize>,
}

/// A backup that was made.
#[derive(Clone, Debug)]
pub struct BackedUp {
    /// Its folder, or its address (`s3://…`).
    pub at: String,
    pub about: BackupAbout,
    /// Older ones of this cluster that were removed.
    pub removed: Vec<String>,
    /// Those that should have been, each with the reason why it is there still, and how many were not looked at. Only of a server: what
    /// it refuses fails no backup.
    pub not_removed: Vec<String>,
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
    pub local: LocalBackup,
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
    /// It is not certain which cluster it is: control planes say different ids, or another one than this home knows.
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
        // Before a host is asked for anything.
        let place = options.to.open(self).await?;
        let reach = Reach { access, bundle: source.bundle(), hosts, holder: &holder };
        let (fleet, errors) = Fleet::connect_to_some(self, reach).await?;
        for error in errors.values() {
            events::warning(self.events, error.to_string());
        }
        events::phase(self.events, "look");
        let running = cluster_facts::of(&fleet, cluster, Asked::ControlPlanes).await;
        let made = self.make(&fleet, cluster, (&running, recipients), &place).await;
        fleet.revert_agents(self.events).await;
        fleet.close().await;
        let (at, about) = made?;
        place.tidy(&about.cluster, self.unix_time()).await;
        let mut made = BackedUp { at, about, removed: Vec::new(), not_removed: Vec::new() };
        let Some(keep) = options.keep else { return Ok(made) };
        match self.retain(&place, &made, keep).await {
            Ok(removal) => (made.removed, made.not_removed) = (removal.removed, removal.stayed),
            Err(error) if place.is_remote() => made.not_removed = vec![format!("{}: {error}", options.to)],
            Err(error) => return Err(error),
        }
        for stayed in &made.not_removed {
            events::warning(self.events, format!("the new backup is there, and older ones were not removed: {stayed}"));
        }
        Ok(made)
    }

    /// Removes older backups beyond those that are kept.
    async fn retain(&self, place: &OpenPlace<'_>, made: &BackedUp, keep: usize) -> Result<Removal, SessionError> {
        let identity = self.home.operator(self.credentials)?;
        let operators: Vec<String> = made.about.recipients.iter().map(|one| one.key.clone()).collect();
        let is_known = |folder: &Path, header: &BackupHeader| {
            header.open(folder, &identity)?;
            header.authenticate(folder, &identity, &operators)
        };
        let candidates = Candidates { newest: &made.about, is_known: &is_known, events: self.events };
        let others = place.others(&made.at, &candidates).await?;
        let mut removal = place.remove(retention::too_old(others.whole, &made.about, keep, self.events)).await?;
        removal.stayed.extend(others.not_looked_at);
        Ok(removal)
    }

    /// Reads a backup to its end: every byte of the archive, the snapshot in it, and that this home can open it.
    ///
    /// # Errors
    /// It was cut off or altered, is sealed for others, or is no backup.
    /// Somebody other than this home and `senders` made it.
    pub fn verify_backup(&self, backup: &LocalBackup, senders: &[String]) -> Result<VerifiedBackup, SessionError> {
        let folder = backup.folder();
        let header = backup.named(BackupHeader::read(folder))?;
        events::phase(self.events, "verify");
        backup.named(verify_archive(folder, &header.about))?;
        let identity = self.home.operator(self.credentials)?;
        let key = backup.named(header.open(folder, &identity))?;
        backup.named(header.authenticate(folder, &identity, senders))?;
        let files = backup.named(verify_contents(folder, &header.about, &key))?.len();
        Ok(VerifiedBackup { about: header.about, files })
    }

    /// Verifies a backup to its end, and writes what is in it to a folder of this machine that does not exist yet: in clear, readable by
    /// this user alone. Returns how many files, the snapshot included.
    ///
    /// # Errors
    /// As [`Session::verify_backup`]; or the folder is there, or cannot be written. Nothing is left of it then.
    pub fn extract_backup(&self, backup: &LocalBackup, senders: &[String], to: &Path) -> Result<usize, SessionError> {
        let there = || BackupError::Taken { path: to.display().to_string() };
        let name = to.file_name().filter(|_| !to.exists()).ok_or_else(there)?;
        let about = self.verify_backup(backup, senders)?.about;
        let identity = self.home.operator(self.credentials)?;
        let key = backup
            .named(BackupHeader::read(backup.folder()).and_then(|header| header.open(backup.folder(), &identity)))?;
        events::phase(self.events, "extract");
        let beside = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Of one that was killed: it has keys in clear.
        let left = beside.join(format!(".{}.partial", name.to_string_lossy()));
        if left.exists() {
            return Err(BackupError::Left { path: left.display().to_string() }.into());
        }
        let partial = Partial::create(beside, &name.to_string_lossy())?;
        let interrupted = || self.check_interrupt().is_err();
        let written = extract_contents(backup.folder(), (&about, &key), &partial.folder, &interrupted);
        self.check_interrupt()?;
        let files = backup.named(written)?;
        partial.finish()?;
        Ok(files)
    }

    /// Verifies a backup to its end: also that this home or one of `operators` made it, unless another one is allowed. With the files of
    /// its archive that are wanted.
    pub(crate) fn open_backup(
        &self,
        local: LocalBackup,
        operators: &[String],
        allow_unauthenticated: bool,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<OpenedBackup, SessionError> {
        let folder = local.folder();
        let header = local.named(BackupHeader::read(folder))?;
        events::phase(self.events, "verify");
        local.named(verify_archive(folder, &header.about))?;
        let identity = self.home.operator(self.credentials)?;
        let key = local.named(header.open(folder, &identity))?;
        let unauthenticated = match local.named(header.authenticate(folder, &identity, operators)) {
            Err(error) if allow_unauthenticated => Some(error.to_string()),
            checked => checked.map(|()| None)?,
        };
        let files = local.named(read_contents(folder, &header.about, &key, wanted))?.files;
        Ok(OpenedBackup { local, header, key, unauthenticated, files })
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
        place: &OpenPlace<'_>,
    ) -> Result<(String, BackupAbout), SessionError> {
        self.check_interrupt()?;
        let cluster_id = identity::of_running(&self.home.cluster(&cluster.name), running)?.ok_or_else(|| {
            let text = "the cluster has no id: `kubexm-install create` gives it one, and `adopt` one that kubexm-install has not made";
            BackupError::CannotMake(text.to_owned())
        })?;
        adopted::refuse(cluster, running)?;
        let host = healthy(fleet, cluster, running)?;
        let link = fleet
            .link_of(host)
            .map(|link| link.link())
            .ok_or_else(|| BackupError::CannotMake(format!("{host} is not connected any more")))?;
        let created = self.unix_time();
        let time: String = rfc3339(created).chars().filter(|c| !"-:".contains(*c)).collect();
        let name = place.new_name(&cluster.name, &time)?;
        let new = place.begin(self, &name).await?;
        let key = BackupKey::generate();
        events::phase(self.events, "snapshot");
        let ask = BackupAsk::Make { name: name.clone(), recipient: key.recipient() };
        let answer = link.backup(&ask).await.map_err(|error| SessionError::links([error]));
        let fetched = match answer {
            Ok(BackupAnswer::Made { archive, etcd }) => {
                events::phase(self.events, "fetch");
                let (name, link) = (name.as_str(), &*link);
                let read = move |offset| {
                    let ask = BackupAsk::Read { name: name.to_owned(), offset };
                    async move {
                        self.check_interrupt()?;
                        link.backup(&ask).await.map_err(|error| SessionError::links([error]))
                    }
                };
                fetched::write(archive, (host, new.folder()), fetched::LONGEST, read).await.map(|()| (archive, etcd))
            }
            Ok(_) => Err(fetched::misfit(host)),
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
        files::write_private(&new.folder().join(HEADER), header.to_json()?.as_bytes())?;
        // What is in the folder is read back before it has its name.
        if BackupHeader::read(new.folder())? != header {
            let text = format!("its {HEADER} does not say what was written to it; run again");
            return Err(BackupError::CannotMake(text).into());
        }
        verify_archive(new.folder(), &header.about)?;
        verify_contents(new.folder(), &header.about, &key)?;
        Ok((place.finish(new, &header).await?, header.about))
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

/// The first control plane that is connected and whose member of etcd is healthy.
fn healthy<'c>(fleet: &Fleet, cluster: &'c Cluster, running: &ClusterFacts) -> Result<&'c str, SessionError> {
    let works = |name: &&String| {
        // An etcd of kubexm's may be elsewhere: any member is asked from any control plane.
        let own = |member: &&EtcdMember| member.name == **name || cluster.etcd.kind != EtcdKind::Kubeadm;
        let mut members = running.etcd.iter().filter(own);
        fleet.link(name).is_some()
            && adopted::has_tools(running, name)
            && members.any(|member| member.healthy && !member.learner)
    };
    let planes = &cluster.role_groups.control_plane;
    planes.iter().find(works).map(String::as_str).ok_or_else(|| {
        // Hosts say what they do not see, and how often.
        let line = |gap: &Gap| format!("\n- {}", one_line(&format!("{}: {}: {}", gap.host, gap.what, gap.why)));
        let more = running.gaps.len().saturating_sub(MOST_GAPS);
        let more = (more > 0).then(|| format!("\n- and {more} more"));
        let gaps = running.gaps.iter().take(MOST_GAPS).map(line).chain(more);
        let text = format!(
            "no control plane that can be reached has a healthy member of etcd ({}){}",
            planes.join(", "),
            gaps.collect::<String>()
        );
        BackupError::CannotMake(text).into()
    })
}
