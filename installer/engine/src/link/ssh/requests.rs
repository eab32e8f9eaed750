//! What is asked of a host, over its channel; every answer is looked at before it goes further ([`answers`]).

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use kubexm_plan::addons::{AddonsAsk, InstalledAddons};
use kubexm_plan::backup::{BackupAnswer, BackupAsk};
use kubexm_plan::depot::DepotContent;
use kubexm_plan::etcd_check::{EtcdAnswer, EtcdAsk};
use kubexm_plan::op::Depots;
use kubexm_plan::{
    ClusterFacts, Facts, ObservedState, Plan, Probe, ProbeAnswer, SlotProvider, Step, StepDrift, StepId, Survey, Wave,
    ledger, mesh,
};
use kubexm_spec::Digest;
use tokio::time::Instant;

use super::deliver::Interrupted;
use super::endpoint::unreachable;
use super::texts::texts_of;
use super::{LOOK, SshLink};
use crate::link::wire::{Request, Response, Secret, Secrets};
use crate::link::{BlobSource, Change, DeliverProgress, Fetched, Link, LinkError, RunIdentity, SlotValues, answers};

/// Time limit of a snapshot of etcd with its trial restore and its archive.
const BACKUP: Duration = Duration::from_secs(3_600);
/// Time limit for making a value: kubeadm uploads certificates.
const PROVIDE: Duration = Duration::from_secs(120);
/// Added to a step's own timeout, for transmission and a network outage of 90 s.
pub(super) const GRACE: Duration = Duration::from_secs(180);
/// The most interrupted deliveries in a row without any progress.
const MAX_STALLS: u32 = 5;

#[async_trait]
impl Link for SshLink {
    fn lost_for(&self) -> Option<Duration> {
        self.session.lost_for()
    }

    async fn answers(&self, within: Duration) -> bool {
        self.session.lost_for().is_none() || self.session.live(Instant::now() + within).await.is_ok()
    }

    async fn facts(&self) -> Result<Facts, LinkError> {
        let (host, folders) = (self.session.target.name.clone(), self.session.target.folders.clone());
        let answer = self.ask(&Request::Facts { host, folders }, LOOK).await?;
        let Response::Facts { mut facts } = answer else { return Err(self.misfit()) };
        facts.host.clone_from(&self.session.target.name);
        answers::facts(&facts.host, &facts)?;
        (facts.clock_offset_ms, facts.round_trip_ms) = self.clock().await?;
        Ok(*facts)
    }

    async fn cluster_facts(&self) -> Result<ClusterFacts, LinkError> {
        let host = self.session.target.name.clone();
        match self.ask(&Request::ClusterFacts { host }, LOOK).await? {
            Response::ClusterFacts { facts } => answers::cluster_facts(&self.session.target.name, *facts),
            _ => Err(self.misfit()),
        }
    }

    async fn hold(&self) -> Result<(), LinkError> {
        match self.ask(&Request::Hold, LOOK).await? {
            Response::Held => Ok(()),
            _ => Err(self.misfit()),
        }
    }

    async fn observe(&self, plan: &Plan, step: &Step, slots: &SlotValues) -> Result<Vec<ObservedState>, LinkError> {
        let ask =
            Request::Observe { step: Box::new(step.clone()), texts: texts_of(plan, step), slots: Secrets::new(slots) };
        let answer = self.ask(&ask, step_limit(step)).await?;
        let Response::Observed { found } = answer else { return Err(self.misfit()) };
        answers::observed(&self.session.target.name, step, found, &self.states_left)
    }

