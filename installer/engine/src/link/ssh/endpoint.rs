//! The other end of a connection: its name in errors, its address in known_hosts, and a time limit for its answers.

use std::time::Duration;

use super::SshTarget;
use super::target;
use crate::link::LinkError;

/// A host to log in to.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Name for people.
    pub host: String,
    /// Name for known_hosts.
    pub address: String,
    /// Port of sshd.
    pub port: u16,
}

impl Endpoint {
    pub(super) fn of(target: &SshTarget) -> Self {
        Self { host: target.name.clone(), address: target.address.clone(), port: target.port }
    }

    pub(super) fn unreachable(&self, reason: &str) -> LinkError {
        LinkError::Unreachable { host: self.host.clone(), address: self.shown(), reason: reason.to_owned() }
    }

    pub(super) fn denied(&self, reason: String) -> LinkError {
        LinkError::Denied { host: self.host.clone(), address: self.shown(), reason }
    }

    pub(super) fn shown(&self) -> String {
        target::shown(&self.address, self.port)
    }
}

/// Limits the time of a stage of connecting.
pub(super) async fn within<T>(
    timeout: Duration,
    endpoint: &Endpoint,
    stage: &str,
    work: impl Future<Output = T>,
) -> Result<T, LinkError> {
    tokio::time::timeout(timeout, work)
        .await
        .map_err(|_| endpoint.unreachable(&format!("{stage} took longer than {} s", timeout.as_secs_f32())))
}

pub(super) fn unreachable(target: &SshTarget, reason: &str) -> LinkError {
    Endpoint::of(target).unreachable(reason)
}

pub(super) fn denied(target: &SshTarget, reason: String) -> LinkError {
    Endpoint::of(target).denied(reason)
}
