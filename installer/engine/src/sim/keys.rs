//! Keys of the simulated fleet's state: for things, for the state that an op desires, and for observed states.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::{Resource, runtime};

use super::world::blob_key;
use crate::link::ObservedState;

/// Desired keys and values of the host and of the cluster.
#[derive(Default)]
pub(super) struct Want {
    pub(super) host: BTreeMap<String, String>,
    pub(super) cluster: BTreeMap<String, String>,
}

/// Where the state of a resource is kept.
pub(super) enum Key {
    Host(String),
    Cluster(String),
}

/// The key of a resource. None for things that are only needed, or that are simulated separately.
pub(super) fn key(resource: &Resource) -> Option<Key> {
    Some(match resource {
        Resource::Path(path) => Key::Host(format!("path:{path}")),
        Resource::Blob(digest) => Key::Host(blob_key(digest)),
        Resource::Package(name) => Key::Host(format!("package:{name}")),
        Resource::Sysctl(name) => Key::Host(format!("sysctl:{name}")),
        Resource::Module(name) => Key::Host(format!("module:{name}")),
        Resource::Swap => Key::Host("swap".to_owned()),
        Resource::Selinux => Key::Host("selinux".to_owned()),
        Resource::SelinuxBoolean(name) => Key::Host(format!("selinux-boolean:{name}")),
        Resource::Hostname => Key::Host("hostname".to_owned()),
        Resource::HostNames => Key::Host("hosts".to_owned()),
        Resource::Nameservers => Key::Host("resolver".to_owned()),
        Resource::Image(reference) => Key::Host(format!("image:{reference}")),
        Resource::Kubeconfig(user) => Key::Host(format!("kubeconfig:{user}")),
        Resource::Stamp => Key::Host("stamp".to_owned()),
        Resource::EtcdServers => Key::Host("etcd-servers".to_owned()),
        Resource::EtcdEndpoints => Key::Cluster("etcd-endpoints".to_owned()),
        Resource::TrustedBy(path) => Key::Host(format!("trusted:{path}")),
        Resource::PublishedAuthority => Key::Cluster("published-authority".to_owned()),
        Resource::Objects(name) => Key::Cluster(format!("object:{name}")),
        Resource::Release { namespace, name } => Key::Cluster(format!("release:{namespace}/{name}")),
        Resource::Taint { node, key } => Key::Cluster(format!("taint:{node}:{key}")),
        Resource::Label { node, key } => Key::Cluster(format!("label:{node}:{key}")),
        Resource::Annotation { node, key } => Key::Cluster(format!("annotation:{node}:{key}")),
        Resource::NodeRecord(node) => Key::Cluster(format!("node-record:{node}")),
        Resource::HarborProject(name) => Key::Host(format!("harbor-project:{name}")),
        Resource::HarborRobot(name) => Key::Host(format!("harbor-robot:{name}")),
        Resource::HarborImage(name) => Key::Host(format!("harbor-image:{name}")),
        Resource::State(_)
        | Resource::Before(_)
        | Resource::Unit(_)
        | Resource::PackageManager
        | Resource::Node(_)
        | Resource::Member(_)
        | Resource::EtcdKeys(_)
        | Resource::Script(_)
        | Resource::Kubeadm => return None,
        Resource::ControlPlane | Resource::Pods | Resource::StaticPod(_) | Resource::Network => return None,
        Resource::Runtime | Resource::AdminConf | Resource::Api | Resource::Registry => return None,
    })
}

/// Keys with their earlier values; none if the key did not exist.
pub(super) type Keys = BTreeMap<String, Option<String>>;

/// The host's or the cluster's part of an observed state.
pub(super) fn keys(found: &ObservedState, part: &str) -> Result<Keys, String> {
    let keys = found.raw().get(part).cloned().unwrap_or_else(|| serde_json::json!({}));
    serde_json::from_value(keys).map_err(|e| format!("an observed state cannot be read: {e}"))
}

/// Whether a key's path is in one of the folders.
pub(super) fn is_below(key: &str, folders: &[String]) -> bool {
    folders.iter().any(|folder| below(key, folder).is_some())
}

/// A key's path relative to a folder; empty for the folder itself.
pub(super) fn below<'a>(key: &'a str, folder: &str) -> Option<&'a str> {
    let path = match key.split_once(':') {
        Some(("path", path)) => path,
        // Images are in the runtime's folder of data, which cluster.yaml may name.
        Some(("image", _)) => {
            let usual = runtime::INSTALLED.iter().any(|runtime| runtime.kind.data_dir() == folder);
            let of_data =
                usual || folder.ends_with("/containerd") && !["/opt/", "/run/"].iter().any(|at| folder.starts_with(at));
            return of_data.then_some("images");
        }
        _ => return None,
    };
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// The content of a folder as an agent lists it: folders end with `/`.
pub(super) fn held(state: &BTreeMap<String, String>, folder: &str) -> BTreeSet<String> {
    let mut held = BTreeSet::new();
    for (key, value) in state {
        let Some(rest) = below(key, folder).filter(|rest| !rest.is_empty()) else { continue };
        held.extend(rest.match_indices('/').map(|(at, slash)| rest[..at + slash.len()].to_owned()));
        held.insert(if value.starts_with("dir ") { format!("{rest}/") } else { rest.to_owned() });
    }
    held
}

/// Whether a key's path is in a folder and was not there when `held` was listed.
pub(super) fn came_into(key: &str, folder: &str, held: &BTreeSet<String>) -> bool {
    below(key, folder)
        .is_some_and(|rest| !rest.is_empty() && !held.contains(rest) && !held.contains(&format!("{rest}/")))
}
