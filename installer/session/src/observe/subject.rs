//! What identifies a cluster, and therefore what is observed on its hosts and may be done with them.

use std::collections::BTreeMap;

use kubexm_engine::link::BlobSource;
use kubexm_plan::Facts;
use kubexm_plan::ledger::Record;
use zeroize::Zeroizing;

use super::findings::Findings;
use super::mesh::dial;
use super::{external_etcd, external_registry, nfs, site_ca};
use crate::bundle::blobs::{BundleBlobs, NoBlobs};
use crate::bundle::cluster_file::ClusterFile;
use crate::bundle::cluster_source::ClusterSource;
use crate::bundle::opened::{Opened, Verified};
use crate::bundle::packages::Carried;
use crate::confirm::RestoredBackup;
use crate::diff::without_secrets;
use crate::error::SessionError;
use crate::events;
use crate::fleet::Fleet;
use crate::session::Session;

/// An opened bundle, a verified bundle, or an existing cluster. Sealed.
pub trait Subject: sealed::Sealed + Send + Sync {
    /// The result of observing the hosts.
    type Survey: Send + Sync;

    /// Whether its stages lead to a change of hosts, which only one program at a time may start.
    const CHANGES: bool;

    /// The cluster.
    fn cluster(&self) -> &ClusterFile;

    /// The bundle, if there is one.
    fn bundle(&self) -> Option<&Opened>;

    /// Checks whether it may replace the bundle that this controller has recorded as installed.
    ///
    /// # Errors
    /// It may not.
    fn check_remembered(&self, session: &Session<'_>) -> Result<(), SessionError>;

    /// Observes the hosts without changing anything.
    fn survey(
        &self,
        session: &Session<'_>,
        fleet: &Fleet,
    ) -> impl Future<Output = Result<Self::Survey, SessionError>> + Send;
}

/// What can be executed: a verified bundle, or an existing cluster. [`Opened`] is not: a plan from a bundle that was
/// not verified cannot be started.
pub trait Startable: Subject {
    /// Blobs for the hosts.
    fn blobs(&self) -> Box<dyn BlobSource>;

    /// What opens the archive of a backup, if it restores one; secret.
    fn backup_key(&self) -> Option<Zeroizing<Vec<u8>>> {
        None
    }

    /// Files of the archive of that backup, by their path on the host, if it needs some; secret.
    fn backup_files(&self) -> BTreeMap<String, Zeroizing<Vec<u8>>> {
        BTreeMap::new()
    }

    /// The backup that it restores.
    fn restores(&self) -> Option<RestoredBackup<'_>> {
        None
    }
}

/// The input of planning with a bundle.
#[derive(Debug)]
pub struct BundleSurvey {
    /// By host.
    pub(crate) facts: BTreeMap<String, Facts>,
    /// Packages of the bundle that some host is missing.
    pub(crate) carried: Carried,
    /// The results of preflight.
    pub(crate) findings: Findings,
}

/// The input of planning a reset.
#[derive(Debug)]
pub struct LedgerSurvey {
    /// By host.
    pub(crate) facts: BTreeMap<String, Facts>,
    /// The ledgers, by host.
    pub(crate) ledgers: BTreeMap<String, Vec<Record>>,
}

impl Subject for Opened {
    type Survey = BundleSurvey;
    const CHANGES: bool = false;

    fn cluster(&self) -> &ClusterFile {
        self.cluster()
    }

    fn bundle(&self) -> Option<&Opened> {
        Some(self)
    }

    fn check_remembered(&self, session: &Session<'_>) -> Result<(), SessionError> {
        self.check_remembered(session)
    }

    /// Gathers facts and runs preflight's checks.
    async fn survey(&self, session: &Session<'_>, fleet: &Fleet) -> Result<BundleSurvey, SessionError> {
        let events = session.events;
        let facts = fleet.facts(events).await?;
        self.check_stamps(&facts)?;
        events::phase(events, "preflight");
        let carried = Carried::read(self, &facts).await?;
        let cx = self.plan_cx(&facts, &carried.packages);
        let mut found = self.preflight(&cx);
        for finding in &mut found {
            finding.found = without_secrets(&finding.found);
            finding.detail = finding.detail.as_deref().map(without_secrets);
        }
        let mut mesh = kubexm_recipes::mesh(&cx);
        external_registry::add_dials(&mut mesh, self.cluster()).await;
        found.extend(nfs::add_dials(&mut mesh, self.cluster()).await);
        let mut dialed = dial(&mesh, &fleet.links(), events).await?;
        found.extend(kubexm_recipes::preflight::mesh::findings(&cx, &dialed));
        for all in dialed.values_mut() {
            all.retain(|one| !kubexm_recipes::preflight::mesh::is_expected(&cx, one));
        }
        found.extend(external_registry::findings(session, self).await);
        found.extend(site_ca::findings(session, self, &cx));
        found.extend(external_etcd::findings(session, fleet, &cx).await);
        let cluster = self.cluster();
        let hosts = cluster.hosts.iter().map(|host| host.name.clone()).collect();
        let findings = Findings::new(cluster.name.clone(), hosts, found, dialed);
        Ok(BundleSurvey { facts, carried, findings })
    }
}

impl Subject for Verified {
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

    fn survey(
        &self,
        session: &Session<'_>,
        fleet: &Fleet,
    ) -> impl Future<Output = Result<BundleSurvey, SessionError>> + Send {
        self.opened().survey(session, fleet)
    }
}

impl Startable for Verified {
    fn blobs(&self) -> Box<dyn BlobSource> {
        Box::new(BundleBlobs(self.opened().bundle().clone()))
    }
}

impl Subject for ClusterSource {
    type Survey = LedgerSurvey;
    const CHANGES: bool = true;

    fn cluster(&self) -> &ClusterFile {
        self.cluster()
    }

    fn bundle(&self) -> Option<&Opened> {
        self.bundle()
    }

    /// It replaces nothing.
    fn check_remembered(&self, _: &Session<'_>) -> Result<(), SessionError> {
        Ok(())
    }

    async fn survey(&self, session: &Session<'_>, fleet: &Fleet) -> Result<LedgerSurvey, SessionError> {
        let facts = fleet.facts(session.events).await?;
        Ok(LedgerSurvey { facts, ledgers: fleet.ledgers(session.events).await? })
    }
}

impl Startable for ClusterSource {
    /// A reset needs no blobs.
    fn blobs(&self) -> Box<dyn BlobSource> {
        Box::new(NoBlobs)
    }
}

pub(crate) mod sealed {
    /// Seals [`super::Subject`].
    pub trait Sealed {}

    impl Sealed for super::Opened {}
    impl Sealed for super::Verified {}
    impl Sealed for super::ClusterSource {}
}
