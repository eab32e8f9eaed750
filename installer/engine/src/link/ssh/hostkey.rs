//! Verifies a server's host key while the connection is made.

use std::sync::Arc;

use russh::client;
use russh::keys::PublicKeyOrCertificate;

use super::SshOptions;
use super::endpoint::Endpoint;
use crate::link::LinkError;
use crate::link::known_hosts::{self, KnownHosts, Verdict};

/// Verifies the server's key.
pub struct Checker {
    pub(super) endpoint: Endpoint,
    pub(super) options: SshOptions,
    pub(super) known: Arc<KnownHosts>,
}

/// Why no connection was made.
#[derive(Debug)]
pub enum Refused {
    /// An error of the connection or protocol.
    Ssh(russh::Error),
    /// A sentence about the key.
    HostKey(String),
}

impl From<russh::Error> for Refused {
    fn from(error: russh::Error) -> Self {
        Self::Ssh(error)
    }
}

impl Refused {
    pub(super) fn into_link_error(self, endpoint: &Endpoint) -> LinkError {
        match self {
            Self::HostKey(reason) => endpoint.denied(reason),
            Self::Ssh(error @ russh::Error::NoCommonAlgo { .. }) => {
                endpoint.denied(format!("the server and kubexm-install have no algorithm in common: {error}"))
            }
            Self::Ssh(russh::Error::IO(error)) => endpoint.unreachable(&error.to_string()),
            Self::Ssh(error) => endpoint.unreachable(&format!("the SSH connection could not be set up: {error}")),
        }
    }
}

impl client::Handler for Checker {
    type Error = Refused;

    async fn check_server_key(&mut self, server: &PublicKeyOrCertificate) -> Result<bool, Refused> {
        let (host, port) = (self.endpoint.address.clone(), self.endpoint.port);
        let key = server.public_key();
        let shown = format!("{} ({})", known_hosts::fingerprint(&key), key.algorithm());
        let verdict = self.known.check(&host, port, &key);
        let may_learn = self.options.accept_new && matches!(verdict, Verdict::Unknown | Verdict::Authority(_));
        if !may_learn {
            return judged(verdict, &shown, &host, port, &self.options).map(|()| true);
        }
        // Another link may have recorded the key meanwhile, if the host is a bastion of both.
        let _one_at_a_time = self.options.shared.learning.lock().await;
        let options = self.options.clone();
        let reported = shown.clone();
        let learn = move || {
            let known = KnownHosts::load(&options.known_hosts).map_err(|error| error.to_string())?;
            let verdict = known.check(&host, port, &key);
            match (verdict, options.known_hosts.first()) {
                (Verdict::Unknown | Verdict::Authority(_), Some(path)) => known_hosts::learn(path, &host, port, &key)
                    .map_err(|error| format!("its host key cannot be recorded in {}: {error}", path.display())),
                (verdict, _) => judged(verdict, &reported, &host, port, &options).map_err(|refused| match refused {
                    Refused::HostKey(reason) => reason,
                    Refused::Ssh(error) => error.to_string(),
                }),
            }
        };
        let learnt = tokio::task::spawn_blocking(learn).await;
        learnt.unwrap_or_else(|error| Err(error.to_string())).map_err(Refused::HostKey)?;
        tracing::info!(host = %self.endpoint.host, key = %shown, "host key accepted on first use");
        Ok(true)
    }
}

/// `shown` is the key's fingerprint and type.
fn judged(verdict: Verdict, shown: &str, host: &str, port: u16, options: &SshOptions) -> Result<(), Refused> {
    let file = options.known_hosts.first().map_or_else(String::new, |path| path.display().to_string());
    let record = format!(
        "compare it with `ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` on the host and record it with `ssh-keyscan -p \
         {port} {host} >> {file}`, or accept unknown keys on first use with --accept-new-host-keys"
    );
    Err(Refused::HostKey(match verdict {
        Verdict::Known => return Ok(()),
        Verdict::Revoked(place) => format!("its host key {shown} is revoked in {place}; do not continue"),
        Verdict::Changed(place) => format!(
            "its host key {shown} is not the one recorded in {place}: somebody may be intercepting the connection. If \
             the host was installed anew, compare the key with `ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` on the host, forget the \
             recorded one with `ssh-keygen -f {} -R '{}'`, and run again with --accept-new-host-keys",
            place.path.display(),
            if port == 22 { host.to_owned() } else { format!("[{host}]:{port}") }
        ),
        Verdict::Unknown => format!("its host key {shown} is not known; {record}"),
        Verdict::Authority(place) => format!(
            "its host key {shown} is not known: {place} trusts a @cert-authority for it, and host certificates are not \
             read by this program; {record}"
        ),
    }))
}
