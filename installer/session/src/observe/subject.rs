//! What a cluster is known by, and so what is looked at on its hosts and may be done with them.

use std::collections::BTreeMap;

use kubexm_engine::link::BlobSource;
use kubexm_plan::Facts;
use kubexm_plan::ledger::Record;
use kubexm_recipes::unsupported;

use super::findings::Findings;
use super::mesh;
use crate::bundle::blobs::{BundleBlobs, NoBlobs};
use crate::bundle::cluster_file::ClusterFile;
use crate::bundle::cluster_source::ClusterSource;
use crate::bundle::opened::{Opened, Verified};
use crate::bundle::packages::Carried;
use crate::error::SessionError;
use crate::events;
use crate::fleet::Fleet;
use crate::session::Session;

/// A bundle that was opened, one that was verified, or a cluster that exists. Others cannot implement it.
pub trait Subject: sealed::Sealed + Send + Sync {
    /// What is seen on the hosts.
    type Survey: Send + Sync;

    /// Whether its stages lead to a change of hosts, which one program at a time may begin.
    const CHANGES: bool;

    /// The cluster.
    fn cluster(&self) -> &ClusterFile;

    /// The bundle, where one takes part.
    fn bundle(&self) -> Option<&Opened>;

    /// Whether it may take the place of what this controller remembers as installed.
    ///
    /// # Errors
    /// It may not.
    fn check_remembered(&self, session: &Session<'_>) -> Result<(), SessionError>;

    /// Looks at the hosts; changes nothing.
    fn survey(
        &self,
        session: &Session<'_>,
        fleet: &Fleet,
    ) -> impl Future<Output = Result<Self::Survey, SessionError>> + Send;
}

/// What may be executed: a verified bundle, or a cluster that exists. [`Opened`] is not: a plan that is made of a
/// bundle that was not verified cannot be started.
pub trait Startable: Subject {
    /// What hosts are sent.
    fn blobs(&self) -> Box<dyn BlobSource>;
}

/// What planning with a bundle starts from.
#[derive(Debug)]
pub struct BundleSurvey {
    /// By host.
    pub(crate) facts: BTreeMap<String, Facts>,
    /// Packages of the bundle that some host lacks.
    pub(crate) carried: Carried,
    /// Preflight's answer.
    pub(crate) findings: Findings,
}

/// What planning a reset starts from.
#[derive(Debug)]
pub struct LedgerSurvey {
    /// By host.
    pub(crate) facts: BTreeMap<String, Facts>,
    /// What each host wrote down of what was done to it.
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

    /// Gathers facts and compares them with preflight's table.
    async fn survey(&self, session: &Session<'_>, fleet: &Fleet) -> Result<BundleSurvey, SessionError> {
        let events = session.events;
        let facts = fleet.facts(events).await?;
        self.check_stamps(&facts)?;
        events::phase(events, "preflight");
        let carried = Carried::read(self, &facts).await?;
        let cx = self.plan_cx(&facts, &carried.packages);
        let mut found = kubexm_recipes::preflight(&cx);
        let mut dialed = mesh::dial(&kubexm_recipes::mesh(&cx), &fleet.links(), events).await?;
        found.extend(kubexm_recipes::preflight::mesh::findings(&cx, &dialed));
        for all in dialed.values_mut() {
            all.retain(|one| !kubexm_recipes::preflight::mesh::is_expected(&cx, one));
        }
        let cluster = self.cluster();
        let hosts = cluster.hosts.iter().map(|host| host.name.clone()).collect();
        let findings =
            Findings::new(cluster.name.clone(), hosts, found, dialed).without_recipe(unsupported::check(cluster));
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

    /// Nothing takes its place.
    fn check_remembered(&self, _: &Session<'_>) -> Result<(), SessionError> {
        Ok(())
    }

    async fn survey(&self, session: &Session<'_>, fleet: &Fleet) -> Result<LedgerSurvey, SessionError> {
        let facts = fleet.facts(session.events).await?;
        Ok(LedgerSurvey { facts, ledgers: fleet.ledgers().await? })
    }
}

impl Startable for ClusterSource {
    /// A reset deletes.
    fn blobs(&self) -> Box<dyn BlobSource> {
        Box::new(NoBlobs)
    }
}

mod sealed {
    /// Keeps [`super::Subject`] to this crate.
    pub trait Sealed {}

    impl Sealed for super::Opened {}
    impl Sealed for super::Verified {}
    impl Sealed for super::ClusterSource {}
}
