//! One SSH connection, through the bastions that the target names: host keys verified, users authenticated.

use std::sync::Arc;
use std::time::Duration;

use russh::client::{self, Handle, Msg};
use russh::{Channel, ChannelOpenFailure};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::auth;
use super::endpoint::{Endpoint, denied, unreachable, within};
use super::hostkey::{Checker, Refused};
use super::session::{self, Output, Streams};
use super::target::{KeySource, Login};
use super::{SshOptions, SshTarget, key, shared};
use crate::link::LinkError;
use crate::link::known_hosts::KnownHosts;

/// Unanswered keepalives until the connection counts as lost.
const KEEPALIVES: usize = 3;
/// Time limit of a script that looks or removes, even with a slow login shell; and of one that is sent a program.
pub const SCRIPT: Duration = Duration::from_secs(120);
pub const SENDING: Duration = Duration::from_secs(600);
/// How long sshd may still count a session that has ended.
const REAP_TIME: Duration = Duration::from_secs(4);

/// An authenticated connection. Dropping it closes it.
pub struct Connection {
    handle: Handle<Checker>,
    target: SshTarget,
    /// Time limit of a session's opening.
    limit: Duration,
    /// The bastions' connections, the nearest first.
    _bastions: Vec<Hopped>,
}

struct Hopped {
    endpoint: Endpoint,
    handle: Handle<Checker>,
}

/// Why no session was opened.
#[derive(Debug)]
pub enum NoSession {
    /// sshd allows no more sessions on this connection.
    Refused,
    /// The connection is lost.
    Lost(LinkError),
}

impl Connection {
    /// Connects through each hop, verifying every host key and logging in everywhere.
    pub async fn open(target: &SshTarget, options: &SshOptions) -> Result<Self, LinkError> {
        let endpoint = Endpoint::of(target);
        let files = options.known_hosts.clone();
        let known = tokio::task::spawn_blocking(move || KnownHosts::load(&files)).await;
        let known = known.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let known = Arc::new(known.map_err(|error| endpoint.denied(format!("cannot read the known hosts: {error}")))?);
        let mut bastions: Vec<Hopped> = Vec::new();
        for hop in &target.via {
            let host = format!("the bastion of {}", target.name);
            let endpoint = Endpoint { host, address: hop.address.clone(), port: hop.port };
            let handle = enter(&endpoint, &hop.login, bastions.last(), &known, options).await?;
            bastions.push(Hopped { endpoint, handle });
        }
        let handle = enter(&endpoint, &target.login, bastions.last(), &known, options).await?;
        Ok(Self { handle, target: target.clone(), limit: options.connect_timeout, _bastions: bastions })
    }

    /// Opens a session. An sshd may answer keepalives and nothing else.
    pub async fn session(&self) -> Result<Channel<Msg>, NoSession> {
        let opening = self.handle.channel_open_session();
        let opened = within(self.limit, &Endpoint::of(&self.target), "opening a session", opening).await;
        opened.map_err(NoSession::Lost)?.map_err(|error| match error {
            russh::Error::ChannelOpenFailure(_) => NoSession::Refused,
            error => NoSession::Lost(unreachable(&self.target, &format!("sshd opens no session: {error}"))),
        })
    }

    /// Opens a session if no other is open. sshd counts a session until it has reaped the command's process, so with
    /// `MaxSessions 1` it may refuse the next one for a moment.
    pub async fn only_session(&self) -> Result<Channel<Msg>, LinkError> {
        let until = Instant::now() + REAP_TIME;
        loop {
            match self.session().await {
                Ok(session) => return Ok(session),
                Err(NoSession::Lost(error)) => return Err(error),
                Err(NoSession::Refused) if Instant::now() < until => tokio::time::sleep(REAP_TIME / 40).await,
                Err(NoSession::Refused) => {
                    let reason = "sshd opens no session at all; look at MaxSessions in its sshd_config";
                    return Err(denied(&self.target, reason.to_owned()));
                }
            }
        }
    }

    /// Starts a command in the given session, and returns its streams.
    pub async fn start(&self, channel: Channel<Msg>, command: &str) -> Result<Streams, LinkError> {
        let started = session::start(channel, command, self.target.asked_by_sudo()).await;
        started.map_err(|error| unreachable(&self.target, &format!("sshd runs no command: {error}")))
    }

