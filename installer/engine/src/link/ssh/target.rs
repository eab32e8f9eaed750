//! A host's address, the login, and the options of connections.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kubexm_plan::facts::DataFolders;

use super::secret::{Password, Prompt};
use super::session::PROMPT;
use super::shared::Shared;

/// A host's address and the login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshTarget {
    /// Name in cluster.yaml.
    pub name: String,
    /// Address or DNS name, which is also looked up in known_hosts.
    pub address: String,
    /// Port of sshd.
    pub port: u16,
    /// The login. Users other than root need sudo.
    pub login: Login,
    /// sudo's password, if it asks for one. Without it sudo must not ask.
    pub sudo_password: Option<Password>,
    /// Bastions on the route to the host, the nearest first.
    pub via: Vec<Hop>,
    /// Folders that facts are to look at, beside the usual ones.
    pub folders: DataFolders,
}

/// A bastion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Address or DNS name, as resolved by the previous host; also looked up in known_hosts.
    pub address: String,
    /// Port of sshd.
    pub port: u16,
    /// The login.
    pub login: Login,
}

/// User and credentials. Keys are offered first, in their order, then the password; then the server's own questions are
/// answered (keyboard-interactive, RFC 4256).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// User name.
    pub user: String,
    /// Keys to offer.
    pub keys: Vec<KeySource>,
    /// Also the answer if the server's own questions ask for a password.
    pub password: Option<Password>,
}

/// The source of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A private key file.
    File(PathBuf),
    /// The socket of an ssh-agent; all of its keys are offered.
    Agent(PathBuf),
}

/// Options of connections.
#[derive(Clone, Debug)]
pub struct SshOptions {
    /// Files of known host keys. Keys that are accepted on first use are appended to the first.
    pub known_hosts: Vec<PathBuf>,
    /// Accept the key of an unknown host. A changed key is always refused.
    pub accept_new: bool,
    /// Timeout of each stage of connecting. The agent's first message may take three times as long.
    pub connect_timeout: Duration,
    /// Idle time after which the connection is checked; after three unanswered checks it counts as lost.
    pub keepalive: Duration,
    /// Identifies the run, for another one that finds the host locked: run id and controller. Unique for each process.
    pub holder: String,
    /// Asks the operator for one-time codes and passphrases.
    pub prompt: Arc<dyn Prompt>,
    /// State that the links of one run share.
    pub shared: Arc<Shared>,
}

impl SshTarget {
    /// Prefix of a command that needs root. sudo reads the password from the channel, and only after it has written
    /// [`PROMPT`], so nothing else receives it.
    pub(super) fn root_prefix(&self) -> String {
        match (&self.sudo_password, self.login.user.as_str()) {
            (_, "root") => String::new(),
            (Some(_), _) => format!("sudo -S -p '{PROMPT}'"),
            (None, _) => "sudo -n".to_owned(),
        }
    }

    /// The password that sudo may ask for.
    pub(super) fn asked_by_sudo(&self) -> Option<Password> {
        self.sudo_password.clone().filter(|_| self.login.user != "root")
    }
}

/// Address and port, for people.
pub(super) fn shown(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}
