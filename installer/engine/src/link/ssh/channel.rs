//! The controller's end of an agent channel: parallel requests over one pair of streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kubexm_spec::Arch;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::link::answers;
use crate::link::wire::{Frame, PROTOCOL, Request, RequestMessage, Response, ResponseMessage, WireError, frame};

/// Interval of heartbeats; the agent gives up after [`crate::link::agent::SILENCE`].
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The channel ended or broke: repeat the request on a new one.
    #[error("the connection to the agent was lost")]
    Lost,
    /// The other side is not a kubexm agent.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The agent did not understand the request.
    #[error("{0}")]
    NotUnderstood(String),
}

type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Response>>>>>;

/// An open channel to an agent. Dropping it closes the channel.
#[derive(Debug)]
pub struct AgentChannel {
    outgoing: mpsc::Sender<Vec<u8>>,
    waiting: Waiting,
    next_id: AtomicU64,
    // Dropping it stops the tasks.
    _tasks: JoinSet<()>,
}

/// The agent's hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentHello {
    /// Program version.
    pub version: String,
    /// Architecture of its build.
    pub arch: Option<Arch>,
    /// Process id on the node.
    pub pid: u32,
}

impl AgentChannel {
    /// Waits for the magic line and does the handshake. `holder` identifies the run for others.
    pub async fn open(
        reader: impl AsyncRead + Unpin + Send + 'static,
        mut writer: impl AsyncWrite + Unpin + Send + 'static,
        holder: &str,
    ) -> Result<(Self, AgentHello), ChannelError> {
        let mut reader = BufReader::with_capacity(64 << 10, reader);
        frame::skip_to_magic(&mut reader).await?;
        let (outgoing, mut to_write) = mpsc::channel::<Vec<u8>>(16);
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let mut tasks = JoinSet::new();
        let closed = Arc::clone(&waiting);
        tasks.spawn(async move {
            while let Some(bytes) = to_write.recv().await {
                if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                    break;
                }
            }
            close(&closed);
        });
        let answered = Arc::clone(&waiting);
        tasks.spawn(async move {
            while let Ok(Some(Frame::Message(body))) = frame::next_frame(&mut reader).await {
                let ResponseMessage { id, answer } = match frame::parse(&body) {
                    Ok(message) => message,
                    // Asked again it would say the same.
                    Err(error @ WireError::TooMany) => match frame::id(&body) {
                        Some(id) => ResponseMessage {
                            id,
                            answer: Response::NotUnderstood { reason: format!("it answered with {error}") },
                        },
                        None => break,
                    },
                    Err(_) => break,
                };
                let sender = lock(&answered).as_mut().and_then(|waiting| waiting.remove(&id));
                // Nobody waits for the answer to a heartbeat, or to a request that timed out.
                if let Some(sender) = sender {
                    let _ = sender.send(answer);
                }
            }
            close(&answered);
        });
        let beat = outgoing.clone();
        let heartbeat = frame::message_frame(&RequestMessage { id: 0, ask: Request::Ping })?;
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                if beat.send(heartbeat.clone()).await.is_err() {
                    break;
                }
            }
        });
        let channel = Self { outgoing, waiting, next_id: AtomicU64::new(1), _tasks: tasks };
        let hello = Request::Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            holder: holder.to_owned(),
        };
        match channel.ask(&hello).await? {
            Response::Hello { protocol: PROTOCOL, version, arch, pid } => {
                Ok((channel, AgentHello { version, arch, pid }))
            }
            Response::Hello { protocol, .. } => Err(WireError::Protocol { theirs: protocol.to_string() }.into()),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a request and waits for the answer. The caller must limit the time.
    pub async fn ask(&self, ask: &Request) -> Result<Response, ChannelError> {
        let answer = self.send(ask).await?;
        match answer.await.map_err(|_| ChannelError::Lost)? {
            Response::NotUnderstood { reason } => Err(ChannelError::NotUnderstood(answers::error(reason))),
            answer => Ok(answer),
        }
    }

    /// Sends a request; the answer comes later.
    pub async fn send(&self, ask: &Request) -> Result<oneshot::Receiver<Response>, ChannelError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let bytes = frame::message_frame(&RequestMessage { id, ask: ask.clone() })?;
        let (sender, receiver) = oneshot::channel();
        lock(&self.waiting).as_mut().ok_or(ChannelError::Lost)?.insert(id, sender);
        self.raw(bytes).await?;
        Ok(receiver)
    }

    /// Sends the bytes of a complete frame. Waits while the other side does not read.
    pub async fn raw(&self, frame: Vec<u8>) -> Result<(), ChannelError> {
        self.outgoing.send(frame).await.map_err(|_| ChannelError::Lost)
    }

    /// Whether no more answers will come.
    pub fn is_closed(&self) -> bool {
        lock(&self.waiting).is_none()
    }
}

/// An answer that does not belong to the request.
pub fn unexpected(answer: &Response) -> ChannelError {
    match answer {
        Response::NotUnderstood { reason } => ChannelError::NotUnderstood(answers::error(reason.clone())),
        _ => ChannelError::NotUnderstood("the answer does not match the request".to_owned()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes everybody who waits: the channel is lost.
fn close(waiting: &Waiting) {
    lock(waiting).take();
}
