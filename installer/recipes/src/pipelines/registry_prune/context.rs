//! What the recipe is given, and what it answers.

use std::collections::BTreeMap;

use kubexm_plan::depot::DepotContent;
use kubexm_plan::ledger::Record;
use kubexm_plan::op::Probe;
use kubexm_plan::{ClusterFacts, Facts, Plan};
use kubexm_spec::Digest;
use kubexm_spec::cluster::Cluster;

/// A bundle that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// By the name of its record, or the beginning of it, or of the digest in it.
    Name(String),
    /// By the digest of its manifest.
    Manifest(Digest),
}

/// A bundle that a registry serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// `v1.34.4-` and the beginning of the manifest's digest.
    pub name: String,
    /// Whether the cluster, or a host of it, has it now.
    pub present: bool,
    /// Whether it stays.
    pub kept: bool,
    /// Bytes of all its blobs.
    pub size: u64,
    /// Bytes of the blobs that no other bundle has.
    pub own: u64,
    /// Images, by name and tag.
    pub images: usize,
    /// The registry hosts that have it.
    pub hosts: Vec<String>,
}

/// The whole input of the recipe.
#[derive(Clone, Debug)]
pub struct PruneContext<'a> {
    pub cluster: &'a Cluster,
    /// Digest of the bytes of cluster.yaml.
    pub cluster_digest: Digest,
    /// The cluster as it is now.
    pub running: &'a ClusterFacts,
    /// By host: every host of the cluster.
    pub facts: &'a BTreeMap<String, Facts>,
    /// By host.
    pub ledgers: &'a BTreeMap<String, Vec<Record>>,
    /// Of every registry host.
    pub depots: &'a BTreeMap<String, DepotContent>,
    /// What is kept beside the bundle that the cluster has now.
    pub keep: &'a [Keep],
}

/// A plan, and what the operator should know about it.
#[derive(Clone, Debug)]
pub struct Pruned {
    pub plan: Plan,
    /// The bundles that stay and those that go, over all registry hosts.
    pub bundles: Vec<Bundle>,
    /// Bytes of the blobs that are deleted, by host.
    pub freed: BTreeMap<String, u64>,
    /// Images that the registry does not answer for afterwards, and the control plane that knows whether something uses one of them.
    pub gone: Option<(String, Probe)>,
}
