//! `registry prune`: removes earlier bundles of a cluster from its registry hosts: from their depots, and from a distribution registry or
//! Harbor beside them.
//!
//! Needs no bundle: what a depot has is what its host reports, and what kubexm has put into a store is in the host's ledger. First it is asked
//! once more whether something uses an image that goes; then every depot stops to serve the bundles, which can be rolled back; and when all of
//! them do, blobs are deleted that nothing names any more, which cannot.

mod check;
mod context;
mod pushed;
mod recorded;
mod select;

use std::collections::BTreeMap;

use kubexm_plan::depot;
use kubexm_plan::op::{
    BlobsRemoved, BundlesRemoved, HarborImagesRemoved, Probe, RegistryBlobsRemoved, RegistryUnlinked,
};
use kubexm_plan::{Op, Pipeline, Plan, Step, StepId, Undo};
use kubexm_spec::Digest;

use crate::draft::plan_host;
use crate::error::RecipeError;
use crate::identity::Identity;
use crate::modules::harbor;
pub use context::{Bundle, Keep, PruneContext, Pruned};
use select::{Leaving, Selection};
pub use select::{bundles, gone_images};

/// So many blobs are asked for to see that a depot serves a bundle no more: it reads all of its folder again, or nothing of it.
const ASKED: usize = 8;
/// How long a depot may take to read its folder again, in seconds.
const RELOAD_S: u64 = 60;
/// How long something that uses an image may take to end, in seconds.
const UNUSED_S: u64 = 20;
/// A store of some hundred gigabytes in small files takes no longer.
const DELETE_S: u64 = 1800;

/// The plan that prunes. It has no steps if there is nothing to remove.
pub fn registry_prune(cx: &PruneContext<'_>) -> Result<Pruned, RecipeError> {
    let plane = check::site(cx)?;
    let selection = Selection::of(cx)?;
    let mut steps: Vec<Step> = Vec::new();
    let gone = (!selection.gone.is_empty())
        .then(|| (plane.to_owned(), Probe::ImagesUnused { images: selection.gone.clone() }));
    if let Some((plane, probe)) = &gone {
        steps.push(
            Step::on(plane, "prune.unused", "Check that nothing uses an image of the removed bundles")
                .probe(probe.clone(), UNUSED_S)
                .timeout_s(UNUSED_S + 180)
                .undo(Undo::Nothing)
                .build(),
        );
    }
    let checked: Vec<StepId> = steps.iter().map(|step| step.id.clone()).collect();
    let stops =
        |leaving: &&Leaving| !leaving.bundles.is_empty() || !leaving.blobs.is_empty() && !leaving.named.is_empty();
    for (host, leaving) in selection.hosts.iter().filter(|(_, leaving)| stops(leaving)) {
        let mut step = Step::on(host, "prune.bundles", "Stop serving the removed bundles");
        // Of a removal that was cut off nothing may be left to stop, and the depot is asked all the same.
        if !leaving.bundles.is_empty() {
            step = step.ensure(BundlesRemoved { bundles: leaving.bundles.clone() });
        }
        let asked: Vec<Digest> = leaving.named.iter().take(ASKED).copied().collect();
        if let (Some(url), false) = (&leaving.url, asked.is_empty()) {
            let login = leaving.login.then(|| depot::LOGIN.to_owned());
            let (url, ca, blobs) = (url.clone(), depot::CA.to_owned(), asked.into_iter().collect());
            step = step.probe(Probe::DepotLacks { url, ca, login, blobs }, RELOAD_S);
        }
        let step = step.timeout_s(RELOAD_S + 180).undo(Undo::RestoreBefore).build();
        steps.push(Step { after: checked.clone(), ..step });
    }
    let records = steps.clone();
    for (host, leaving) in &selection.hosts {
        let Some(layout) = &leaving.pushed.layout else { continue };
        let asked = layout.repositories.iter().filter(|(_, content)| !content.manifests.is_empty()).take(ASKED);
        let manifests =
            asked.map(|(name, content)| (name.clone(), content.manifests.iter().take(1).copied().collect()));
        let step = Step::on(host, "prune.registry", "Stop serving the images of the removed bundles")
            .ensure(RegistryUnlinked { data_dir: layout.data_dir.clone(), repositories: layout.repositories.clone() })
            .probe(layout.lacks(manifests.collect()), RELOAD_S)
            .timeout_s(DELETE_S)
            .undo(Undo::RestoreBefore)
            .build();
        // When the records of what goes are away: what the others name is looked up there once more.
        let own = records.iter().filter(|step| step.host == *host).map(|step| step.id.clone());
        steps.push(Step { after: checked.iter().cloned().chain(own).collect(), ..step });
    }
    // Nothing is deleted before the last registry has stopped to serve it: until then all of it can be rolled back.
    let stopped: Vec<StepId> = steps.iter().map(|step| step.id.clone()).collect();
    let why = "deleted blobs come back only with a bundle that has them";
    let deleting = |host: &str, id, title: &str| {
        Step::on(host, id, title).timeout_s(DELETE_S).undo(Undo::Irreversible { why: why.to_owned() })
    };
    let mut after = stopped.clone();
    for (host, leaving) in selection.hosts.iter().filter(|(_, leaving)| !leaving.pushed.harbor.is_empty()) {
        let (harbor, repositories) = (harbor::access(cx.cluster), leaving.pushed.harbor.clone());
        let step = deleting(host, "prune.harbor", "Delete the images of the removed bundles from Harbor");
        let step = step.ensure(HarborImagesRemoved { harbor, repositories }).build();
        after.push(step.id.clone());
        steps.push(Step { after: stopped.clone(), ..step });
    }
    // With the blobs of the store the last trace of a bundle goes, so they come last.
    for (host, leaving) in &selection.hosts {
        let mut ops: Vec<Op> = Vec::new();
        if let Some(layout) = &leaving.pushed.layout {
            let (data_dir, repositories) = (layout.data_dir.clone(), layout.repositories.clone());
            ops.push(RegistryBlobsRemoved { data_dir, repositories }.into());
        }
        if !leaving.blobs.is_empty() {
            ops.push(BlobsRemoved { blobs: leaving.blobs.clone() }.into());
        }
        if !ops.is_empty() {
            let step = deleting(host, "prune.blobs", "Delete the blobs that no bundle of the registry needs");
            steps.push(Step { after: after.clone(), ..step.ensure_all(ops).build() });
        }
    }
    let plan = Plan {
        schema: kubexm_plan::SCHEMA,
        pipeline: Pipeline::RegistryPrune,
        cluster_name: cx.cluster.name.clone(),
        cluster_id: Identity::of(cx.cluster, cx.facts).id,
        cluster: cx.cluster_digest,
        bundle: None,
        hosts: cx.cluster.hosts.iter().map(|host| plan_host(&host.name, cx.cluster.roles(&host.name), false)).collect(),
        fleet_concurrency: 16,
        host_concurrency: 4,
        slots: BTreeMap::new(),
        texts: BTreeMap::new(),
        steps,
    };
    // Hosts say how large blobs are.
    let bytes = |blobs: &BTreeMap<Digest, u64>| blobs.values().fold(0, |sum: u64, size| sum.saturating_add(*size));
    let freed = selection.hosts.iter().map(|(host, leaving)| (host.clone(), bytes(&leaving.blobs)));
    let freed = freed.filter(|(_, bytes)| *bytes > 0).collect();
    Ok(Pruned { plan, bundles: selection.bundles, freed, gone })
}
