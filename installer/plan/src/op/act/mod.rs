//! The reviewed list of imperative actions. Each knows how to see that it has happened and how to clear what a
//! kill in the middle leaves; on a real machine each runs as a transient systemd unit that a resume attaches to.

mod kind;
mod kubeadm_init;
mod kubeadm_join;
mod kubeadm_reset;
mod node_awaited;
mod node_delete;
mod script_run;
mod script_undo;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use kind::{ActKind, Progress};
pub use kubeadm_init::KubeadmInit;
pub use kubeadm_join::KubeadmJoin;
pub use kubeadm_reset::KubeadmReset;
pub use node_awaited::NodeAwaited;
pub use node_delete::NodeDelete;
pub use script_run::ScriptRun;
pub use script_undo::ScriptUndo;

use crate::kind::{AfterReset, Needs, OpKind, Scope};
use crate::touch::Touch;

/// The list. `each_act!(act, one => …)` goes to the one that an act is.
#[doc(hidden)]
#[macro_export]
macro_rules! acts {
    ([$($then:tt)+] $($with:tt)*) => {
        $($then)+! { [$($with)*] KubeadmInit KubeadmJoin NodeAwaited NodeDelete KubeadmReset ScriptRun ScriptUndo }
    };
}

macro_rules! define {
    ([] $($kind:ident)*) => {
        /// One of the list.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "act", rename_all = "camelCase")]
        pub enum Act {
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $kind($kind),)*
        }

        $(impl From<$kind> for Act {
            fn from(act: $kind) -> Self {
                Self::$kind(act)
            }
        })*
    };
}

/// Does the same with whatever act it is.
#[macro_export]
macro_rules! each_act {
    ($act:expr, $kind:ident => $then:expr) => { $crate::acts!([$crate::match_act] ($act) $kind ($then)) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! match_act {
    ([($act:expr) $one:ident ($then:expr)] $($kind:ident)*) => {
        match $act { $($crate::op::Act::$kind($one) => $then,)* }
    };
}

acts!([define]);

impl Act {
    /// As [`ActKind::title`].
    pub fn title(&self) -> &'static str {
        each_act!(self, act => act.title())
    }
}

impl OpKind for Act {
    type State = Progress;

    fn touches(&self) -> Vec<Touch> {
        each_act!(self, act => act.touches())
    }

    fn needs(&self) -> Needs<'_> {
        each_act!(self, act => act.needs())
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn after_reset(&self) -> AfterReset {
        AfterReset::Restored
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each_act!(self, act => act.fmt(f))
    }
}
