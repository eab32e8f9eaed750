//! Backups of a cluster: made on a control plane, kept in a folder of this machine, encrypted for the operators.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use kubexm_engine::ClusterLock;
use kubexm_engine::backup::{
    ARCHIVE, BackupAbout, BackupError, BackupHeader, BackupKey, HEADER, read_contents, verify_archive, verify_contents,
};
use kubexm_engine::clock::rfc3339;
use kubexm_engine::link::Link;
use kubexm_plan::backup::{Archive, BackedUpCluster, BackupAnswer, BackupAsk, CHUNK, SnapshotFacts};
use kubexm_plan::cluster_facts::EtcdMember;
use kubexm_plan::{ClusterFacts, Recipient};
use kubexm_spec::Cluster;
use kubexm_spec::cluster::EtcdKind;
use kubexm_spec::digest::Hasher;
use zeroize::Zeroizing;

use crate::access::Access;
use crate::bundle::cluster_source::ClusterSource;
use crate::cluster_facts::{self, Asked};
use crate::error::SessionError;
use crate::events;
use crate::files;
use crate::fleet::{Fleet, Reach};
use crate::options::HostOptions;
use crate::partial_backup::Partial;
use crate::retention;
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
                retention::retain(&options.to, (&folder, &about), (keep, &is_known), self.events)?
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
