//! The pipelines: what each is called, what it starts from, and what must hold while it runs.
//!
//! A new pipeline is a variant here; what has to know of it (recipe, verb, laws) does not compile until it does.

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

/// A function from what was seen to a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pipeline {
    /// A cluster is made, or completed.
    Create,
    /// Hosts are added to a cluster.
    AddNode,
    /// A cluster is removed from its hosts.
    Reset,
}

/// What a pipeline starts from, besides hosts that answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// A bundle with the artifacts that its steps place.
    pub bundle: bool,
    /// A cluster that runs on the hosts.
    pub cluster: bool,
    /// The ledgers of the hosts.
    pub ledgers: bool,
}

/// What must hold of the hosts while a pipeline runs, and when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// At every point more than half of etcd's members run.
    Quorum,
    /// At every point the control plane's name leads every node to at least one control plane that runs, or to a load
    /// balancer that is none of the hosts.
    ControlPlaneName,
    /// At every point a unit that runs has its file, and the programs that it was started from.
    UnitFiles,
    /// At rest a unit runs with the config that is there.
    LoadedConfig,
}

impl Pipeline {
    /// The verb of the command line, and the name in plans, journals and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::AddNode => "add-node",
            Self::Reset => "reset",
        }
    }

    /// What it starts from.
    pub const fn needs(self) -> Needs {
        match self {
            Self::Create => Needs { bundle: true, cluster: false, ledgers: false },
            Self::AddNode => Needs { bundle: true, cluster: true, ledgers: false },
            Self::Reset => Needs { bundle: false, cluster: false, ledgers: true },
        }
    }

    /// What holds throughout it.
    pub const fn invariants(self) -> &'static [Invariant] {
        match self {
            Self::Create | Self::AddNode => {
                &[Invariant::Quorum, Invariant::ControlPlaneName, Invariant::UnitFiles, Invariant::LoadedConfig]
            }
            // The cluster goes away: its members of etcd and its API servers are stopped one after another.
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
