//! The op kinds: each is one desired state of a host, in a file of its own. There is no generic "run this command".

mod absent;
mod act;
mod authority_published;
mod authority_renewed;
mod binary;
mod blobs;
mod blobs_removed;
mod bundles_removed;
mod certificates_renewed;
mod dir;
mod etcd_endpoints;
mod etcd_restored;
mod etcd_servers;
mod etcd_snapshot;
mod file;
mod harbor;
mod harbor_images;
mod harbor_images_removed;
mod harbor_projects;
mod helm_release;
mod hostname;
mod hosts_block;
mod image_loaded;
mod kernel_module;
mod kube_object;
mod kubeconfig;
mod kubeconfig_authority;
mod kubelet_certificate;
mod link;
mod manifests;
mod move_aside;
mod node_metadata;
mod node_pruned;
mod node_tainted;
mod node_untainted;
mod packages;
mod probe;
mod registry_blobs_removed;
mod registry_layout;
mod registry_unlinked;
mod release_absent;
pub mod reset;
mod resolver;
mod selinux_booleans;
mod selinux_mode;
mod stamp;
mod state_dir;
mod static_pod_started;
mod swap_off;
mod sysctl;
mod timezone;
mod unit;
mod unmanaged_links;
mod unpacked;

use std::collections::BTreeSet;
use std::fmt;

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

pub use absent::Absent;
pub use act::*;
pub use authority_published::{AuthorityPublished, Published};
pub use authority_renewed::{AuthorityRenewed, RenewedFrom};
pub use binary::Binary;
pub use blobs::{Blobs, Depots, Missing};
pub use blobs_removed::{BlobsRemoved, Present};
pub use bundles_removed::{BundlesRemoved, FoundRecords};
pub use certificates_renewed::{CertificatesRenewed, Renewal, RenewedFiles};
pub use dir::Dir;
pub use etcd_endpoints::EtcdEndpoints;
pub use etcd_restored::{EtcdRestored, RestorePhase, RestoreState, RestoredHost};
pub use etcd_servers::{EtcdServers, NamedServers};
pub use etcd_snapshot::{EtcdSnapshot, SNAPSHOTS, Snapshotted};
pub use file::{Content, File};
pub use harbor::{HARBOR_UNIT, HarborAccess};
pub use harbor_images::{HarborImage, HarborImages, MissingImages};
pub use harbor_images_removed::{FoundImages, HarborImagesRemoved, RemovedImages};
pub use harbor_projects::{FoundProjects, HarborProjects};
pub use helm_release::{FoundRelease, HELM, HelmRelease, ReleaseInput, Released};
pub use hostname::{Hostname, Names};
pub use hosts_block::{Hosts, HostsBlock};
pub use image_loaded::{ImageLoaded, ImageSource, Listed, Loaded};
pub use kernel_module::{KernelModule, Modules};
pub use kube_object::{Applied, KubeObject};
pub use kubeconfig::{Copied, Kubeconfig};
pub use kubeconfig_authority::KubeconfigAuthority;
pub use kubelet_certificate::{KUBELET_CLIENT, KUBELET_CLIENT_RENEWED, KubeletCertificate, KubeletClient};
pub use link::Link;
pub use manifests::{FoundManifests, Inventory, Manifests, NOTHING};
pub use move_aside::{AsideWas, MoveAside, MovedFolder, MovedFolders};
pub use node_metadata::{NodeAnnotation, NodeLabel, NodeMetadata, NodeValue};
pub use node_pruned::{NodeApplied, NodePruned, Pruned};
pub use node_tainted::NodeTainted;
pub use node_untainted::{NodeUntainted, Taint, Taints};
pub use packages::{PackageState, Packages, PackagesState, UnitWas, WantedPackage};
pub use probe::Probe;
pub use registry_blobs_removed::RegistryBlobsRemoved;
pub use registry_layout::{LayoutDifference, RegistryLayout};
pub use registry_unlinked::{FoundLinks, RegistryUnlinked, RemovedContent};
pub use release_absent::{FoundToRemove, ReleaseAbsent};
pub use resolver::{Resolver, Servers, Way};
pub use selinux_booleans::{PolicyBoolean, PolicyBooleans, SelinuxBooleans};
pub use selinux_mode::{Modes, SelinuxMode};
pub use stamp::{Stamp, Stamped};
pub use state_dir::StateDir;
pub use static_pod_started::{PodReady, StaticPodStarted, StaticPodState};
pub use swap_off::{SwapOff, Swaps};
pub use sysctl::{BootValue, Parameters, Sysctl};
pub use timezone::{Timezone, ZONES, ZoneWas};
pub use unit::{Started, Unit, UnitState};
pub use unmanaged_links::{ManagersFiles, UnmanagedLinks};
pub use unpacked::{AllInto, Placed, Unpacked};

use crate::kind::{AnyOp, Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::observed_state::{ObservedState, StateError};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};
use crate::slot::SlotName;

/// A part of a reset.
pub type Reset = reset::Reset<Op>;

