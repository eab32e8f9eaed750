//! Serves blobs of the node's store to the other hosts of the run, until the agent ends.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kubexm_depot::{RunTls, Served, SharedBlobs};
use kubexm_spec::{Digest, error_chain};
use tokio::runtime::{Builder, Runtime};

use crate::link::wire::RunIdentity;

/// How long the end of open transfers is waited for.
const STAY: Duration = Duration::from_secs(1);

/// A running server. Dropping it closes it and its connections.
pub(super) struct Sharing {
    runtime: Option<Runtime>,
    listen: SocketAddr,
    identity: RunIdentity,
    served: Served,
}

impl Sharing {
    pub(super) fn start(listen: SocketAddr, store: PathBuf, identity: RunIdentity) -> Result<Self, String> {
        let starting = |error: std::io::Error| format!("cannot start the server for other hosts: {error}");
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(starting)?;
        let served = Served::default();
        let RunIdentity { ca, certificate, key } = &identity;
        let server = {
            let _entered = runtime.enter();
            SharedBlobs::listen(listen, store, RunTls { ca, certificate, key: &key.0 }, served.clone())
        };
        runtime.spawn(server.map_err(|error| error_chain(&error))?.run());
        Ok(Self { runtime: Some(runtime), listen, identity, served })
    }

    /// Whether it serves there, for this run.
    pub(super) fn is_of(&self, listen: SocketAddr, identity: &RunIdentity) -> bool {
        self.listen == listen && self.identity == *identity
    }

    pub(super) fn add(&self, blobs: BTreeSet<Digest>) {
        self.served.add(blobs);
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(STAY);
        }
    }
}
