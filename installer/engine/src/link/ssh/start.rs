//! Starts the agent: its channel over a running command, and the error output if it does not run.

use russh::Channel;
use russh::client::Msg;

use super::channel::{AgentChannel, AgentHello, ChannelError};
use super::connection::Connection;
use super::endpoint::unreachable;
use super::install::{self, AgentBinary};
use super::{SshOptions, SshTarget};
use crate::link::LinkError;

/// The agent's first message may take this many times sshd's own timeout: a busy node has to read a program of tens of
/// megabytes from disk. A lost connection is detected earlier, by keepalives.
const STARTS: u32 = 3;

/// Starts the agent in a mode, in a session, and does the handshake.
pub async fn open_agent(
    (connection, session): (&Connection, Channel<Msg>),
    target: &SshTarget,
    agent: &AgentBinary,
    options: &SshOptions,
    mode: &[&str],
) -> Result<(AgentChannel, AgentHello), LinkError> {
    let streams = connection.start(session, &install::agent_command(target, agent, mode)).await?;
    let trouble = streams.trouble;
    let opening = AgentChannel::open(streams.reader, streams.writer, &options.holder);
    let limit = options.connect_timeout * STARTS;
    let opened = tokio::time::timeout(limit, opening).await;
    let host = target.name.clone();
    match opened {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(_)) if trouble.password_refused() => Err(install::no_sudo(target, &trouble.said(), true)),
        Ok(Err(ChannelError::Lost)) => Err(unreachable(target, "the connection ended while the agent started")),
        Ok(Err(_)) if connection.is_closed() => {
            Err(unreachable(target, "the connection ended while the agent started"))
        }
        Ok(Err(error)) => {
            let said = trouble.said();
            if said.lines().any(|line| line.starts_with("sudo: ")) {
                return Err(install::no_sudo(target, &said, false));
            }
            let reason = if said.is_empty() { error.to_string() } else { format!("{error}; it said: {said}") };
            Err(LinkError::Protocol { host, reason })
        }
        Err(_) => {
            let reason = format!("it did not answer within {} s", limit.as_secs());
            Err(LinkError::Protocol { host, reason })
        }
    }
}
