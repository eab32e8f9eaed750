//! What `reset` does on a host: the parts of taking a cluster away that no other op has.
//!
//! Everything but [`Reset::Forgotten`] can be taken back, and the cluster runs again: data is renamed aside, not deleted.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_spec::Family;
use serde::{Deserialize, Serialize};

use crate::{Found, Op};

/// Name of the folder that takes what is set aside: `/var/lib/.kubexm-reset-etcd`, or `/var/lib/etcd/.kubexm-reset` in
/// one that is a mount point.
pub const ASIDE: &str = ".kubexm-reset";

/// One part of a reset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reset", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Reset {
    /// No act of ours runs, no process of a pod does, and no control group of one is left. kubelet must not run: an act
    /// that was stopped may have started it again, so it is stopped after that.
    PodsStopped,
    /// Nothing of these folders is where it was: what is mounted below is unmounted (never by force), the folder is
    /// renamed beside itself, and of one that is a mount point or a link the content is renamed inside it.
    SetAside {
        /// Absolute.
        paths: Vec<String>,
        /// Those of them that were there before us: they stay, and of what is in them the named entries stay as well.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        spared: BTreeMap<String, Vec<String>>,
        /// Folders whose earlier content [`crate::op::MoveAside`] moved. Once that is back, nothing in them is the cluster's
        /// any more: a reset that goes on after that leaves them alone.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        moved: BTreeSet<String>,
    },
    /// No link, rule, set or namespace of a cluster is left in the host's network.
    NetworkCleared,
    /// These ops are as they were found then.
    Reverted {
        /// The newest first: the order they are taken back in.
        ops: Vec<Op>,
        /// What each found before its first change, in the same order.
        before: Vec<Found>,
    },
    /// What was set aside is deleted, and the ledger, the store, the stamp, our logs and the agent's program with it.
    Forgotten {
        /// Folders whose asides go.
        paths: Vec<String>,
        /// Folders that were made for those (`/opt`), the deepest first: they go when nothing else is in them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parents: Vec<String>,
    },
}

impl Reset {
    /// As [`Op::touches`].
    pub fn touches(&self) -> Vec<String> {
        match self {
            Self::PodsStopped => vec!["pods".to_owned()],
            Self::SetAside { paths, .. } => paths.clone(),
            Self::NetworkCleared => vec!["network".to_owned()],
            Self::Reverted { ops, .. } => ops.iter().flat_map(Op::touches).collect(),
            Self::Forgotten { .. } => vec!["stamp".to_owned()],
        }
    }
}

impl Reset {
    /// Packages that go, and how: of each what was found before it came. Those that somebody else's package needs by then stay.
    pub fn packages_that_go(&self) -> BTreeMap<&str, Leaves> {
        let Self::Reverted { ops, before } = self else { return BTreeMap::new() };
        let mut going = BTreeMap::new();
        for (op, found) in ops.iter().zip(before) {
            let Op::Packages(packages) = op else { continue };
            for name in packages.packages.keys() {
                let was = found.state.get("packages").and_then(|all| all.get(name)).and_then(|one| one.get("is"));
                let leaves = match (was.and_then(|was| was.as_str()), packages.family) {
                    (Some("absent"), Family::Deb) => Leaves::Purged,
                    (Some("absent"), Family::Rpm) | (Some("configuration"), _) => Leaves::Removed,
                    _ => continue,
                };
                // The oldest look is the one that counts: the newest op comes first.
                going.insert(name.as_str(), leaves);
            }
        }
        going
    }
}

/// How a package goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leaves {
    /// With its configuration, and with what its scripts delete of its data: dpkg's word.
    Purged,
    /// Its changed configuration and its data stay.
    Removed,
}

impl std::fmt::Display for Reset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PodsStopped => f.write_str("no process of a pod, no init or join that still runs"),
            Self::SetAside { paths, spared, .. } => {
                write!(f, "set aside {}", paths.join(" "))?;
                let mut stays = spared.iter().flat_map(stays).filter(|path| !spared.contains_key(path)).peekable();
                if stays.peek().is_some() {
                    f.write_str("; what was there before stays:")?;
                }
                stays.try_for_each(|path| write!(f, " {path}"))
            }
            Self::NetworkCleared => f.write_str("no link, rule or set of a cluster in the network"),
            Self::Reverted { ops, .. } => {
                write!(f, "as found before:")?;
                ops.iter().try_for_each(|op| write!(f, "\n    {op}"))
            }
            Self::Forgotten { paths, .. } => {
                write!(f, "deleted: ledger, store, stamp, agent, what was set aside of {}", paths.join(" "))
            }
        }
    }
}

fn stays<'a>((folder, names): (&'a String, &'a Vec<String>)) -> impl Iterator<Item = String> + 'a {
    names.iter().map(move |name| format!("{folder}/{name}"))
}
