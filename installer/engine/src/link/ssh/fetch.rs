//! Lets the node fetch blobs from depots; the bytes do not pass through the controller.

use std::time::Duration;

use kubexm_plan::op::Depots;
use kubexm_spec::Digest;

use super::{GRACE, SshLink};
use crate::link::wire::{Request, Response};
use crate::link::{DeliverProgress, Fetched, LinkError};

impl SshLink {
    /// Progress is reported once for each blob, after the node has answered.
    pub(super) async fn fetch_from(
        &self,
        blobs: &[(Digest, u64)],
        depots: &Depots,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        if blobs.is_empty() || depots.urls.is_empty() {
            return Ok(Fetched { missing: blobs.to_vec(), reasons: Vec::new() });
        }
        let sizes = blobs.iter().copied().collect();
        // The agent observes the limit itself; the extra time is for the network and for a new connection.
        let bytes = blobs.iter().map(|(_, size)| *size).sum();
        let limit = Duration::from_secs(depots.limit_s(bytes)).saturating_add(GRACE);
        let Response::Fetched { missing, reasons } =
            self.ask(&Request::Fetch { blobs: sizes, depots: depots.clone() }, limit).await?
        else {
            return Err(self.misfit());
        };
        let (missing, came): (Vec<_>, Vec<_>) =
            blobs.iter().copied().partition(|(digest, _)| missing.contains_key(digest));
        for (digest, size) in came {
            progress(digest, size, size);
        }
        Ok(Fetched { missing, reasons })
    }
}
