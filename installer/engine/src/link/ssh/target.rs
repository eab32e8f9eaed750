//! Where a host is, who we are there, and how connections to it are made.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::secret::{Password, Prompt};
use super::session::PROMPT;
use super::shared::Shared;

/// Where a host is and who we are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshTarget {
    /// Name in cluster.yaml.
    pub name: String,
    /// Address or DNS name; known_hosts is asked for it.
    pub address: String,
    /// Port of sshd.
    pub port: u16,
    /// Who logs in. Anybody but root needs sudo.
    pub login: Login,
    /// For sudo, where it asks for one. Without it sudo must not ask.
    pub sudo_password: Option<Password>,
    /// Hosts that the connection goes through, the nearest first.
    pub via: Vec<Hop>,
}

/// A host on the way to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Address or DNS name, as the host before it knows it; known_hosts is asked for it.
    pub address: String,
    /// Port of sshd.
    pub port: u16,
    /// Who logs in.
    pub login: Login,
}

/// Who logs in, and with what. Keys are offered first, in their order, then the password, then the server's own questions
/// are answered (keyboard-interactive, RFC 4256).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// User name.
    pub user: String,
    /// Keys.
    pub keys: Vec<KeySource>,
    /// Also given where the server's own questions ask for a password.
    pub password: Option<Password>,
}

/// Where keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A private key file.
    File(PathBuf),
    /// The socket of an ssh-agent, all of whose keys are offered.
    Agent(PathBuf),
}

/// How connections are made.
#[derive(Clone, Debug)]
pub struct SshOptions {
    /// Files of known host keys. The first is ours: keys accepted on first use are appended there.
    pub known_hosts: Vec<PathBuf>,
    /// Accept the key of a host that no file knows. A changed key is refused all the same.
    pub accept_new: bool,
    /// For each stage of connecting. The agent has three times as long for its first word.
    pub connect_timeout: Duration,
    /// Quiet time after which the connection is checked; after three checks without an answer it counts as lost.
    pub keepalive: Duration,
    /// Whose run it is, for another that finds the host held: run id and controller. Unique for a run's process.
    pub holder: String,
    /// Asks the operator for one-time codes and passphrases.
    pub prompt: Arc<dyn Prompt>,
    /// What the links of one run share.
    pub shared: Arc<Shared>,
}

impl SshTarget {
    /// What goes before a command that needs root. sudo reads the password from the channel, and only after it has written
    /// [`PROMPT`]: nothing else ever gets it.
    pub(super) fn root_prefix(&self) -> String {
        match (&self.sudo_password, self.login.user.as_str()) {
            (_, "root") => String::new(),
            (Some(_), _) => format!("sudo -S -p '{PROMPT}'"),
            (None, _) => "sudo -n".to_owned(),
        }
    }

    /// What sudo may ask for.
    pub(super) fn asked_by_sudo(&self) -> Option<Password> {
        self.sudo_password.clone().filter(|_| self.login.user != "root")
    }
}

/// Address and port, for people.
pub(super) fn shown(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}
