//! The agent's start: its channel over a running command, and what it says when it does not run.

use super::channel::{AgentChannel, AgentHello, ChannelError};
use super::connection::{Connection, Streams, unreachable};
use super::install::{self, AgentBinary};
use super::{SshOptions, SshTarget};
use crate::link::LinkError;

/// Starts the agent in a mode and shakes hands.
pub async fn open_agent(
    connection: &Connection,
    target: &SshTarget,
    agent: &AgentBinary,
    options: &SshOptions,
    mode: &[&str],
) -> Result<(AgentChannel, AgentHello), LinkError> {
    let streams = connection.start(&install::agent_command(target, agent, mode)).await?;
    let error_text = streams.error_text;
    let opening = AgentChannel::open(streams.reader, streams.writer, &options.holder);
    let opened = tokio::time::timeout(options.connect_timeout, opening).await;
    let host = target.name.clone();
    match opened {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(ChannelError::Lost)) => Err(unreachable(target, "the connection ended while the agent started")),
        Ok(Err(_)) if connection.is_closed() => {
            Err(unreachable(target, "the connection ended while the agent started"))
        }
        Ok(Err(error)) => {
            let said = Streams::said(&error_text);
            let reason = if said.is_empty() { error.to_string() } else { format!("{error}; it said: {said}") };
            Err(LinkError::Protocol { host, reason })
        }
        Err(_) => {
            let reason = format!("it said nothing within {} s", options.connect_timeout.as_secs());
            Err(LinkError::Protocol { host, reason })
        }
    }
}
