//! The reviewed list of imperative actions. Each can detect whether it has happened and clean up after an interruption;
//! on a real machine each runs as a transient systemd unit to which a resumed run attaches.

mod drained_for;
mod effect;
mod etcd_keys_delete;
mod kind;
mod kubeadm_init;
mod kubeadm_join;
mod kubeadm_reset;
mod kubeadm_upgrade;
mod kubeadm_upgrade_undo;
mod member_add;
mod member_promote;
mod member_remove;
mod node_cordon;
mod node_delete;
mod node_drain;
mod node_lookup;
mod node_uncordon;
mod script_run;
mod script_undo;
mod upgrade_of;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use drained_for::DrainedFor;
pub use effect::Effect;
pub use etcd_keys_delete::EtcdKeysDelete;
pub use kind::{ActKind, Progress, Review};
pub use kubeadm_init::{KubeadmInit, RestoredEtcd};
pub use kubeadm_join::KubeadmJoin;
pub use kubeadm_reset::KubeadmReset;
pub use kubeadm_upgrade::KubeadmUpgrade;
pub use kubeadm_upgrade_undo::KubeadmUpgradeUndo;
pub use member_add::MemberAdd;
pub use member_promote::MemberPromote;
pub use member_remove::MemberRemove;
pub use node_cordon::NodeCordon;
pub use node_delete::NodeDelete;
pub use node_drain::{CORDONED_BY, NodeDrain, PACKAGES};
pub use node_lookup::NodeLookup;
pub use node_uncordon::NodeUncordon;
pub use script_run::ScriptRun;
pub use script_undo::ScriptUndo;
pub use upgrade_of::UpgradeOf;

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback};
use crate::resource::ResourceChange;

/// The list; a text in parentheses is the name in plans, for an act that was renamed since. `each_act!(act, one => …)`
/// dispatches to the variant of an act.
#[doc(hidden)]
#[macro_export]
macro_rules! acts {
    ([$($then:tt)+] $($with:tt)*) => {
        $($then)+! { [$($with)*] KubeadmInit KubeadmJoin NodeLookup("nodeAwaited") NodeDelete KubeadmReset ScriptRun ScriptUndo
            NodeCordon NodeDrain NodeUncordon MemberRemove MemberAdd MemberPromote KubeadmUpgrade KubeadmUpgradeUndo
            EtcdKeysDelete }
    };
}

macro_rules! define {
    ([] $($kind:ident $(($wire:literal))?)*) => {
        /// One act of the list.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "act", rename_all = "camelCase")]
        pub enum Act {
            $(
                #[doc = concat!("See [`", stringify!($kind), "`].")]
                $(#[serde(rename = $wire)])?
                $kind($kind),
            )*
        }

        $(impl From<$kind> for Act {
            fn from(act: $kind) -> Self {
                Self::$kind(act)
            }
        })*
    };
}

/// Evaluates the same expression for whichever variant an act is.
#[macro_export]
macro_rules! each_act {
    ($act:expr, $kind:ident => $then:expr) => { $crate::acts!([$crate::match_act] ($act) $kind ($then)) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! match_act {
    ([($act:expr) $one:ident ($then:expr)] $($kind:ident $(($wire:literal))?)*) => {
        match $act { $($crate::op::Act::$kind($one) => $then,)* }
    };
}

acts!([define]);

impl Act {
    /// As [`ActKind::title`].
    pub fn title(&self) -> &'static str {
        each_act!(self, act => act.title())
    }

    /// As [`ActKind::review`].
    pub fn review(&self) -> Review {
        each_act!(self, act => act.review())
    }

    /// As [`ActKind::effect`].
    pub fn effect(&self) -> Effect<'_> {
        each_act!(self, act => act.effect())
    }
}

impl OpKind for Act {
    type State = Progress;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        each_act!(self, act => act.resource_changes())
    }

    fn needs(&self) -> Needs<'_> {
        each_act!(self, act => act.needs())
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Cluster
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each_act!(self, act => act.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_act_keeps_its_name_in_plans() {
        let act = Act::from(NodeLookup { node: "node2".to_owned() });
        let json = serde_json::json!({ "act": "nodeAwaited", "node": "node2" });
        assert_eq!(serde_json::to_value(&act).expect("JSON"), json);
        assert_eq!(serde_json::from_value::<Act>(json).expect("an act"), act);
    }
}
