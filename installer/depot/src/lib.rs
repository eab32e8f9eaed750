//! The depot `embedded`: the blobs of a bundle, once, served read-only over TLS from the registry host's own content
//! store. It runs as a systemd unit, so it outlives the installer and a reboot.
//!
//! Routes: `/v2/…` (OCI distribution-spec, the pull half), `/blobs/sha256/<hex>`, `/files/<name>`, and
//! `/packages/<os>-<arch>/…`, repositories for apt and dnf.

mod conditions;
mod config;
mod connections;
mod content;
mod earlier;
mod guesses;
mod login;
mod paced;
mod packages;
mod registry;
mod seats;
mod serve;
mod shared;

pub use serve::{Running, check, check_config, serve};
pub use shared::{RunTls, Served, SharedBlobs};

/// Why a depot cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum DepotError {
    /// A file it needs cannot be read.
    #[error("cannot read {path}; the plan's depot steps write it: run `kubexm-install create` again")]
    Read {
        path: String,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// Its config is not what this program reads.
    #[error(
        "{path} is not a depot config that this program can read; run `kubexm-install create` again with this \
             version"
    )]
    Config {
        path: String,
        #[source]
        source: serde_json::Error,
    },
    /// Certificate or key are not usable.
    #[error("certificate {cert} and key {key} do not work together: {reason}")]
    Tls {
        /// Certificate file.
        cert: String,
        /// Key file.
        key: String,
        /// rustls's error.
        reason: String,
    },
    /// The login that it demands is not usable.
    #[error("{path} has no login that can be demanded: {reason}; run `kubexm-install create` again, which writes it")]
    Login {
        /// The htpasswd file.
        path: String,
        /// What is wrong, without the content.
        reason: &'static str,
    },
    /// The port cannot be obtained.
    #[error("cannot listen on {listen}; see who holds the port with `ss -ltnp`")]
    Listen {
        /// Address and port.
        listen: String,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
}
