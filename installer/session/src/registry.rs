//! The bundles that a cluster's registry serves: listed, and planned to be removed.

use std::collections::BTreeMap;
use std::path::Path;

use kubexm_archive::Bundle as BundleFile;
use kubexm_engine::link::SlotValues;
use kubexm_plan::depot::{DepotContent, pruned_since};
use kubexm_plan::ledger::Record;
use kubexm_plan::{Pipeline, Plan, ProbeAnswer};
use kubexm_recipes::{Bundle, Keep, PruneContext, Pruned};
use kubexm_spec::cluster::RegistryKind;
use kubexm_spec::{Cluster, Digest, amount, one_line};

use crate::access::Access;
use crate::authorities::Authorities;
use crate::bundle::cluster_source::ClusterSource;
use crate::cluster_facts::{self, Asked};
use crate::error::SessionError;
use crate::events;
use crate::fleet::{Fleet, Reach};
use crate::observe::Observed;
use crate::options::HostOptions;
use crate::plan::{Planned, refuse_adopted};
use crate::session::Session;

/// The bundles of a cluster's registry hosts.
#[derive(Clone, Debug)]
pub struct RegistryView {
    /// `metadata.name` of the cluster.yaml.
    pub cluster: String,
    /// `spec.registry.type`: the records of bundles are of hosts of kubexm's, their images may be in another registry.
    pub kind: RegistryKind,
    pub bundles: Vec<Bundle>,
    /// Bytes in the content stores of the registry hosts, by host.
    pub stored: BTreeMap<String, u64>,
    /// What could not be read, one sentence each.
    pub gaps: Vec<String>,
}

/// The digest of the manifest of a bundle, which is not verified: it is only compared with names of records.
///
/// # Errors
/// It is no bundle.
pub fn bundle_manifest(path: &Path) -> Result<Digest, SessionError> {
    Ok(BundleFile::open(path)?.manifest_digest())
}

impl Session<'_> {
    /// Asks the registry hosts of a cluster which bundles they serve. Without the cluster's lock; changes nothing.
    ///
    /// # Errors
    /// No host can be used, or none of the registry answers.
    pub async fn registry_bundles(
        &self,
        source: &ClusterSource,
        access: &Access,
        hosts: &HostOptions,
    ) -> Result<RegistryView, SessionError> {
        let cluster = source.cluster();
        let holder = self.holder("registry list", &cluster.name);
        let reach = Reach { access, bundle: source.bundle(), hosts, holder: &holder };
        let (fleet, errors) = Fleet::connect_to_some(self, reach).await?;
        // What is present is in the stamps of all hosts; the registry's are not the first to get another.
        let facts = fleet.facts(self.events).await;
        let (depots, refused) = depots(&fleet, cluster).await;
        fleet.revert_agents(self.events).await;
        fleet.close().await;
        self.check_interrupt()?;
        let facts = facts?;
        let mut gaps: Vec<String> =
            errors.values().chain(refused.values()).map(|error| one_line(&error.to_string())).collect();
        let unreadable = |(host, depot): (&String, &DepotContent)| -> Vec<String> {
            depot.unreadable.iter().map(|(path, why)| format!("{host}: {path}: {}", one_line(why))).collect()
        };
        gaps.extend(depots.iter().flat_map(unreadable));
        Ok(RegistryView {
            cluster: cluster.name.clone(),
            kind: cluster.registry.kind,
            bundles: kubexm_recipes::bundles(&facts, &depots),
            stored: depots.iter().map(|(host, depot)| (host.clone(), stored(depot))).collect(),
            gaps,
        })
    }
}

/// Bytes that a host says it has: each of its blobs may be as large as it likes.
fn stored(depot: &DepotContent) -> u64 {
    depot.blobs.values().fold(0, |sum: u64, size| sum.saturating_add(*size))
}

/// What the depots of the registry hosts have; and the errors of those that did not answer.
async fn depots(
    fleet: &Fleet,
    cluster: &Cluster,
) -> (BTreeMap<String, DepotContent>, BTreeMap<String, kubexm_engine::link::LinkError>) {
    let (mut depots, mut errors) = (BTreeMap::new(), BTreeMap::new());
    for host in cluster.registry_hosts() {
        let Some(link) = fleet.link_of(&host.name) else { continue };
        match link.link().depot().await {
            Ok(depot) => drop(depots.insert(host.name.clone(), depot)),
            Err(error) => drop(errors.insert(host.name.clone(), error)),
        }
    }
    (depots, errors)
}

