//! Lets the node fetch blobs from depots and from other hosts; the bytes do not pass through the controller.

use std::net::SocketAddr;
use std::time::Duration;

use kubexm_plan::op::Depots;
use kubexm_spec::Digest;

use super::{GRACE, SshLink};
use crate::link::agent::fetch::Limits;
use crate::link::answers;
use crate::link::wire::{Request, Response};
use crate::link::{DeliverProgress, Fetched, LinkError, RunIdentity};

impl SshLink {
    /// Progress is reported once for each blob, after the node has answered.
    pub(super) async fn fetch_from(
        &self,
        blobs: &[(Digest, u64)],
        depots: &Depots,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        if blobs.is_empty() || depots.urls.is_empty() {
            return Ok(Fetched { missing: blobs.to_vec(), ..Fetched::default() });
        }
        // The agent observes the limit itself; the extra time is for the network and for a new connection.
        let bytes = blobs.iter().map(|(_, size)| *size).sum();
        let limit = Duration::from_secs(depots.limit_s(bytes)).saturating_add(GRACE);
        let ask = Request::Fetch { blobs: blobs.iter().copied().collect(), depots: depots.clone() };
        self.fetched(blobs, &ask, limit, progress).await
    }

    /// The same, from another host of the run.
    pub(super) async fn fetch_from_host(
        &self,
        blobs: &[(Digest, u64)],
        from: SocketAddr,
        identity: &RunIdentity,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        let bytes = blobs.iter().map(|(_, size)| *size).sum();
        let limit = Limits::between_hosts(bytes).whole.saturating_add(GRACE);
        let ask = Request::FetchShared { blobs: blobs.iter().copied().collect(), from, identity: identity.clone() };
        self.fetched(blobs, &ask, limit, progress).await
    }

    async fn fetched(
        &self,
        blobs: &[(Digest, u64)],
        ask: &Request,
        limit: Duration,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        let Response::Fetched { missing, reasons, still_coming } = self.ask(ask, limit).await? else {
            return Err(self.misfit());
        };
        let (missing, came): (Vec<_>, Vec<_>) =
            blobs.iter().copied().partition(|(digest, _)| missing.contains_key(digest));
        for (digest, size) in came {
            progress(digest, size, size);
        }
        Ok(Fetched { missing, reasons: answers::reasons(reasons), still_coming })
    }
}
