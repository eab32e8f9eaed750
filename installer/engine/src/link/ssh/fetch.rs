//! Has the node take blobs from depots; the bytes do not pass the controller.

use kubexm_plan::op::Depots;
use kubexm_spec::Digest;

use super::{GRACE, SshLink};
use crate::link::agent::fetch::limit;
use crate::link::wire::{Answer, Ask};
use crate::link::{DeliverProgress, LinkError};

impl SshLink {
    /// What no depot gave. Progress is told for each blob once the node has answered: nothing of it passes here.
    pub(super) async fn fetch_from(
        &self,
        blobs: &[(Digest, u64)],
        depots: &Depots,
        progress: DeliverProgress<'_>,
    ) -> Result<Vec<(Digest, u64)>, LinkError> {
        if blobs.is_empty() || depots.urls.is_empty() {
            return Ok(blobs.to_vec());
        }
        let sizes = blobs.iter().copied().collect();
        // The agent keeps to the limit by itself; the grace is for the way, and for a new connection.
        let limit = limit(&sizes, depots) + GRACE;
        let Answer::Fetched { missing, reasons } =
            self.ask(&Ask::Fetch { blobs: sizes, depots: depots.clone() }, limit).await?
        else {
            return Err(self.misfit());
        };
        for reason in reasons {
            tracing::warn!(host = %self.target.name, reason, "a depot did not give all that was asked of it");
        }
        let (missing, came): (Vec<_>, Vec<_>) =
            blobs.iter().copied().partition(|(digest, _)| missing.contains_key(digest));
        for (digest, size) in came {
            progress(digest, size, size);
        }
        Ok(missing)
    }
}
