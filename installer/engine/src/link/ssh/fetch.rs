//! Has the node take blobs from depots; the bytes do not pass the controller.

use std::time::Duration;

use kubexm_plan::op::Depots;
use kubexm_spec::Digest;

use super::{GRACE, SshLink};
use crate::link::wire::{Request, Response};
use crate::link::{DeliverProgress, Fetched, LinkError};

impl SshLink {
    /// Progress is reported for each blob once the node has answered: nothing of it passes here.
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
        // The agent keeps to the limit by itself; the grace is for the way, and for a new connection.
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