    /// Runs a script to its end, with `input` as its standard input, for so long at most.
    pub async fn run(
        &self,
        channel: Channel<Msg>,
        script: &str,
        input: impl AsyncRead + Unpin + Send,
        limit: Duration,
    ) -> Result<Output, LinkError> {
        let failed = |why: &str| unreachable(&self.target, &format!("sshd runs no command: {why}"));
        let running = session::run(channel, script, self.target.asked_by_sudo(), input);
        match tokio::time::timeout(limit, running).await {
            Ok(Ok(Some(output))) => Ok(output),
            Ok(Ok(None)) => Err(failed("it refuses")),
            Ok(Err(error)) => Err(failed(&error.to_string())),
            Err(_) => Err(failed("it did not end; does its login shell, or sudo, wait for something else?")),
        }
    }

    /// Whether it ended.
    pub fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("target", &self.target).finish_non_exhaustive()
    }
}

/// Logs in to one host, through the one before it.
async fn enter(
    endpoint: &Endpoint,
    login: &Login,
    through: Option<&Hopped>,
    known: &Arc<KnownHosts>,
    options: &SshOptions,
) -> Result<Handle<Checker>, LinkError> {
    // A key that cannot be read is reported before anything is dialled.
    for source in &login.keys {
        if let KeySource::File(path) = source {
            shared::load(path).await.map_err(|reason| endpoint.denied(reason))?;
        }
    }
    let _turn = options.shared.turn(&endpoint.address, endpoint.port).await;
    let mut handle = match through {
        None => {
            let dialling = tokio::net::TcpStream::connect((endpoint.address.as_str(), endpoint.port));
            let socket = within(options.connect_timeout, endpoint, "connecting", dialling).await?;
            let socket = socket.and_then(|socket| socket.set_nodelay(true).map(|()| socket));
            let socket = socket.map_err(|error| endpoint.unreachable(&error.to_string()))?;
            greet(socket, endpoint, known, options).await?
        }
        Some(bastion) => {
            let (address, port) = (endpoint.address.clone(), u32::from(endpoint.port));
            let opening = bastion.handle.channel_open_direct_tcpip(address, port, "127.0.0.1", 0);
            let opened = within(options.connect_timeout, endpoint, "connecting through the bastion", opening).await?;
            let channel = opened.map_err(|error| not_forwarded(endpoint, &bastion.endpoint, error))?;
            greet(channel.into_stream(), endpoint, known, options).await?
        }
    };
    auth::authenticate(&mut handle, endpoint, login, options).await?;
    Ok(handle)
}

/// SSH's own beginning, with the host key.
async fn greet<S>(
    stream: S,
    endpoint: &Endpoint,
    known: &Arc<KnownHosts>,
    options: &SshOptions,
) -> Result<Handle<Checker>, LinkError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = client::Config {
        preferred: key::preferred(&known.algorithms(&endpoint.address, endpoint.port)),
        nodelay: true,
        keepalive_interval: Some(options.keepalive),
        keepalive_max: KEEPALIVES,
        ..client::Config::default()
    };
    let checker = Checker { endpoint: endpoint.clone(), options: options.clone(), known: Arc::clone(known) };
    let greeting = client::connect_stream(Arc::new(config), stream, checker);
    let greeted: Result<_, Refused> = within(options.connect_timeout, endpoint, "connecting", greeting).await?;
    greeted.map_err(|refused| refused.into_link_error(endpoint))
}

/// A bastion that does not lead on (RFC 4254, 5.1).
fn not_forwarded(endpoint: &Endpoint, bastion: &Endpoint, error: russh::Error) -> LinkError {
    match error {
        russh::Error::ChannelOpenFailure(ChannelOpenFailure::AdministrativelyProhibited) => bastion.denied(format!(
            "it does not forward to {}: AllowTcpForwarding or PermitOpen in its sshd_config forbids it",
            endpoint.shown()
        )),
        russh::Error::ChannelOpenFailure(_) => {
            endpoint.unreachable(&format!("the bastion {} cannot connect to it", bastion.shown()))
        }
        error => bastion.unreachable(&format!("the connection to it ended: {error}")),
    }
}
