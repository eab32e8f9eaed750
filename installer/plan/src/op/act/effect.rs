//! What acts do to a cluster.

use super::drained_for::DrainedFor;
use super::upgrade_of::UpgradeOf;
use crate::slot::SlotName;

/// What an act does to a cluster or its node, besides the change of what it touches. The simulated fleet executes these, so
/// that an act with one of them needs no rule of its own there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect<'a> {
    /// None: what it touches is all that it changes.
    OfWhatItTouches,
    /// The host becomes the first control plane of a new cluster, with this configuration of kubeadm.
    InitialisesCluster {
        /// Absolute path.
        config: &'a str,
    },
    /// The host becomes a node.
    JoinsNode {
        /// Of the control plane.
        control_plane: bool,
        /// What the join reads; a failed one uses it up.
        slots: &'a [SlotName],
    },
    /// What kubeadm has made on the host is removed.
    ResetsNode,
    /// It is remembered whether the node object exists.
    LooksUpNode {
        /// Node name.
        node: &'a str,
    },
    /// The node object is removed.
    DeletesNode {
        /// Node name.
        node: &'a str,
    },
    /// The node is cordoned, and its pods stay.
    CordonsNode {
        /// Node name.
        node: &'a str,
        /// On whose behalf.
        cordoned_by: &'a str,
    },
    /// The node is cordoned and its pods are evicted.
    DrainsNode {
        /// Node name.
        node: &'a str,
        /// On whose behalf it is cordoned.
        cordoned_by: Option<&'a str>,
        /// Nothing is done to a node that has this.
        unless: DrainedFor<'a>,
    },
    /// The node is schedulable again.
    UncordonsNode {
        /// Node name.
        node: &'a str,
    },
    /// The member is in etcd's list, without a vote.
    AddsMember {
        /// Name of the member.
        name: &'a str,
    },
    /// The member has a vote.
    PromotesMember {
        /// Name of the member.
        name: &'a str,
    },
    /// The member is removed from etcd's list.
    RemovesMember {
        /// Name of the member.
        name: &'a str,
    },
    /// kubeadm brings its part of the host to another version.
    UpgradesNode {
        /// `v1.35.4`.
        version: &'a str,
        /// What is upgraded.
        of: &'a UpgradeOf,
    },
    /// kubelet's configuration is as before the upgrade.
    RestoresKubeletConfig,
    /// Something runs once, and a mark on the host says so.
    LeavesMark {
        /// Different for everything that runs once.
        id: &'a str,
    },
    /// That is undone, and the mark is removed.
    RemovesMark {
        /// As in [`Effect::LeavesMark`].
        id: &'a str,
    },
}

impl Effect<'_> {
    /// Whether kubelet starts static pods of kubeadm's in consequence.
    pub const fn starts_static_pods(&self) -> bool {
        match self {
            Self::InitialisesCluster { .. } | Self::JoinsNode { .. } => true,
            Self::UpgradesNode { of, .. } => of.is_control_plane(),
            _ => false,
        }
    }
}
