//! The add-ons of the new bundle, once every node has its version: as `create` installs them, and what cluster.yaml no longer has is
//! removed. They come behind a mark of the upgrade, which has no way back: where one fails, those of the run go back to what they were,
//! and no node does.

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
use crate::runtime::virtual_machines;

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
    /// Volumes of the cluster lie elsewhere than cluster.yaml says, or runtimes and an add-on that they have to know change together.
    pub(super) fn of(
        cluster: &Cluster,
        running: &'f ClusterFacts,
        options: &UpgradeOptions,
    ) -> Result<Self, RecipeError> {
        let (last, kept) = (running.applied.as_ref(), options.keep_addons);
        virtual_machines::are_gone(cluster, last)?;
        if kept {
            return Ok(Self { last, removed: Vec::new(), kept });
        }
        virtual_machines::are_known(cluster, last)?;
        storage::unchanged(cluster, running)?;
        Ok(Self { last, removed: removed_addons::of(cluster, last), kept })
    }

    /// What the operator should know, one sentence each.
    pub(super) fn warnings(&self) -> Vec<String> {
        if self.kept {
            return Vec::new();
        }
        let mut warnings = removed_addons::warnings(&self.removed, self.last);
        if self.last.is_none() {
            warnings.push(removed_addons::UNKNOWN.to_owned());
        }
        warnings
    }

    /// Adds their steps after the others of the run, and the record, which is the last one.
    pub(super) fn finish<'a>(
        &self,
        draft: &mut Draft<'a>,
        site: &ClusterHosts<'a>,
        before: Before<'_>,
    ) -> Result<(), RecipeError> {
        let first = &site.first;
        if self.kept || (charts::addons(draft.cx).is_empty() && self.removed.is_empty()) {
            return record::finish(draft, first, Undo::RestoreBefore, before.checked);
        }
        let upgraded = match before.run {
            // No node was upgraded: a run that fails is rolled back as a whole.
            None => before.checked.to_vec(),
            Some(run) => {
                let done = Chain::after(before.checked.iter().chain(before.beside).cloned());
                record::upgraded(draft, first, run, (done, before.settled))?
            }
        };
        let mut chain = Chain::after(upgraded.iter().cloned());
        if !before.has_helm
            && (charts::addons(draft.cx).iter().any(addons::is_chart)
                || self.removed.iter().any(RemovedAddon::needs_helm))
        {
            chain.then(kubernetes::helm(draft, first)?);
        }
        let helm = draft.add(chain);
        let installed = addons::run(draft, site, (&helm, &Undo::RestoreBefore), (&upgraded, &self.removed))?;
        record::finish(draft, first, Undo::RestoreBefore, &installed)
    }
}

/// What of a run comes before its add-ons.
#[derive(Debug)]
pub(super) struct Before<'r> {
    /// The final check.
    pub checked: &'r [StepId],
    /// What the rollback of a failing add-on would otherwise undo.
    pub beside: &'r [StepId],
    /// The same of optional hosts: they may have failed.
    pub settled: &'r [StepId],
    /// The time of the run, if a node is upgraded in it.
    pub run: Option<i64>,
    /// Whether the first control plane is given the bundle's helm in its turn.
    pub has_helm: bool,
}
