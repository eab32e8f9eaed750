//! Lets the node fetch blobs from depots and from other hosts; the bytes do not pass through the controller.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use kubexm_plan::StepId;
use kubexm_plan::op::Depots;
use kubexm_spec::Digest;

use super::requests::GRACE;
use super::unwanted::Waiting;
use super::{LOOK, SshLink};
use crate::link::agent::fetch::Limits;
use crate::link::answers;
use crate::link::wire::{Request, Response};
use crate::link::{DeliverProgress, Fetched, LinkError, RunIdentity};

impl SshLink {
    /// Progress is reported once for each blob, after the node has answered.
    pub(super) async fn fetch_from(
        &self,
        step: &StepId,
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
        let step = step.clone();
        let ask = Request::Fetch { step, blobs: blobs.iter().copied().collect(), depots: depots.clone() };
        self.fetched(blobs, &ask, limit, progress).await
    }

    /// The same, from another host of the run.
    pub(super) async fn fetch_from_host(
        &self,
        step: &StepId,
        blobs: &[(Digest, u64)],
        (from, identity): (SocketAddr, &RunIdentity),
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        let bytes = blobs.iter().map(|(_, size)| *size).sum();
        let limit = Limits::between_hosts(bytes).whole.saturating_add(GRACE);
        let (step, identity) = (step.clone(), identity.clone());
        let ask = Request::FetchShared { step, blobs: blobs.iter().copied().collect(), from, identity };
        self.fetched(blobs, &ask, limit, progress).await
    }

    async fn fetched(
        &self,
        blobs: &[(Digest, u64)],
        ask: &Request,
        limit: Duration,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        self.end_unwanted(blobs).await?;
        let mut waiting = Waiting::for_these(blobs, &self.unwanted);
        let Response::Fetched { missing, reasons, still_coming } = self.ask(ask, limit).await? else {
            return Err(self.misfit());
        };
        waiting.answered = true;
        let (missing, came): (Vec<_>, Vec<_>) =
            blobs.iter().copied().partition(|(digest, _)| missing.contains_key(digest));
        for (digest, size) in came {
            progress(digest, size, size);
        }
        Ok(Fetched { missing, reasons: answers::reasons(reasons), still_coming })
    }

    /// Ends what the host may still do for earlier requests of these blobs: their part files would be held by it.
    pub(super) async fn end_unwanted(&self, blobs: &[(Digest, u64)]) -> Result<(), LinkError> {
        let unwanted: BTreeSet<Digest> = {
            let all = self.unwanted.lock();
            blobs.iter().map(|(digest, _)| *digest).filter(|digest| all.contains(digest)).collect()
        };
        if unwanted.is_empty() {
            return Ok(());
        }
        match self.ask(&Request::EndFetches { blobs: unwanted.clone() }, LOOK).await? {
            Response::FetchesEnded => self.unwanted.lock().retain(|digest| !unwanted.contains(digest)),
            _ => return Err(self.misfit()),
        }
        Ok(())
    }
}
