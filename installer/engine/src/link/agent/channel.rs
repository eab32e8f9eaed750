//! The agent's channel: incoming frames, outgoing answers, and the handshake that both modes share.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubexm_spec::Arch;

use crate::link::wire::{Frame, PROTOCOL, Response, ResponseMessage, WireError, frame};

/// Why an agent ended, other than by `Bye` or a closed channel.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The input was not the protocol.
    #[error("the controller does not speak this agent's protocol: {0}")]
    Wire(#[from] WireError),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

pub(super) fn not_here(reason: &str) -> Response {
    Response::NotUnderstood { reason: reason.to_owned() }
}

pub(super) fn hello(protocol: u32) -> Response {
    if protocol == PROTOCOL {
        Response::Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            arch: Arch::from_any(std::env::consts::ARCH),
            pid: std::process::id(),
        }
    } else {
        let reason = format!("the controller speaks protocol {protocol}, this agent {PROTOCOL}");
        Response::NotUnderstood { reason }
    }
}

/// The agent's side of the channel, shared by the threads that answer.
pub(super) struct Out(Mutex<Box<dyn Write + Send>>);

impl Out {
    pub(super) fn new(mut stdout: impl Write + Send + 'static) -> Result<Self, AgentError> {
        stdout.write_all(frame::magic_line().as_bytes()).and_then(|()| stdout.flush()).map_err(WireError::from)?;
        Ok(Self(Mutex::new(Box::new(stdout))))
    }

    /// If an answer cannot be written, nobody waits for it: the controller asks again on a new channel.
    pub(super) fn answer(&self, id: u64, answer: Response) {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = match frame::write_message(&mut *out, &ResponseMessage { id, answer }) {
            Err(WireError::TooLong { length, .. }) => {
                let text = format!("an answer of {length} bytes is too long to be sent");
                frame::write_message(&mut *out, &ResponseMessage { id, answer: Response::Failed { text } })
            }
            other => other,
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "an answer could not be sent");
        }
    }
}

pub(super) type Frames = Receiver<Result<Frame, WireError>>;

/// Incoming frames, read by a thread so that silence can be detected. The thread ends with the process or channel.
pub(super) fn read_frames(mut stdin: impl Read + Send + 'static) -> Result<Frames, AgentError> {
    let (sender, frames) = sync_channel(8);
    let read = move || {
        while let Some(frame) = frame::read_frame(&mut stdin).transpose() {
            let broken = frame.is_err();
            if sender.send(frame).is_err() || broken {
                break;
            }
        }
    };
    std::thread::Builder::new().name("frames".into()).spawn(read).map_err(AgentError::Thread)?;
    Ok(frames)
}

/// None if the channel was closed or fell silent.
pub(super) fn next_frame(frames: &Frames, silence: Duration) -> Result<Option<Frame>, WireError> {
    match frames.recv_timeout(silence) {
        // A broken channel counts as closed.
        Ok(Err(WireError::Io(_) | WireError::Cut)) => Ok(None),
        Ok(frame) => frame.map(Some),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(None),
    }
}
