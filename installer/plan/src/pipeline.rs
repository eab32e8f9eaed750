//! The pipelines: their names, what they start from, and which invariants hold while they run.
//!
//! A new pipeline is a variant and a row of `for_each_pipeline!`, through which the laws find it; `Recipe` of kubexm-session and the command are
//! added by hand.

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

/// A function from observed hosts to a plan.
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

impl Pipeline {
    /// The name in plans, journals and reports; of most pipelines also the command ([`Self::command`]).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::AddNode => "add-node",
            Self::DeleteNode => "delete-node",
            Self::Upgrade => "upgrade",
            Self::CertsRenew => "certs-renew",
            Self::Restore => "restore",
            Self::Reset => "reset",
        }
    }

    /// The words of its command.
    pub const fn command(self) -> &'static str {
        match self {
            Self::CertsRenew => "certs renew",
            other => other.name(),
        }
    }

    /// What it needs.
    pub const fn needs(self) -> Needs {
        match self {
            Self::Create => Needs { bundle: true, cluster: false, ledgers: false },
            Self::AddNode | Self::Upgrade => Needs { bundle: true, cluster: true, ledgers: false },
            Self::DeleteNode => Needs { bundle: false, cluster: true, ledgers: true },
            Self::CertsRenew => Needs { bundle: false, cluster: true, ledgers: false },
            Self::Restore => Needs { bundle: false, cluster: false, ledgers: false },
            Self::Reset => Needs { bundle: false, cluster: false, ledgers: true },
        }
    }

    /// The invariants that hold while it runs.
    pub const fn invariants(self) -> &'static [Invariant] {
        match self {
            Self::Create | Self::AddNode | Self::DeleteNode | Self::Upgrade | Self::CertsRenew => {
                &[Invariant::Quorum, Invariant::ControlPlaneName, Invariant::UnitFiles, Invariant::LoadedConfig]
            }
            // All members are stopped together.
            Self::Restore => &[Invariant::UnitFiles, Invariant::LoadedConfig],
            // The cluster is removed: its etcd members and API servers are stopped one after another.
            Self::Reset => &[Invariant::UnitFiles, Invariant::LoadedConfig],
        }
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
