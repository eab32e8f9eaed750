//! Where a host is, who we are there, and how connections to it are made.

use std::path::PathBuf;
use std::time::Duration;

/// Where a host is and who we are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshTarget {
    /// Name in cluster.yaml.
    pub name: String,
    /// Address or DNS name; known_hosts is asked for it.
    pub address: String,
    /// Of sshd.
    pub port: u16,
    /// Who logs in. Anybody but root needs passwordless sudo.
    pub user: String,
    /// Private key without a passphrase.
    pub key_path: PathBuf,
}

/// How connections are made.
#[derive(Clone, Debug)]
pub struct SshOptions {
    /// Files of known host keys. The first is ours: keys accepted at first sight are appended there.
    pub known_hosts: Vec<PathBuf>,
    /// Accept the key of a host that no file knows. A changed key is refused all the same.
    pub accept_new: bool,
    /// For each stage of connecting.
    pub connect_timeout: Duration,
    /// Quiet time after which the connection is checked; after three checks without an answer it counts as lost.
    pub keepalive: Duration,
    /// Whose run it is, for another that finds the host held: run id and controller. Unique for a run's process.
    pub holder: String,
}

impl SshTarget {
    /// What goes before a command that needs root.
    pub(super) fn root_prefix(&self) -> &'static str {
        if self.user != "root" { "sudo -n" } else { "" }
    }

    /// Address and port, for people.
    pub(super) fn shown(&self) -> String {
        if self.address.contains(':') {
            format!("[{}]:{}", self.address, self.port)
        } else {
            format!("{}:{}", self.address, self.port)
        }
    }
}
