//! One file for each pipeline: its phases in their order. The crate exports what is public here, and [`Recipe`] has those that
//! are planned with a bundle.

mod add_node;
mod addons_apply;
mod adopt;
mod certs_renew;
mod create;
mod create_from_backup;
mod delete_node;
mod host_removal;
mod registry_prune;
mod reset;
mod restore;
mod subset;
mod upgrade;

use std::collections::BTreeMap;

use kubexm_plan::{ClusterFacts, Facts, Pipeline, Plan};
use kubexm_spec::cluster::Cluster;

use crate::context::PlanContext;
use crate::error::RecipeError;
use crate::from_backup::{self, BackupSource};
use crate::preflight::{self, Finding};

pub use add_node::{absent, add_node};
pub use addons_apply::addons_apply;
pub use adopt::{AdoptContext, adopt};
pub use certs_renew::{OwnAuthorities, Renew, RenewContext, Renewed, certs_renew, needs_authorities};
pub use create::create;
pub use create_from_backup::create_from_backup;
pub use delete_node::{DeleteContext, Deletion, delete_node};
pub use host_removal::kept_snapshots;
pub use registry_prune::{Bundle, Keep, PruneContext, Pruned, bundles, gone_images, registry_prune};
pub use reset::{EtcdData, ResetContext, ResetHost, reset};
pub use restore::{RestoreContext, restore, restored_cluster};
pub use upgrade::{PauseAfter, Upgrade, UpgradeOptions, upgrade};

/// What to plan with a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe<'a> {
    /// Create or complete the cluster.
    Create,
    /// Create the cluster of this backup on fresh hosts.
    CreateFromBackup(&'a BackupSource),
    /// Add these hosts; if none is named, all hosts that are not in the cluster yet.
    AddNode(&'a [String]),
    /// Apply these add-ons; if none is named, all of cluster.yaml, and remove those that it no longer has.
    AddonsApply(&'a [String]),
    /// Bring the cluster to the bundle's Kubernetes version. The bundle was opened for an upgrade.
    Upgrade(&'a UpgradeOptions),
}

/// What a recipe has to know of a cluster that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// What its control planes say.
    ControlPlanes,
    /// Also the certificates of every host.
    EveryHost,
}

impl<'a> Recipe<'a> {
    /// Hosts that the operator has named.
    pub const fn named(self) -> &'a [String] {
        match self {
            Self::AddNode(named) => named,
            Self::Create | Self::CreateFromBackup(_) | Self::Upgrade(_) | Self::AddonsApply(_) => &[],
        }
    }

    /// What it plans.
    pub const fn pipeline(self) -> Pipeline {
        match self {
            Self::Create => Pipeline::Create,
            Self::CreateFromBackup(_) => Pipeline::CreateFromBackup,
            Self::AddNode(_) => Pipeline::AddNode,
            Self::AddonsApply(_) => Pipeline::AddonsApply,
            Self::Upgrade(_) => Pipeline::Upgrade,
        }
    }

    /// What it has to know of the cluster that runs; nothing of one that does not exist yet, or whose answers would change nothing.
    pub fn looks_at(self, cluster: &Cluster, facts: &BTreeMap<String, Facts>) -> Option<Running> {
        match self {
            Self::Create => create::finds_a_cluster(cluster, facts).then_some(Running::ControlPlanes),
            // A control plane that an earlier try has left half done answers nothing that the plan depends on.
            Self::CreateFromBackup(_) => None,
            Self::AddNode(_) | Self::AddonsApply(_) => Some(Running::ControlPlanes),
            Self::Upgrade(_) => Some(Running::EveryHost),
        }
    }

    /// The plan, and what the operator is warned of.
    ///
    /// # Errors
    /// The cluster, the bundle and the hosts do not allow it.
    pub fn plan(self, cx: &PlanContext<'_>, running: &ClusterFacts) -> Result<(Plan, Vec<String>), RecipeError> {
        let plan = match self {
            Self::CreateFromBackup(source) => return create_from_backup(cx, source),
            Self::Create => {
                from_backup::refuse_without(cx.cluster, cx.facts)?;
                crate::network::unchanged(cx.cluster, running)?;
                crate::modules::storage::unchanged(cx.cluster, running)?;
                return create::create_again(cx, running);
            }
            Self::AddonsApply(named) => return addons_apply(cx, running, named),
            Self::AddNode([]) => add_node(cx, running, &absent(cx, running)?)?,
            Self::AddNode(named) => add_node(cx, running, named)?,
            Self::Upgrade(options) => {
                let Upgrade { plan, warnings } = upgrade(cx, running, options)?;
                return Ok((plan, warnings));
            }
        };
        Ok((plan, Vec::new()))
    }
}

/// The checks of preflight before a pipeline that is planned with a bundle.
pub fn preflight_before(pipeline: Pipeline, cx: &PlanContext<'_>) -> Vec<Finding> {
    match pipeline {
        Pipeline::Upgrade => preflight::preflight_before_upgrade(cx),
        Pipeline::AddNode => preflight::preflight_before_join(cx),
        _ => preflight::preflight(cx),
    }
}
