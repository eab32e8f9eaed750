//! A running cluster as observed by its hosts, merged. Read-only and without the cluster's lock; each host has a time
//! limit.

use std::time::Duration;

use futures::future::join_all;
use kubexm_engine::link::LinkError;
use kubexm_plan::ClusterFacts;
use kubexm_plan::cluster_facts::{Gap, HOST};
use kubexm_spec::Cluster;

use crate::access::Access;
use crate::bundle::cluster_source::ClusterSource;
use crate::error::SessionError;
use crate::events;
use crate::fleet::{Fleet, Reach};
use crate::options::HostOptions;
use crate::session::Session;

/// Time limit for one host, including the connection; the host's own queries have shorter ones.
const LIMIT: Duration = Duration::from_secs(45);

/// The observed cluster; hosts that did not answer are gaps of its facts.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// `metadata.name` of the cluster.yaml.
    pub cluster: String,
    pub facts: ClusterFacts,
}

/// The hosts to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All hosts, for the certificates on each.
    All,
    /// The control planes, which can observe the whole cluster.
    ControlPlanes,
}

impl Session<'_> {
    /// Observes a running cluster. A host that cannot be reached, or does not answer, is a gap.
    ///
    /// # Errors
    /// No host can be used.
    pub async fn view(
        &self,
        source: &ClusterSource,
        access: &Access,
        hosts: &HostOptions,
    ) -> Result<ClusterView, SessionError> {
        let cluster = source.cluster();
        let holder = self.holder("status", &cluster.name);
        let reach = Reach { access, bundle: source.bundle(), hosts, holder: &holder };
        let (fleet, errors) = Fleet::connect_to_some(self, reach).await?;
        events::phase(self.events, "look");
        let mut facts = of(&fleet, cluster, Asked::All).await;
        fleet.revert_agents(self.events).await;
        fleet.close().await;
        self.check_interrupt()?;
        facts.gaps.extend(errors.into_iter().map(|(host, error)| gap(host, &error)));
        facts.gaps.sort();
        Ok(ClusterView { cluster: cluster.name.clone(), facts })
    }
}

/// The same for a plan: a host that answers for others ends it.
///
/// # Errors
/// There is one.
pub(crate) async fn trusted(fleet: &Fleet, cluster: &Cluster, asked: Asked) -> Result<ClusterFacts, SessionError> {
    let (facts, untrusted) = look(fleet, cluster, asked).await;
    if untrusted.is_empty() { Ok(facts) } else { Err(SessionError::links(untrusted)) }
}

/// Asks hosts of a cluster, control planes first.
pub(crate) async fn of(fleet: &Fleet, cluster: &Cluster, asked: Asked) -> ClusterFacts {
    look(fleet, cluster, asked).await.0
}

/// With the errors of hosts that answered for others, which are gaps, too.
async fn look(fleet: &Fleet, cluster: &Cluster, asked: Asked) -> (ClusterFacts, Vec<LinkError>) {
    let planes = &cluster.role_groups.control_plane;
    let others = cluster.hosts.iter().map(|host| &host.name).filter(|name| !planes.contains(name));
    let names: Vec<&String> = match asked {
        Asked::All => planes.iter().chain(others).collect(),
        Asked::ControlPlanes => planes.iter().collect(),
    };
    let links = names.into_iter().filter_map(|name| Some((name, fleet.link_of(name)?)));
    let looks = links.map(|(name, link)| async move {
        let mut untrusted = None;
        let facts = match tokio::time::timeout(LIMIT, link.link().cluster_facts()).await {
            Ok(Ok(facts)) if planes.contains(name) => facts,
            // A worker reports only its own files.
            Ok(Ok(ClusterFacts { certificates, balancers, timers, kubelets, gaps, .. })) => {
                ClusterFacts { certificates, balancers, timers, kubelets, gaps, ..ClusterFacts::default() }
            }
            Ok(Err(error)) => {
                let gap = only(gap(name.clone(), &error));
                untrusted = Some(error).filter(|error| matches!(error, LinkError::Untrusted { .. }));
                gap
            }
            Err(_) => {
                let why = format!("it did not answer within {} s", LIMIT.as_secs());
                only(Gap { host: name.clone(), what: HOST.to_owned(), why })
            }
        };
        (facts, untrusted)
    });
    let (facts, untrusted): (Vec<ClusterFacts>, Vec<Option<LinkError>>) = join_all(looks).await.into_iter().unzip();
    (ClusterFacts::merged(facts), untrusted.into_iter().flatten().collect())
}

fn only(gap: Gap) -> ClusterFacts {
    ClusterFacts { gaps: vec![gap], ..ClusterFacts::default() }
}

fn gap(host: String, error: &LinkError) -> Gap {
    Gap { host, what: HOST.to_owned(), why: error.to_string() }
}
