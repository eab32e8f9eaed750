//! `create --from-backup`: a verified bundle and a verified backup, which make a cluster anew on fresh hosts.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use kubexm_engine::link::BlobSource;
use kubexm_engine::site_ca::unfit;
use kubexm_plan::SEALED_AUTHORITIES;
use kubexm_plan::kubeadm_certificates::CLUSTER_CA;
use kubexm_recipes::from_backup::{BackupSource, PAIRS, READ, compare, dials, live};
use kubexm_recipes::packages::NO_PACKAGES;
use kubexm_recipes::{Mesh, RecipeError};
use kubexm_spec::Digest;
use kubexm_spec::cluster::Validity;
use tokio::io::AsyncRead;
use zeroize::Zeroizing;

use crate::backup::OpenedBackup;
use crate::backup_place::LocalBackup;
use crate::bundle::blobs::BundleBlobs;
use crate::bundle::cluster_file::ClusterFile;
use crate::bundle::opened::{Opened, Verified};
use crate::confirm::RestoredBackup;
use crate::error::SessionError;
use crate::events;
use crate::fleet::Fleet;
use crate::observe::mesh::dial;
use crate::observe::subject::{BundleSurvey, Startable, Subject, sealed};
use crate::restore::BackupBlob;
use crate::session::Session;

/// A verified bundle, and the verified backup that its cluster is made from. Only [`Session::from_backup`] creates one.
pub struct FromBackup {
    verified: Verified,
    backup: OpenedBackup,
    source: BackupSource,
}

impl Session<'_> {
    /// Verifies a backup to its end, and compares it with cluster.yaml and the bundle, before any host is contacted. As for a restore, this
    /// home or an operator of a proven cluster.yaml must have made it, unless another one is allowed.
    ///
    /// # Errors
    /// It was cut off or altered, is sealed for others, was made by somebody else, or is of a cluster that cluster.yaml does not describe.
    pub fn from_backup(
        &self,
        verified: Verified,
        backup: LocalBackup,
        allow_unauthenticated: bool,
    ) -> Result<FromBackup, SessionError> {
        let opened = verified.opened();
        let operators = opened.cluster().proven_operators();
        let wanted = |path: &str| {
            let pairs = PAIRS.iter().any(|(text, key)| [*text, *key].contains(&path));
            pairs || READ.contains(&path) || path == SEALED_AUTHORITIES
        };
        let backup = self.open_backup(backup, &operators, allow_unauthenticated, &wanted)?;
        let source = source(&backup, self.unix_time());
        let facts = BTreeMap::new();
        let compared = compare(&opened.plan_cx(&facts, &NO_PACKAGES), &source);
        let mut problems = compared.problems;
        problems.extend(unfit_ca(&backup, opened, self.unix_time()));
        if !problems.is_empty() {
            return Err(RecipeError::CannotUseBackup { problems }.into());
        }
        Ok(FromBackup { verified, backup, source })
    }
}

fn source(backup: &OpenedBackup, now: i64) -> BackupSource {
    let about = &backup.header.about;
    let is_key = |path: &str| PAIRS.iter().any(|(_, key)| *key == path);
    let (keys, texts): (Vec<_>, Vec<_>) = backup.files.iter().partition(|(path, _)| is_key(path));
    let text = |(path, bytes): (&String, &Zeroizing<Vec<u8>>)| {
        Some((path.clone(), std::str::from_utf8(bytes).ok()?.to_owned()))
    };
    BackupSource {
        cluster: about.cluster.clone(),
        cluster_id: about.cluster_id,
        created: about.created,
        archive: about.archive,
        snapshot: about.etcd.size,
        now,
        had: about.had.clone(),
        texts: texts.into_iter().filter_map(text).collect(),
        keys: keys.into_iter().map(|(path, _)| path.clone()).collect(),
    }
}

/// Why kubeadm could not sign with the CA of the backup: it has ended, say.
fn unfit_ca(backup: &OpenedBackup, opened: &Opened, now: i64) -> Vec<String> {
    let text = |path: &str| backup.files.get(path).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let (Some(certificate), Some(key)) = (text(CLUSTER_CA), text(PAIRS[0].1)) else { return Vec::new() };
    let kubernetes = opened.cluster().kubernetes.as_ref();
    let leaves = kubernetes.and_then(|one| one.certificate_validity).unwrap_or(Validity::OF_CERTIFICATES);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(now).unwrap_or_default());
    let all = unfit(certificate, Some(key), now, leaves).into_iter();
    all.map(|why| format!("kubeadm cannot sign with the cluster's CA in it: {why}")).collect()
}

impl FromBackup {
    /// What a recipe needs of the backup.
    pub const fn source(&self) -> &BackupSource {
        &self.source
    }

    pub(crate) const fn opened(&self) -> &Opened {
        self.verified.opened()
    }
}

impl Subject for FromBackup {
    type Survey = BundleSurvey;
    const CHANGES: bool = true;

    fn cluster(&self) -> &ClusterFile {
        self.opened().cluster()
    }

    fn bundle(&self) -> Option<&Opened> {
        Some(self.opened())
    }

    fn check_remembered(&self, session: &Session<'_>) -> Result<(), SessionError> {
        self.opened().check_remembered(session)
    }

    /// With a question to whoever listens where the cluster of before did: it must be gone.
    async fn survey(&self, session: &Session<'_>, fleet: &Fleet) -> Result<BundleSurvey, SessionError> {
        let mut survey = self.opened().survey(session, fleet).await?;
        let (dials, unasked) = dials(&self.opened().plan_cx(&survey.facts, &survey.carried.packages), &self.source);
        let asked = Mesh { listen: BTreeMap::new(), dials };
        let dialed = dial(&asked, &fleet.links(), session.events).await?;
        survey.findings.add(live(&dialed));
        survey.findings.add(unasked.into_iter().collect());
        Ok(survey)
    }
}

impl sealed::Sealed for FromBackup {}

impl Startable for FromBackup {
    fn blobs(&self) -> Box<dyn BlobSource> {
        let bundle = BundleBlobs(self.opened().bundle().clone());
        Box::new(Blobs { bundle, backup: BackupBlob::of(&self.backup) })
    }

    fn backup_key(&self) -> Option<Zeroizing<Vec<u8>>> {
        Some(self.backup.key.secret())
    }

    fn backup_files(&self) -> BTreeMap<String, Zeroizing<Vec<u8>>> {
        self.backup.files.clone()
    }

    fn restores(&self) -> Option<RestoredBackup<'_>> {
        let unauthenticated = self.backup.unauthenticated.as_deref();
        Some(RestoredBackup { about: &self.backup.header.about, unauthenticated, snapshot: None })
    }
}

/// Those of the bundle, and the archive.
struct Blobs {
    bundle: BundleBlobs,
    backup: BackupBlob,
}

#[async_trait]
impl BlobSource for Blobs {
    async fn open(&self, digest: Digest, offset: u64) -> std::io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        match self.backup.is(&digest) {
            true => self.backup.open(digest, offset).await,
            false => self.bundle.open(digest, offset).await,
        }
    }
}

/// Says that it goes on with a run.
pub(crate) fn note_continued(session: &Session<'_>, run: &str) {
    events::note(session.events, format!("run {run} of this backup has not ended: it goes on"));
}
