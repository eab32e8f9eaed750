//! `registry prune`: removes earlier bundles from the hosts of the registry, which keep serving the others.
//!
//! Needs no bundle: each of these hosts has a record of what every bundle brought. What is served now stays.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::op::BundlesRemoved;
use kubexm_plan::{ClusterId, Facts, Pipeline, Plan, Step, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{Cluster, RegistryKind};

use crate::draft::plan_host;
use crate::error::RecipeError;
use crate::paths;

/// The whole input of the recipe.
#[derive(Clone, Debug)]
pub struct PruneContext<'a> {
    pub cluster: &'a Cluster,
    /// Digest of the bytes of cluster.yaml.
    pub cluster_digest: Digest,
    /// From the stamps of the hosts.
    pub cluster_id: Option<ClusterId>,
    /// By host: every host that was reached.
    pub facts: &'a BTreeMap<String, Facts>,
    /// Bundles that stay beside the one that is served: names of records, or the beginnings of their digests.
    pub keep: &'a [String],
}

/// Time in which files are removed, in seconds.
const LIMIT_S: u64 = 1800;

/// The plan that removes all bundles but the kept ones. It has no steps if there are no others.
///
/// # Errors
/// A bundle is to be kept that no host has, or it is not known what is served.
pub fn registry_prune(cx: &PruneContext<'_>) -> Result<Plan, RecipeError> {
    let hosts: Vec<(&str, &Facts)> = cx
        .cluster
        .hosts
        .iter()
        .filter(|host| cx.cluster.roles(&host.name).registry)
        .filter_map(|host| Some((host.name.as_str(), cx.facts.get(&host.name)?)))
        .collect();
    check(cx, &hosts)?;
    let data_dir = (cx.cluster.registry.kind == RegistryKind::Registry).then(|| cx.cluster.registry.data_dir.clone());
    let steps = hosts.iter().filter_map(|(name, facts)| {
        let stays = |bundle: &&String| facts.serving_bundle.as_ref() == Some(bundle) || is_kept(cx, bundle);
        let (stay, leave): (Vec<&String>, Vec<&String>) =
            facts.bundles.iter().filter(|name| is_name(name)).partition(stays);
        let bundles: BTreeSet<String> = leave.into_iter().cloned().collect();
        if bundles.is_empty() {
            return None;
        }
        let list = |all: &[&String]| all.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        let title =
            format!("Remove {} from the registry, and keep {}", list(&bundles.iter().collect::<Vec<_>>()), list(&stay));
        let op = BundlesRemoved {
            folder: paths::DEPOT_BUNDLES.to_owned(),
            serving: paths::DEPOT_CONFIG.to_owned(),
            bundles,
            data_dir: data_dir.clone(),
        };
        let why = "what a bundle brought comes back with that bundle alone".to_owned();
        let step = Step::on(name, "registry.prune", &title).ensure(op).timeout_s(LIMIT_S);
        Some(step.undo(Undo::Irreversible { why }).build())
    });
    Ok(Plan {
        schema: kubexm_plan::SCHEMA,
        pipeline: Pipeline::RegistryPrune,
        cluster_name: cx.cluster.name.clone(),
        cluster_id: cx.cluster_id,
        cluster: cx.cluster_digest,
        bundle: None,
        steps: steps.collect(),
        hosts: hosts.iter().map(|(name, _)| plan_host(name, cx.cluster.roles(name), false)).collect(),
        fleet_concurrency: 16,
        host_concurrency: 4,
        slots: BTreeMap::new(),
        texts: BTreeMap::new(),
    })
}

/// A record's name is a file's, and comes from the host.
fn is_name(bundle: &str) -> bool {
    !bundle.starts_with('.') && bundle.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c))
}

/// By its whole name, or the beginning of its digest, which is the end of the name.
fn is_kept(cx: &PruneContext<'_>, bundle: &str) -> bool {
    let digest = bundle.rsplit_once('-').map_or(bundle, |(_, digest)| digest);
    let of_digest = |keep: &str| {
        let hex = keep.strip_prefix("sha256:").unwrap_or(keep);
        // A whole digest is longer than the part that the name has.
        hex.len() >= SHORTEST && (digest.starts_with(hex) || hex.starts_with(digest))
    };
    cx.keep.iter().any(|keep| keep == bundle || of_digest(keep))
}

/// Fewer characters of a digest may be those of another.
const SHORTEST: usize = 8;

fn check(cx: &PruneContext<'_>, hosts: &[(&str, &Facts)]) -> Result<(), RecipeError> {
    let mut problems = Vec::new();
    let is_recorded =
        |facts: &Facts| facts.serving_bundle.as_ref().is_some_and(|serving| facts.bundles.contains(serving));
    for (name, facts) in hosts.iter().filter(|(_, facts)| !is_recorded(facts)) {
        let why =
            if facts.bundles.is_empty() { "has no record of a bundle" } else { "serves what none of its records has" };
        problems.push(format!("{name} {why}: run `create` with the cluster's bundle, which writes it"));
    }
    let known: BTreeSet<&String> =
        hosts.iter().flat_map(|(_, facts)| &facts.bundles).filter(|name| is_name(name)).collect();
    for keep in cx.keep {
        let one = [keep.clone()];
        if !known.iter().any(|bundle| is_kept(&PruneContext { keep: &one, ..cx.clone() }, bundle)) {
            let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
            problems.push(format!("no host of the registry has a bundle {keep:?}; they have {}", known.join(", ")));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(RecipeError::CannotPrune { problems }) }
}
