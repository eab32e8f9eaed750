//! What the proxies have in common.

use crate::templates::Template;

/// TCP port on which a proxy answers with the revision of its configuration, on 127.0.0.1.
pub const STATUS_PORT: u16 = 6444;
/// The cluster's CA, which kubeadm writes on every node.
pub const CA: &str = "/etc/kubernetes/pki/ca.crt";

/// A proxy.
#[derive(Debug)]
pub struct Proxy {
    /// Its process, and the feature of the catalogue with its image.
    pub program: &'static str,
    /// Name of its pod, of the pod's container, and of the manifest.
    pub pod: &'static str,
    /// Folder of its configuration, which the pod mounts: a file of its own would stay the old one when it is replaced.
    pub folder: &'static str,
    /// Its configuration.
    pub config: &'static str,
    /// The template of that.
    pub template: Template,
    /// What its container runs.
    pub command: &'static [&'static str],
    /// Folders of the host that it reads, besides its own.
    pub reads: &'static [&'static str],
}