/// The list. [`each_op`] dispatches to the kind of an op.
#[doc(hidden)]
#[macro_export]
macro_rules! ops {
    ([$($then:tt)+] $($with:tt)*) => {
        $($then)+! { [$($with)*]
            File Absent Dir StateDir MoveAside Link Blobs Binary Unpacked RegistryLayout Packages Unit Sysctl KernelModule SwapOff
            HostsBlock Resolver SelinuxMode SelinuxBooleans Hostname Timezone UnmanagedLinks ImageLoaded Kubeconfig KubeObject NodeUntainted NodeTainted
            NodeLabel NodeAnnotation NodePruned Stamp StaticPodStarted CertificatesRenewed KubeletCertificate EtcdSnapshot EtcdRestored EtcdServers EtcdEndpoints
            AuthorityRenewed KubeconfigAuthority AuthorityPublished HelmRelease ReleaseAbsent Manifests HarborProjects HarborImages BundlesRemoved BlobsRemoved
            RegistryUnlinked RegistryBlobsRemoved HarborImagesRemoved Act Reset
        }
    };
}

macro_rules! define {
    ([] $($kind:ident)*) => {
        /// One resource that must hold.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "op", rename_all = "camelCase")]
        pub enum Op {
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $kind($kind),)*
        }

        $(impl From<$kind> for Op {
            fn from(op: $kind) -> Self {
                Self::$kind(op)
            }
        })*

        impl Op {
            /// Names of all kinds, in the order of the list.
            pub const KINDS: &[&str] = &[$(stringify!($kind)),*];

            /// The name of its kind.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$kind(_) => stringify!($kind),)* }
            }
        }
    };
}

/// Evaluates the same expression for whichever kind an op is.
#[macro_export]
macro_rules! each_op {
    ($op:expr, $kind:ident => $then:expr) => { $crate::ops!([$crate::match_op] ($op) $kind ($then)) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! match_op {
    ([($op:expr) $one:ident ($then:expr)] $($kind:ident)*) => {
        match $op { $($crate::Op::$kind($one) => $then,)* }
    };
}

ops!([define]);

macro_rules! acts_are_ops {
    ([] $($kind:ident $(($wire:literal))?)*) => {
        $(impl From<$kind> for Op {
            fn from(act: $kind) -> Self {
                Self::Act(act.into())
            }
        })*
    };
}

crate::acts!([acts_are_ops]);

impl Op {
    /// As [`OpKind::resource_changes`].
    pub fn resource_changes(&self) -> Vec<ResourceChange> {
        each_op!(self, op => op.resource_changes())
    }

    /// Things that it changes and that other steps may change only before or after it, not in parallel.
    pub fn alone(&self) -> Vec<Resource> {
        self.resource_changes().into_iter().filter(|change| !change.shared).map(|change| change.resource).collect()
    }

    /// As [`OpKind::needs`].
    pub fn needs(&self) -> Needs<'_> {
        each_op!(self, op => op.needs())
    }

    /// As [`OpKind::scope`].
    pub fn scope(&self) -> RemovalScope {
        each_op!(self, op => op.scope())
    }

    /// As [`OpKind::after_reset`].
    pub fn reset_rollback(&self) -> ResetRollback {
        each_op!(self, op => op.reset_rollback())
    }

    /// Slots whose values the op receives.
    pub fn slots(&self) -> &[SlotName] {
        self.needs().slots
    }

    /// The text of the plan that the op uses.
    pub fn text(&self) -> Option<Digest> {
        self.needs().text
    }

    /// Blobs of the node's content store that the op reads.
    pub fn blobs(&self) -> BTreeSet<Digest> {
        self.needs().blobs.into_iter().collect()
    }

    /// Whether it changes this resource.
    pub fn changes(&self, resource: &Resource) -> bool {
        self.resource_changes().iter().any(|change| change.resource == *resource)
    }

    /// Every place in a state that the op observed.
    pub fn places(&self, found: &ObservedState) -> Result<Vec<PathState>, StateError> {
        fn of<K: OpKind>(_: &K, found: &ObservedState) -> Result<Vec<PathState>, StateError> {
            Ok(found.state::<K>()?.places().into_iter().cloned().collect())
        }
        each_op!(self, op => of(op, found))
    }

    /// Whether the parts that are not files are as they were `then`, compared with the state observed `now`.
    pub fn is_back(&self, now: &ObservedState, then: &ObservedState) -> Result<bool, StateError> {
        fn of<K: OpKind>(_: &K, now: &ObservedState, then: &ObservedState) -> Result<bool, StateError> {
            let (state, before) = (now.state::<K>()?, then.state::<K>()?);
            let by_places = now.satisfied == then.satisfied || !before.places().is_empty();
            Ok(state.is_back(&before).unwrap_or(by_places))
        }
        each_op!(self, op => of(op, now, then))
    }
}

impl AnyOp for Op {
    fn all_touches(&self) -> Vec<ResourceChange> {
        self.resource_changes()
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each_op!(self, op => op.fmt(f))
    }
}