impl<'s> Observed<'s, ClusterSource> {
    /// Plans the removal of all bundles from the registry but the one that the cluster has and those that are kept.
    ///
    /// # Errors
    /// The registry is not one that can be pruned, something is not as it must be for that, or something in the cluster uses an image of a
    /// bundle that would go.
    pub async fn plan_prune(self, keep: &[Keep]) -> Result<Planned<'s, ClusterSource>, SessionError> {
        let (site, survey) = self.into_parts();
        refuse_adopted(&site, Pipeline::RegistryPrune, &survey).await?;
        let cluster = site.subject.cluster();
        let running = cluster_facts::trusted(&site.fleet, cluster, Asked::ControlPlanes).await;
        let running = site.unless_refused(running).await?;
        let (depots, errors) = depots(&site.fleet, cluster).await;
        let errors = if errors.is_empty() { Ok(()) } else { Err(SessionError::links(errors.into_values())) };
        site.unless_refused(errors).await?;
        events::phase(site.session.events, "plan");
        let cx = PruneContext {
            cluster,
            cluster_digest: cluster.digest(),
            running: &running,
            facts: &survey.facts,
            ledgers: &survey.ledgers,
            depots: &depots,
            keep,
        };
        let planned = kubexm_recipes::registry_prune(&cx).map_err(SessionError::from);
        let Pruned { plan, bundles, freed, gone } = site.unless_refused(planned).await?;
        let done = is_done(&site.fleet, &plan).await;
        let plan = if site.unless_refused(done).await? { Plan { steps: Vec::new(), ..plan } } else { plan };
        // Where nothing goes, nothing is asked about.
        if let Some((plane, probe)) = gone.filter(|_| !plan.steps.is_empty()) {
            let answer = match site.fleet.link_of(&plane) {
                Some(link) => link.link().probe(&probe).await.map_err(|error| SessionError::links([error])),
                None => Ok(ProbeAnswer { holds: false, seen: format!("{plane} is not connected") }),
            };
            let answer = site.unless_refused(answer).await?;
            site.unless_refused(unused(&answer)).await?;
        }
        for bundle in &bundles {
            events::note(site.session.events, fate(bundle));
        }
        for (host, bytes) in freed {
            events::note(site.session.events, format!("{host}: {} of blobs are deleted", amount(bytes)));
        }
        Ok(Planned::of(site, plan, Authorities::default()))
    }
}

/// Whether the hosts have nothing left of what would go: what is gone from a registry otherwise (by hand, by a rollback) is in ledgers still.
async fn is_done(fleet: &Fleet, plan: &Plan) -> Result<bool, SessionError> {
    for step in plan.steps.iter().filter(|step| !step.ops.is_empty()) {
        let Some(link) = fleet.link_of(&step.host) else { return Ok(false) };
        let found = link.link().observe(plan, step, &SlotValues::default()).await;
        if !found.map_err(|error| SessionError::links([error]))?.iter().all(|found| found.satisfied) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn unused(answer: &ProbeAnswer) -> Result<(), SessionError> {
    match answer.holds {
        true => Ok(()),
        false => Err(SessionError::ImagesUsed { seen: one_line(&answer.seen) }),
    }
}

fn fate(bundle: &Bundle) -> String {
    let Bundle { name, size, images, .. } = bundle;
    let of = format!("{images} images, {}", amount(*size));
    match (bundle.present, bundle.kept) {
        (true, _) => format!("bundle {name} is kept: the cluster has it now ({of})"),
        (false, true) => format!("bundle {name} is kept ({of})"),
        (false, false) => format!("bundle {name} is removed ({of})"),
    }
}

/// Refuses to go on with a run, or to roll it back, if content of bundles was deleted from a host after it had begun there: what was there
/// before it cannot be brought back, and its rollback would have the registry name images that it lacks.
///
/// # Errors
/// There is such a host, or the ledger of one cannot be read.
pub(crate) async fn not_pruned_since(
    session: &Session<'_>,
    fleet: &Fleet,
    (run, plan): (&str, &Plan),
) -> Result<(), SessionError> {
    let serves = |host: &str| plan.steps.iter().any(|step| step.host == host && step.ops.iter().any(is_of_depot));
    let hosts: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).filter(|host| serves(host)).collect();
    for host in hosts {
        let Some(link) = fleet.link_of(host) else { continue };
        let ledger: Vec<Record> = link.link().ledger().await.map_err(|error| SessionError::links([error]))?;
        if let Some(by) = pruned_since(&ledger, run) {
            fleet.revert_agents(session.events).await;
            return Err(SessionError::PrunedSince { run: run.to_owned(), host: host.to_owned(), by: one_line(by) });
        }
    }
    Ok(())
}

fn is_of_depot(op: &kubexm_plan::Op) -> bool {
    use kubexm_plan::Op;
    matches!(op, Op::File(file) if file.path == kubexm_plan::depot::CONFIG)
        || matches!(op, Op::BundlesRemoved(_) | Op::RegistryUnlinked(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_a_host_says_are_summed_without_an_end() {
        let blobs = ["a", "b"].map(|text| (Digest::of(text), u64::MAX - 1)).into();
        assert_eq!(stored(&DepotContent { blobs, ..DepotContent::default() }), u64::MAX);
    }
}
