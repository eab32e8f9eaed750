//! Connections that stay open between requests, and the thread that they are on.

use std::sync::OnceLock;

use reqwest::Client;
use tokio::runtime::{Builder, Runtime};

use crate::OpError;

/// Connections to servers with one identity, opened when they are needed.
#[derive(Debug, Default)]
pub struct Connections(OnceLock<Open>);

/// A client, and the thread on which its connections are.
#[derive(Debug)]
struct Open {
    client: Client,
    /// Taken when it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Open {
    fn drop(&mut self) {
        // Waiting for it is not allowed everywhere.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Connections {
    /// Runs what is asked with the client, which `make` makes if there is none yet.
    pub(crate) fn run<T>(
        &self,
        make: impl FnOnce() -> Result<Client, OpError>,
        ask: impl AsyncFnOnce(&Client) -> Result<T, OpError>,
    ) -> Result<T, OpError> {
        let Open { client, runtime } = match self.0.get() {
            Some(open) => open,
            None => {
                let open = Open { client: make()?, runtime: Some(thread()?) };
                self.0.get_or_init(|| open)
            }
        };
        match runtime {
            Some(runtime) => runtime.block_on(ask(client)),
            None => Err(OpError::other("a connection was used after it was closed; this is a fault of the program")),
        }
    }
}

fn thread() -> Result<Runtime, OpError> {
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("https").enable_all().build();
    runtime.map_err(|error| OpError::other(format!("no thread for connections: {error}")))
}
