//! The add-ons of the new bundle, once every node has its version: as `create` installs them, and what cluster.yaml no longer has is
//! removed. They come behind the record of the upgrade, which has no way back: one that fails takes back itself alone.

use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::{ClusterFacts, StepId, Undo};
use kubexm_spec::cluster::Cluster;

use super::options::UpgradeOptions;
use crate::charts;
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::modules::removed_addons::{self, RemovedAddon};
use crate::modules::{addons, kubernetes, record, storage};
use crate::phases::ClusterHosts;

/// What an upgrade does about add-ons.
#[derive(Debug)]
pub(super) struct Addons<'f> {
    last: Option<&'f AppliedCluster>,
    removed: Vec<RemovedAddon>,
    /// `--keep-addons`.
    kept: bool,
}

impl<'f> Addons<'f> {
    /// # Errors
    /// Volumes of the cluster lie elsewhere than cluster.yaml says.
    pub(super) fn of(
        cluster: &Cluster,
        running: &'f ClusterFacts,
        options: &UpgradeOptions,
    ) -> Result<Self, RecipeError> {
        let (last, kept) = (running.applied.as_ref(), options.keep_addons);
        if kept {
            // It is no add-on, and what the network's steps install is recorded.
            let removed = removed_addons::dns_cache(cluster, last).into_iter().collect();
            return Ok(Self { last, removed, kept });
        }
        storage::unchanged(cluster, running)?;
        Ok(Self { last, removed: removed_addons::of_create(cluster, last), kept })
    }

    /// What the operator should know, one sentence each.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = removed_addons::warnings(&self.removed, self.last);
        if self.last.is_none() {
            warnings.push(removed_addons::UNKNOWN.to_owned());
        }
        warnings
    }

    /// Adds their steps, and the record, which is the last one. A first control plane that has no turn (`no_turn`) has no step for the
    /// bundle's helm yet.
    pub(super) fn finish<'a>(
        &self,
        draft: &mut Draft<'a>,
        site: &ClusterHosts<'a>,
        (no_turn, checked): (bool, &[StepId]),
    ) -> Result<(), RecipeError> {
        let first = &site.first;
        let installs = !self.kept && !charts::addons(draft.cx).is_empty();
        if !installs && self.removed.is_empty() {
            return record::finish(draft, first, Undo::RestoreBefore, checked);
        }
        let upgraded = record::upgraded(draft, first, self.last, checked)?;
        let mut chain = Chain::after(upgraded.iter().cloned());
        if no_turn && (installs || self.removed.iter().any(RemovedAddon::needs_helm)) {
            chain.then(kubernetes::helm(draft, first)?);
        }
        let helm = draft.add(chain);
        let done = match self.kept {
            false => addons::run(draft, site, (&helm, &Undo::RestoreBefore), (&upgraded, &self.removed))?,
            true => {
                let mut chain = Chain::after(upgraded);
                removed_addons::after(draft, first.name(), &self.removed, &mut chain);
                draft.add(chain)
            }
        };
        record::finish(draft, first, Undo::RestoreBefore, &done)
    }
}
