//! What an op changes on its host, by name: what two steps without an order between them must not share.

use crate::op::{Act, Op};

impl Op {
    /// Paths as they are, other things with a word before (`unit containerd.service`). A content store and a
    /// directory are left out: adding to them twice is the same as once, whatever the order.
    pub fn touches(&self) -> Vec<String> {
        match self {
            Self::File(file) => vec![file.path.clone()],
            Self::MoveAside(aside) => aside.paths.iter().map(|path| format!("what was in {path}")).collect(),
            Self::Link(link) => vec![link.path.clone()],
            Self::Binary(binary) => vec![binary.path.clone()],
            Self::Unpacked(unpacked) => {
                let all = unpacked.all_into.iter().map(|all| format!("{}/*", all.directory));
                unpacked.members.values().cloned().chain(all).collect()
            }
            Self::RegistryLayout(layout) => vec![format!("{}/docker", layout.data_dir)],
            // dpkg and rpm do one thing at a time, whatever the names: two such steps need an order.
            Self::Packages(packages) => {
                let names = packages.packages.keys().chain(packages.replaced.keys());
                std::iter::once("packages".to_owned()).chain(names.map(|name| format!("package {name}"))).collect()
            }
            Self::Unit(unit) => vec![format!("unit {}", unit.name)],
            Self::Sysctl(sysctl) => {
                let values = sysctl.values.keys().map(|name| format!("sysctl {name}"));
                std::iter::once(sysctl.path.clone()).chain(values).collect()
            }
            Self::KernelModule(module) => vec![module.path.clone()],
            Self::SwapOff(_) => vec!["/etc/fstab".to_owned(), "swap".to_owned()],
            Self::HostsBlock(_) => vec!["/etc/hosts".to_owned()],
            Self::Resolver(_) => vec!["/etc/resolv.conf".to_owned()],
            Self::SelinuxMode(_) => vec!["/etc/selinux/config".to_owned()],
            Self::Hostname(_) => vec!["/etc/hostname".to_owned()],
            Self::ImageLoaded(image) => vec![format!("image {}", image.reference)],
            Self::Kubeconfig(config) => vec![format!("kubeconfig of {}", config.user)],
            Self::KubeObject(object) => vec![format!("objects {}", object.name)],
            Self::NodeUntainted(taint) => vec![format!("node {} taint {}", taint.node, taint.key)],
            Self::NodeLabel(label) => vec![format!("node {} label {}", label.node, label.key)],
            Self::Stamp(_) => vec!["stamp".to_owned()],
            Self::Act(Act::NodeDelete { node } | Act::NodeAwaited { node }) => vec![format!("node {node}")],
            // Of this host only: `kubeadm` changes no other, and etcd's members are the joins' own order.
            Self::Act(_) => vec!["kubeadm".to_owned()],
            Self::Reset(reset) => reset.touches(),
            Self::Blobs(_) | Self::Dir(_) | Self::StateDir(_) => Vec::new(),
        }
    }
}

/// Whether two of these names mean the same thing: `/opt/cni/bin/*` holds `/opt/cni/bin/bridge`.
pub fn same(one: &str, other: &str) -> bool {
    let holds = |all: &str, path: &str| {
        all.strip_suffix('*')
            .is_some_and(|folder| path.strip_prefix(folder).is_some_and(|rest| !rest.is_empty() && !rest.contains('/')))
    };
    one == other || holds(one, other) || holds(other, one)
}
