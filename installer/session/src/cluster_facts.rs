//! A running cluster as its hosts see it, merged. Read-only, without the cluster's lock, and it ends: each host has some seconds.

use std::time::Duration;

use futures::future::join_all;
use kubexm_engine::link::LinkError;
use kubexm_plan::ClusterFacts;
use kubexm_plan::cluster_facts::Gap;
use kubexm_spec::Cluster;

use crate::access::Access;
use crate::bundle::cluster_source::ClusterSource;
use crate::error::SessionError;
use crate::events;
use crate::fleet::{Fleet, Reach};
use crate::options::HostOptions;
use crate::session::Session;

/// For one host, from the question to its answer. What the host asks itself takes less.
const LIMIT: Duration = Duration::from_secs(45);
/// Of [`Gap::what`]: nothing of this host was seen.
const HOST: &str = "host";

/// What was seen of a cluster, and of how many of its hosts.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// `metadata.name` of the cluster.yaml.
    pub cluster: String,
    pub facts: ClusterFacts,
}

/// Which hosts are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All: certificates are each host's own.
    All,
    /// Those that see the whole cluster.
    ControlPlanes,
}

impl Session<'_> {
    /// Looks at a running cluster from its hosts. A host that is not reached, or does not answer, is a gap.
    ///
    /// # Errors
    /// No host can be worked with.
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
        fleet.withdraw(self.events).await;
        fleet.close().await;
        self.check_interrupt()?;
        facts.gaps.extend(errors.into_iter().map(|(host, error)| gap(host, &error)));
        facts.gaps.sort();
        Ok(ClusterView { cluster: cluster.name.clone(), facts })
    }
}

/// Asks hosts of a cluster, control planes first.
pub(crate) async fn of(fleet: &Fleet, cluster: &Cluster, asked: Asked) -> ClusterFacts {
    let planes = &cluster.role_groups.control_plane;
    let others = cluster.hosts.iter().map(|host| &host.name).filter(|name| !planes.contains(name));
    let names: Vec<&String> = match asked {
        Asked::All => planes.iter().chain(others).collect(),
        Asked::ControlPlanes => planes.iter().collect(),
    };
    let links = names.into_iter().filter_map(|name| Some((name, fleet.link_of(name)?)));
    let looks = links.map(|(name, link)| async move {
        match tokio::time::timeout(LIMIT, link.link().cluster_facts()).await {
            Ok(Ok(facts)) if planes.contains(name) => facts,
            // A worker speaks for its own files, and for nothing of the cluster.
            Ok(Ok(ClusterFacts { certificates, gaps, .. })) => {
                ClusterFacts { certificates, gaps, ..ClusterFacts::default() }
            }
            Ok(Err(error)) => only(gap(name.clone(), &error)),
            Err(_) => {
                let why = format!("it did not answer within {} s", LIMIT.as_secs());
                only(Gap { host: name.clone(), what: HOST.to_owned(), why })
            }
        }
    });
    ClusterFacts::merged(join_all(looks).await)
}

fn only(gap: Gap) -> ClusterFacts {
    ClusterFacts { gaps: vec![gap], ..ClusterFacts::default() }
}

fn gap(host: String, error: &LinkError) -> Gap {
    Gap { host, what: HOST.to_owned(), why: error.to_string() }
}
