//! The pipelines: their names, what they start from, and which invariants hold while they run.
//!
//! A new pipeline is a variant with its name in `for_each_pipeline!`, through which the laws find it, and its [`Row`], from which the driver, the
//! confirmation and the engine know what to do with it. Its sentences are in `render/pipelines.rs` of kubexm-install.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Calls a macro with every variant of [`Pipeline`] and a snake-case name for it, so that tests of all pipelines are
/// written once: `for_each_pipeline!(callback)` expands to `callback! { create: Create, … }`.
#[macro_export]
macro_rules! for_each_pipeline {
    ($callback:ident) => {
        $callback! {
            create: Create,
            add_node: AddNode,
            delete_node: DeleteNode,
            upgrade: Upgrade,
            certs_renew: CertsRenew,
            restore: Restore,
            reset: Reset,
        }
    };
}

macro_rules! pipelines {
    ($($name:ident: $variant:ident,)*) => {
        impl Pipeline {
            /// Every pipeline.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
        }
    };
}
for_each_pipeline!(pipelines);

/// What a plan was made for. The functions that make the plans are `kubexm_recipes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pipeline {
    /// Creates a cluster, or completes it.
    Create,
    /// Adds hosts to a cluster.
    AddNode,
    /// Removes hosts from a cluster, which stays.
    DeleteNode,
    /// Brings a cluster to the bundle's Kubernetes version.
    Upgrade,
    /// Renews the certificates of a cluster.
    CertsRenew,
    /// Gives etcd the data of a backup, on the same hosts.
    Restore,
    /// Removes a cluster from its hosts.
    Reset,
}

/// What a pipeline needs, besides hosts that answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// A bundle with the artifacts that its steps install.
    pub bundle: bool,
    /// A running cluster on the hosts.
    pub cluster: bool,
    /// The ledgers of the hosts.
    pub ledgers: bool,
}

/// What must be true of the hosts while a pipeline runs, and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// More than half of etcd's members run, at all times.
    Quorum,
    /// On every node, the control plane's name resolves to at least one running control plane, or to an external load
    /// balancer, at all times.
    ControlPlaneName,
    /// A running unit has its file and the programs that it was started from, at all times.
    UnitFiles,
    /// After a pipeline, running units have loaded the current configuration.
    LoadedConfig,
}

/// What the controller does after a plan has succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterSuccess {
    /// The cluster is what the bundle makes of it: the bundle is recorded and the operator's kubeconfig is written. So it is, too, if hosts
    /// were left out.
    ClusterInstalled,
    /// The kubeconfig is written anew if it may have the address of a host that was removed.
    HostsRemoved,
    /// Nothing: a kubeconfig that is there stays.
    ClusterKept,
    /// The kubeconfig and the record of the bundle are removed, if all hosts of the cluster were in the plan.
    ClusterRemoved,
}

/// When a plan is not executed at all, and nobody is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NothingToDo {
    /// Never: a plan without a difference is confirmed and executed, too.
    Never,
    /// It has no steps.
    NoSteps,
    /// It would change nothing on any host. Every step is in the plan, so that one that a crash has left out is found.
    NoDifference,
}

/// What distinguishes a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in plans, journals and reports.
    pub name: &'static str,
    /// The words of its command.
    pub command: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// The invariants that hold while it runs.
    pub invariants: &'static [Invariant],
    /// What the controller does after a success.
    pub after_success: AfterSuccess,
    /// When nothing is to be done.
    pub nothing_to_do: NothingToDo,
    /// Whether the lint's warnings are shown: not if they only repeat for each host what cannot be rolled back, which the confirmation
    /// prompt shows.
    pub shows_warnings: bool,
    /// Whether it is confirmed by typing the cluster's name.
    pub confirmed_by_name: bool,
}

/// Of the pipelines that leave a cluster which runs all the time.
const RUNNING: &[Invariant] =
    &[Invariant::Quorum, Invariant::ControlPlaneName, Invariant::UnitFiles, Invariant::LoadedConfig];
/// Of those that stop its etcd members and API servers.
const STOPPING: &[Invariant] = &[Invariant::UnitFiles, Invariant::LoadedConfig];

impl Row {
    /// Of a pipeline that makes a cluster what the bundle says, while it runs.
    const INSTALLS: Self = Self {
        name: "",
        command: "",
        needs: Needs { bundle: true, cluster: true, ledgers: false },
        invariants: RUNNING,
        after_success: AfterSuccess::ClusterInstalled,
        nothing_to_do: NothingToDo::Never,
        shows_warnings: true,
        confirmed_by_name: false,
    };

    const fn of(pipeline: Pipeline) -> Self {
        match pipeline {
            Pipeline::Create => Self {
                name: "create",
                command: "create",
                needs: Needs { bundle: true, cluster: false, ledgers: false },
                ..Self::INSTALLS
            },
            Pipeline::AddNode => Self { name: "add-node", command: "add-node", ..Self::INSTALLS },
            Pipeline::DeleteNode => Self {
                name: "delete-node",
                command: "delete-node",
                needs: Needs { bundle: false, cluster: true, ledgers: true },
                invariants: RUNNING,
                after_success: AfterSuccess::HostsRemoved,
                nothing_to_do: NothingToDo::NoSteps,
                shows_warnings: false,
                confirmed_by_name: false,
            },
            Pipeline::Upgrade => Self { name: "upgrade", command: "upgrade", shows_warnings: false, ..Self::INSTALLS },
            Pipeline::CertsRenew => Self {
                name: "certs-renew",
                command: "certs renew",
                needs: Needs { bundle: false, cluster: true, ledgers: false },
                invariants: RUNNING,
                after_success: AfterSuccess::ClusterKept,
                nothing_to_do: NothingToDo::NoDifference,
                shows_warnings: true,
                confirmed_by_name: false,
            },
            Pipeline::Restore => Self {
                name: "restore",
                command: "restore",
                needs: Needs { bundle: false, cluster: false, ledgers: false },
                // All members are stopped together.
                invariants: STOPPING,
                after_success: AfterSuccess::ClusterKept,
                nothing_to_do: NothingToDo::Never,
                shows_warnings: true,
                confirmed_by_name: true,
            },
            Pipeline::Reset => Self {
                name: "reset",
                command: "reset",
                needs: Needs { bundle: false, cluster: false, ledgers: true },
                // The cluster is removed: its etcd members and API servers are stopped one after another.
                invariants: STOPPING,
                after_success: AfterSuccess::ClusterRemoved,
                nothing_to_do: NothingToDo::NoSteps,
                shows_warnings: false,
                confirmed_by_name: false,
            },
        }
    }
}

impl Pipeline {
    /// What distinguishes it.
    pub const fn row(self) -> Row {
        Row::of(self)
    }

    /// The name in plans, journals and reports; of most pipelines also the command ([`Self::command`]).
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The words of its command.
    pub const fn command(self) -> &'static str {
        self.row().command
    }

    /// What it needs.
    pub const fn needs(self) -> Needs {
        self.row().needs
    }

    /// The invariants that hold while it runs.
    pub const fn invariants(self) -> &'static [Invariant] {
        self.row().invariants
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Pipeline;

    #[test]
    fn the_name_in_a_plan_is_the_verb() {
        for pipeline in Pipeline::ALL {
            assert_eq!(serde_json::to_value(pipeline).unwrap(), pipeline.name());
        }
    }
}
