//! One SSH connection: host key checked, user authenticated, commands run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use russh::client::{self, AuthResult, Handle, Msg};
use russh::keys::{PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_util::io::StreamReader;

use super::{SshOptions, SshTarget, key};
use crate::link::LinkError;
use crate::link::known_hosts::{self, KnownHosts, Verdict};

/// Keepalives without an answer until the connection counts as lost.
const KEEPALIVES: usize = 3;
/// Bytes of a command's output that are kept.
const MOST_OUTPUT: usize = 1 << 20;

/// An authenticated connection. Dropping it closes it.
pub struct Connection {
    handle: Handle<Checker>,
    target: SshTarget,
}

/// What a command left.
#[derive(Debug, Default)]
pub struct Output {
    /// Exit status; none when it was killed or the connection broke.
    pub status: Option<u32>,
    /// Its standard output, cut at 1 MiB.
    pub stdout: Vec<u8>,
    /// Its standard error, cut at 1 MiB.
    pub stderr: Vec<u8>,
}

/// The last that was written to standard error, for the error that a dead agent becomes.
pub type ErrorText = Arc<Mutex<Vec<u8>>>;

impl Connection {
    /// Connects, checks the host key and authenticates.
    pub async fn open(target: &SshTarget, options: &SshOptions) -> Result<Self, LinkError> {
        let (key_path, files) = (target.key_path.clone(), options.known_hosts.clone());
        let read = move || (key::load(&key_path), KnownHosts::load(&files));
        let (key, known) =
            tokio::task::spawn_blocking(read).await.map_err(|error| unreachable(target, &error.to_string()))?;
        let key = key.map_err(|reason| denied(target, reason))?;
        let known = known.map_err(|error| denied(target, format!("cannot read the known hosts: {error}")))?;

        let config = client::Config {
            preferred: key::preferred(&known.algorithms(&target.address, target.port)),
            nodelay: true,
            keepalive_interval: Some(options.keepalive),
            keepalive_max: KEEPALIVES,
            ..client::Config::default()
        };
        let checker = Checker { target: target.clone(), options: options.clone(), known };
        let connecting = async {
            let address = (target.address.as_str(), target.port);
            let socket = tokio::net::TcpStream::connect(address).await.map_err(russh::Error::from)?;
            socket.set_nodelay(true).map_err(russh::Error::from)?;
            client::connect_stream(Arc::new(config), socket, checker).await
        };
        let mut handle = within(options.connect_timeout, target, "connecting", connecting)
            .await?
            .map_err(|failed| failed.into_link_error(target))?;

        let authenticating = async {
            let hash = handle.best_supported_rsa_hash().await?.unwrap_or(Some(russh::keys::HashAlg::Sha512));
            let key = PrivateKeyWithHashAlg::new(Arc::clone(&key), hash);
            handle.authenticate_publickey(&target.user, key).await
        };
        let answered = within(options.connect_timeout, target, "authenticating", authenticating).await?;
        match answered {
            Ok(AuthResult::Success) => Ok(Self { handle, target: target.clone() }),
            Ok(AuthResult::Failure { partial_success: true, .. }) => {
                let reason = "the key was accepted, but sshd wants a second factor, which is not supported yet";
                Err(denied(target, reason.to_owned()))
            }
            Ok(AuthResult::Failure { .. }) => {
                let fingerprint = known_hosts::fingerprint(key.public_key());
                let (path, user) = (target.key_path.display(), &target.user);
                Err(denied(
                    target,
                    format!(
                        "the key {path} ({fingerprint}) was refused for user {user}; put its public half into \
                         {user}'s .ssh/authorized_keys there, or name another user or key"
                    ),
                ))
            }
            Err(error) => Err(unreachable(target, &format!("the connection ended while authenticating: {error}"))),
        }
    }

    /// Starts a command and gives its streams.
    pub async fn start(&self, command: &str) -> Result<Streams, LinkError> {
        let failed = |error: russh::Error| unreachable(&self.target, &format!("sshd opens no channel: {error}"));
        let channel: Channel<Msg> = self.handle.channel_open_session().await.map_err(failed)?;
        channel.exec(true, command).await.map_err(failed)?;
        let (reading, writing) = channel.split();
        let error_text = ErrorText::default();
        let (sender, receiver) = mpsc::channel(32);
        let writer = Box::new(writing.make_writer());
        tokio::spawn(pump(reading, writing, sender, Arc::clone(&error_text)));
        let stream = futures::stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|data: Bytes| (Ok::<_, std::io::Error>(data), receiver))
        });
        Ok(Streams { reader: Box::new(StreamReader::new(Box::pin(stream))), writer, error_text })
    }

    /// Runs a command to its end, with `input` as its standard input.
    pub async fn run(&self, command: &str, input: impl AsyncRead + Unpin + Send) -> Result<Output, LinkError> {
        let failed = |error: russh::Error| unreachable(&self.target, &format!("sshd runs no command: {error}"));
        let channel: Channel<Msg> = self.handle.channel_open_session().await.map_err(failed)?;
        channel.exec(true, command).await.map_err(failed)?;
        let (mut reading, writing) = channel.split();
        let feed = async {
            let mut input = input;
            let mut writer = writing.make_writer();
            // A command that reads no more has said why on its standard error.
            let copied = tokio::io::copy(&mut input, &mut writer).await;
            let _ = writing.eof().await;
            copied
        };
        let collect = async {
            let mut output = Output::default();
            while let Some(message) = reading.wait().await {
                match message {
                    ChannelMsg::Data { data } => keep(&mut output.stdout, &data),
                    ChannelMsg::ExtendedData { data, .. } => keep(&mut output.stderr, &data),
                    ChannelMsg::ExitStatus { exit_status } => output.status = Some(exit_status),
                    ChannelMsg::Failure => return Err(unreachable(&self.target, "sshd runs no command")),
                    _ => {}
                }
            }
            Ok(output)
        };
        // The output decides: when the command ends, what is still unread of the input does not matter.
        tokio::pin!(feed, collect);
        tokio::select! {
            output = &mut collect => output,
            _ = &mut feed => collect.await,
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

/// The streams of a running command.
pub struct Streams {
    /// Its standard output.
    pub reader: Box<dyn AsyncRead + Unpin + Send>,
    /// Its standard input.
    pub writer: Box<dyn AsyncWrite + Unpin + Send>,
    /// Its standard error, the first few KiB.
    pub error_text: ErrorText,
}

impl Streams {
    /// What it said on standard error so far, for people.
    pub fn said(error_text: &ErrorText) -> String {
        String::from_utf8_lossy(&error_text.lock().unwrap_or_else(PoisonError::into_inner)).trim().to_owned()
    }
}

/// Always reads, so that one channel that nobody reads does not stop the others of the connection. Closes the channel
/// when the streams are dropped.
async fn pump(
    mut reading: ChannelReadHalf,
    writing: ChannelWriteHalf<Msg>,
    sender: mpsc::Sender<Bytes>,
    error_text: ErrorText,
) {
    loop {
        let message = tokio::select! {
            message = reading.wait() => message,
            () = sender.closed() => None,
        };
        match message {
            Some(ChannelMsg::Data { data }) => {
                if sender.send(data).await.is_err() {
                    break;
                }
            }
            Some(ChannelMsg::ExtendedData { data, .. }) => {
                let mut text = error_text.lock().unwrap_or_else(PoisonError::into_inner);
                let room = (8_usize << 10).saturating_sub(text.len()).min(data.len());
                text.extend_from_slice(&data[..room]);
            }
            None | Some(ChannelMsg::Failure) => break,
            Some(_) => {}
        }
    }
    // A connection that is gone has closed its channels.
    let _ = writing.close().await;
}

fn keep(kept: &mut Vec<u8>, data: &[u8]) {
    let room = MOST_OUTPUT.saturating_sub(kept.len()).min(data.len());
    kept.extend_from_slice(&data[..room]);
}

/// Judges the server's key while the connection is made.
struct Checker {
    target: SshTarget,
    options: SshOptions,
    known: KnownHosts,
}

/// Why no connection came about.
#[derive(Debug)]
enum Refused {
    Ssh(russh::Error),
    HostKey(String),
}

impl From<russh::Error> for Refused {
    fn from(error: russh::Error) -> Self {
        Self::Ssh(error)
    }
}

impl Refused {
    fn into_link_error(self, target: &SshTarget) -> LinkError {
        match self {
            Self::HostKey(reason) => denied(target, reason),
            Self::Ssh(error @ russh::Error::NoCommonAlgo { .. }) => {
                denied(target, format!("the server and we have no algorithm in common: {error}"))
            }
            Self::Ssh(russh::Error::IO(error)) => unreachable(target, &error.to_string()),
            Self::Ssh(error) => unreachable(target, &format!("no SSH session came about: {error}")),
        }
    }
}

impl client::Handler for Checker {
    type Error = Refused;

    async fn check_server_key(&mut self, server: &PublicKeyOrCertificate) -> Result<bool, Refused> {
        let (host, port) = (&self.target.address, self.target.port);
        let key = server.public_key();
        let shown = known_hosts::fingerprint(&key);
        let kind = key.algorithm();
        match self.known.check(host, port, &key) {
            Verdict::Known => Ok(true),
            Verdict::Revoked(place) => {
                Err(Refused::HostKey(format!("its host key {shown} ({kind}) is revoked in {place}; do not go on")))
            }
            Verdict::Changed(place) => Err(Refused::HostKey(format!(
                "its host key {shown} ({kind}) is not the one recorded in {place}: somebody may be listening in between. \
                 If the host was installed anew, remove that line and run again"
            ))),
            Verdict::Unknown => match self.options.known_hosts.first() {
                Some(path) if self.options.accept_new => {
                    let (path, host, key) = (path.clone(), host.clone(), key.clone());
                    let learn = move || {
                        known_hosts::learn(&path, &host, port, &key)
                            .map_err(|error| format!("its host key cannot be recorded in {}: {error}", path.display()))
                    };
                    tracing::info!(host = %self.target.name, fingerprint = %shown, "host key accepted at first sight");
                    let learnt = tokio::task::spawn_blocking(learn).await;
                    learnt.unwrap_or_else(|error| Err(error.to_string())).map_err(Refused::HostKey)?;
                    Ok(true)
                }
                _ => {
                    let file = self.options.known_hosts.first().map_or_else(String::new, |p| p.display().to_string());
                    Err(Refused::HostKey(format!(
                        "its host key {shown} ({kind}) is not known; compare it with `ssh-keygen -lf \
                         /etc/ssh/ssh_host_*_key.pub` on the host and record it with `ssh-keyscan -p {port} {host} >> \
                         {file}`, or accept keys at first sight with --accept-new-host-keys"
                    )))
                }
            },
        }
    }
}

/// Bounds a stage of connecting.
async fn within<T>(
    timeout: Duration,
    target: &SshTarget,
    stage: &str,
    work: impl Future<Output = T>,
) -> Result<T, LinkError> {
    tokio::time::timeout(timeout, work)
        .await
        .map_err(|_| unreachable(target, &format!("{stage} took longer than {} s", timeout.as_secs())))
}

pub(super) fn unreachable(target: &SshTarget, reason: &str) -> LinkError {
    LinkError::Unreachable { host: target.name.clone(), address: target.shown(), reason: reason.to_owned() }
}

pub(super) fn denied(target: &SshTarget, reason: String) -> LinkError {
    LinkError::Denied { host: target.name.clone(), address: target.shown(), reason }
}
