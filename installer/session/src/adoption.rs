//! The adoption of a cluster that kubeadm has made: what is known of it, and the plan that adopts it.

use std::collections::BTreeMap;

use kubexm_plan::ClusterFacts;
use kubexm_recipes::{AdoptContext, Adoption, AdoptionInput, BundleVersions, Identity};
use kubexm_spec::one_line;

use crate::access::Access;
use crate::authorities::Authorities;
use crate::bundle::cluster_source::ClusterSource;
use crate::cluster_facts::{self, Asked};
use crate::error::SessionError;
use crate::events;
use crate::fleet::{Fleet, Reach};
use crate::identity;
use crate::observe::Observed;
use crate::options::HostOptions;
use crate::plan::Planned;
use crate::session::Session;

/// What is known of a cluster before it is adopted.
#[derive(Clone, Debug)]
pub struct AdoptionView {
    /// `metadata.name` of the cluster.yaml.
    pub cluster: String,
    pub adoption: Adoption,
    /// The cluster as its hosts see it.
    pub facts: ClusterFacts,
}

impl Session<'_> {
    /// Looks at a running cluster, without the cluster's lock, and changes nothing. A host that cannot be reached is in the way.
    ///
    /// # Errors
    /// No host can be used, or one answers for others.
    pub async fn adoption(
        &self,
        source: &ClusterSource,
        access: &Access,
        hosts: &HostOptions,
    ) -> Result<AdoptionView, SessionError> {
        let cluster = source.cluster();
        let bundle = versions(source)?;
        let holder = self.holder("adopt", &cluster.name);
        let reach = Reach { access, bundle: source.bundle(), hosts, holder: &holder };
        let (fleet, errors) = Fleet::connect_to_some(self, reach).await?;
        let facts = fleet.facts(self.events).await;
        let running = cluster_facts::trusted(&fleet, cluster, Asked::All).await;
        fleet.revert_agents(self.events).await;
        fleet.close().await;
        self.check_interrupt()?;
        let (facts, running) = (facts?, running?);
        let unreached = errors.iter().map(|(host, error)| (host.clone(), one_line(&error.to_string()))).collect();
        let bundle = bundle.as_ref();
        let input = AdoptionInput { cluster, facts: &facts, unreached: &unreached, running: &running, bundle };
        let adoption = Adoption::of(&input);
        Ok(AdoptionView { cluster: cluster.name.clone(), adoption, facts: running })
    }
}

impl<'s> Observed<'s, ClusterSource> {
    /// Plans the adoption of the cluster that runs on the hosts.
    ///
    /// # Errors
    /// Something is in the way of it.
    pub async fn plan_adoption(self) -> Result<Planned<'s, ClusterSource>, SessionError> {
        let (site, survey) = self.into_parts();
        let running = cluster_facts::trusted(&site.fleet, site.subject.cluster(), Asked::All).await;
        let running = site.unless_refused(running).await?;
        events::phase(site.session.events, "plan");
        let planned = (|| {
            let cluster = site.subject.cluster();
            let bundle = versions(&site.subject)?;
            let (facts, unreached) = (&survey.facts, &BTreeMap::new());
            let input = AdoptionInput { cluster, facts, unreached, running: &running, bundle: bundle.as_ref() };
            // One that is adopted in part goes on with its id.
            let known = Identity::of(cluster, facts).id;
            identity::refuse_of_another(site.session.home, cluster, facts, known)?;
            let cluster_id = known.map_or_else(identity::new_id, Ok)?;
            let cluster_digest = cluster.digest();
            Ok::<_, SessionError>(kubexm_recipes::adopt(&AdoptContext { input, cluster_digest, cluster_id })?)
        })();
        let plan = site.unless_refused(planned).await?;
        Ok(Planned::of_running(site, plan, Authorities::default()))
    }
}

/// Those of the bundle, if one is named.
fn versions(source: &ClusterSource) -> Result<Option<BundleVersions>, SessionError> {
    let Some(opened) = source.bundle() else { return Ok(None) };
    let facts = BTreeMap::new();
    let cx = opened.plan_cx(&facts, &kubexm_recipes::packages::NO_PACKAGES);
    Ok(Some(BundleVersions::of(&cx)?))
}