    async fn survey(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Survey, LinkError> {
        let texts = steps.iter().flat_map(|step| texts_of(plan, step)).collect();
        let asked = steps;
        let steps = steps.iter().copied().cloned().collect();
        let ask = Request::Survey { steps, texts, slots: Secrets::new(slots) };
        match self.ask(&ask, LOOK).await? {
            Response::Surveyed { survey } => answers::surveyed(&self.session.target.name, asked, survey),
            _ => Err(self.misfit()),
        }
    }

    async fn drift(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Vec<StepDrift>, LinkError> {
        let texts = steps.iter().flat_map(|step| texts_of(plan, step)).collect();
        let ask = Request::Drift { steps: steps.iter().copied().cloned().collect(), texts, slots: Secrets::new(slots) };
        match self.ask(&ask, LOOK).await? {
            Response::Drift { drift } => answers::drift(&self.session.target.name, steps, drift),
            _ => Err(self.misfit()),
        }
    }

    async fn converge(
        &self,
        plan: &Plan,
        step: &Step,
        slots: &SlotValues,
        change: Change<'_>,
    ) -> Result<(), LinkError> {
        let ask = Request::Converge {
            step: Box::new(step.clone()),
            texts: texts_of(plan, step),
            slots: Secrets::new(slots),
            run: change.run.to_owned(),
            sequence: change.sequence,
            before: change.before.to_vec(),
        };
        match self.ask(&ask, step_limit(step)).await? {
            Response::Converged => Ok(()),
            _ => Err(self.misfit()),
        }
    }

    async fn undo(&self, plan: &Plan, step: &Step, change: Change<'_>, wave: Wave) -> Result<(), LinkError> {
        let ask = Request::Undo {
            step: Box::new(step.clone()),
            texts: texts_of(plan, step),
            run: change.run.to_owned(),
            sequence: change.sequence,
            before: change.before.to_vec(),
            wave,
        };
        match self.ask(&ask, step_limit(step)).await? {
            Response::Undone => Ok(()),
            _ => Err(self.misfit()),
        }
    }

    async fn provide(&self, provider: &SlotProvider) -> Result<Vec<u8>, LinkError> {
        match self.ask(&Request::Provide { provider: provider.clone() }, PROVIDE).await? {
            Response::Provided { value } => answers::provided(&self.session.target.name, provider, value.0),
            _ => Err(self.misfit()),
        }
    }

    async fn ledger(&self) -> Result<Vec<ledger::Record>, LinkError> {
        match self.ask(&Request::Ledger, LOOK).await? {
            Response::Ledger { records } => answers::ledger(&self.session.target.name, records),
            _ => Err(self.misfit()),
        }
    }

    async fn fetch(
        &self,
        step: &StepId,
        blobs: &[(Digest, u64)],
        depots: &Depots,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        self.fetch_from(step, blobs, depots, progress).await
    }

    async fn share(&self, listen: SocketAddr, blobs: &[Digest], identity: &RunIdentity) -> Result<(), LinkError> {
        let ask = Request::Share { listen, blobs: blobs.iter().copied().collect(), identity: identity.clone() };
        match self.ask(&ask, LOOK).await? {
            Response::Sharing => Ok(()),
            _ => Err(self.misfit()),
        }
    }

    async fn fetch_shared(
        &self,
        step: &StepId,
        blobs: &[(Digest, u64)],
        from: SocketAddr,
        identity: &RunIdentity,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        self.fetch_from_host(step, blobs, (from, identity), progress).await
    }

    async fn listen(&self, ports: &[mesh::Port]) -> Result<(), LinkError> {
        match self.ask(&Request::Listen { ports: ports.to_vec() }, LOOK).await? {
            Response::Listening => Ok(()),
            _ => Err(self.misfit()),
        }
    }

    async fn dial(&self, dials: &[mesh::ConnectionCheck]) -> Result<Vec<mesh::ConnectionResult>, LinkError> {
        match self.ask(&Request::ConnectionCheck { dials: dials.to_vec() }, LOOK).await? {
            Response::ConnectionResult { dialed } => answers::dialed(&self.session.target.name, dials, dialed),
            _ => Err(self.misfit()),
        }
    }

    async fn probe(&self, probe: &Probe) -> Result<ProbeAnswer, LinkError> {
        match self.ask(&Request::Probe { probe: probe.clone() }, LOOK).await? {
            Response::Probed { answer } => Ok(answers::probed(answer)),
            _ => Err(self.misfit()),
        }
    }

    async fn deliver(
        &self,
        blobs: &[(Digest, u64)],
        source: &dyn BlobSource,
        progress: DeliverProgress<'_>,
    ) -> Result<(), LinkError> {
        self.end_unwanted(blobs).await?;
        let (mut stalls, mut fewest, mut corrupt) = (0, u64::MAX, None);
        loop {
            let interrupted = match self.deliver_once(blobs, source, progress).await? {
                Ok(()) => return Ok(()),
                Err(interrupted) => interrupted,
            };
            match interrupted {
                Interrupted::Lost { missing } => {
                    let moved = missing.is_some_and(|missing| missing < fewest);
                    fewest = fewest.min(missing.unwrap_or(u64::MAX));
                    stalls = if moved { 0 } else { stalls + 1 };
                    if stalls > MAX_STALLS {
                        return Err(unreachable(&self.session.target, "the connection breaks whenever blobs are sent"));
                    }
                    tracing::info!(host = %self.session.target.name, "the transfer was interrupted; continuing");
                    tokio::time::sleep(Duration::from_millis(200) * (stalls + 1)).await;
                }
                // The first time, an earlier version may have left wrong bytes in the part file; the second time, the
                // source is wrong.
                Interrupted::Corrupt { digest, found } if corrupt == Some(digest) => {
                    let reason = format!("its bytes hash to {found}; run `kubexm-bundle verify` on the bundle");
                    return Err(LinkError::Source { digest, reason });
                }
                Interrupted::Corrupt { digest, .. } => corrupt = Some(digest),
                Interrupted::Node(text) => return Err(self.failed(text)),
                Interrupted::Source { digest, reason } => return Err(LinkError::Source { digest, reason }),
                Interrupted::Protocol(reason) => {
                    return Err(LinkError::Protocol { host: self.session.target.name.clone(), reason });
                }
            }
        }
    }

    async fn backup(&self, ask: &BackupAsk) -> Result<BackupAnswer, LinkError> {
        let limit = if matches!(ask, BackupAsk::Make { .. }) { BACKUP } else { LOOK };
        match self.ask(&Request::Backup { what: ask.clone() }, limit).await? {
            Response::BackupMade { archive, etcd } => Ok(BackupAnswer::Made { archive, etcd }),
            Response::BackupBytes { bytes } => Ok(BackupAnswer::Bytes { bytes: bytes.0 }),
            Response::BackupForgotten => Ok(BackupAnswer::Forgotten),
            _ => Err(self.misfit()),
        }
    }

    async fn addons(&self, ask: &AddonsAsk) -> Result<InstalledAddons, LinkError> {
        match self.ask(&Request::Addons { ask: ask.clone() }, LOOK).await? {
            Response::Addons { installed } => answers::addons(&self.session.target.name, *installed),
            _ => Err(self.misfit()),
        }
    }

    async fn depot(&self) -> Result<DepotContent, LinkError> {
        match self.ask(&Request::Depot, LOOK).await? {
            Response::Depot { content } => answers::depot(&self.session.target.name, *content),
            _ => Err(self.misfit()),
        }
    }

    async fn ask_etcd(&self, ask: &EtcdAsk, key: &[u8]) -> Result<EtcdAnswer, LinkError> {
        let request = Request::AskEtcd { what: ask.clone(), key: Secret(key.to_vec()) };
        match self.ask(&request, LOOK).await? {
            Response::EtcdAnswered { answer } => answers::etcd(&self.session.target.name, ask, answer),
            _ => Err(self.misfit()),
        }
    }

    async fn evidence(&self) -> Result<Vec<(String, String)>, LinkError> {
        match self.ask(&Request::Evidence, LOOK).await? {
            Response::Evidence { files } => Ok(answers::evidence(files)),
            _ => Err(self.misfit()),
        }
    }

    async fn step_log(&self, run: &str, step: &Step) -> Result<String, LinkError> {
        match self.ask(&Request::StepLog { run: run.to_owned(), step: Box::new(step.clone()) }, LOOK).await? {
            Response::StepLog { text } => Ok(answers::log(text)),
            _ => Err(self.misfit()),
        }
    }
}

fn step_limit(step: &Step) -> Duration {
    Duration::from_secs(step.timeout_s) + GRACE
}
