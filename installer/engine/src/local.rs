//! A link to the machine on which this program runs, or to one rooted in a directory: the same ops as the agent's,
//! without a channel.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use kubexm_ops::Machine;
use kubexm_plan::addons::{AddonsAsk, InstalledAddons};
use kubexm_plan::backup::{BackupAnswer, BackupAsk};
use kubexm_plan::depot::DepotContent;
use kubexm_plan::etcd_check::{EtcdAnswer, EtcdAsk};
use kubexm_plan::facts::DataFolders;
use kubexm_plan::op::Depots;
use kubexm_plan::{
    ClusterFacts, Facts, ObservedState, Plan, Probe, ProbeAnswer, SlotProvider, Step, StepDrift, StepId, Survey, Wave,
    ledger, mesh,
};
use kubexm_spec::Digest;
use kubexm_transport::{Store, TransportError};
use tokio::io::AsyncReadExt;
use zeroize::Zeroizing;

use crate::link::agent::Work;
use crate::link::agent::lock::{HostLock, LockError, LockTimeouts};
use crate::link::{BlobSource, Change, DeliverProgress, Fetched, Link, LinkError, SlotValues};

/// How long an op of an earlier link to this machine may take to finish.
const CHUNK: usize = 1 << 20;
/// How long an op of an earlier link to this machine may need to finish.
const OWN_PATIENCE: Duration = Duration::from_secs(600);

/// The link. The host's lock is taken with the first call and held until the link, and every op it has started, have
/// ended.
pub struct LocalLink<W = Machine> {
    host: String,
    work: Arc<W>,
    lock: Arc<Mutex<Option<HostLock>>>,
    patience: Duration,
}

impl<W: Work> LocalLink<W> {
    /// A link to a machine; `host` is its name in cluster.yaml.
    pub fn new(host: impl Into<String>, work: W) -> Self {
        Self { host: host.into(), work: Arc::new(work), lock: Arc::default(), patience: OWN_PATIENCE }
    }

    /// Ops of an earlier link have this long to finish.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Runs blocking work. It continues to its end if the caller is dropped, like an agent's.
    async fn block<T: Send + 'static>(
        &self,
        work: impl FnOnce(&W) -> Result<T, String> + Send + 'static,
    ) -> Result<T, LinkError> {
        let (machine, lock, host) = (self.work.clone(), self.lock.clone(), self.host.clone());
        let patience = self.patience;
        let task = tokio::task::spawn_blocking(move || {
            hold(&lock, &*machine, &host, patience)?;
            let done = work(&machine).map_err(|text| LinkError::Op { host, text });
            // The lock is released only after the op, even if nobody waits for it.
            drop(lock);
            done
        });
        match task.await {
            Ok(done) => done,
            Err(error) => Err(self.failed(format!("the op ended abnormally: {error}; this is a fault of the program"))),
        }
    }

    fn failed(&self, text: String) -> LinkError {
        LinkError::Op { host: self.host.clone(), text }
    }

    async fn deliver_one(
        &self,
        blob: (Digest, u64),
        source: &dyn BlobSource,
        progress: DeliverProgress<'_>,
    ) -> Result<(), LinkError> {
        let (digest, size) = blob;
        let partial = self.block(move |work| said(begin(work, digest, size))).await?;
        let Some(mut partial) = partial else { return Ok(()) };
        let cannot = |reason: String| LinkError::Source { digest, reason };
        let mut reader = source.open(digest, partial.length()).await.map_err(|e| cannot(e.to_string()))?;
        loop {
            let mut chunk = Vec::with_capacity(CHUNK);
            let read = (&mut reader).take(CHUNK as u64).read_to_end(&mut chunk).await;
            if read.map_err(|e| cannot(e.to_string()))? == 0 {
                break;
            }
            partial = self.block(move |_| said(partial.write(&chunk, Some(size)).map(|()| partial))).await?;
            progress(digest, partial.length(), size);
        }
        if partial.digest() == digest {
            return self.block(move |_| said(partial.commit().map(drop))).await;
        }
        let length = partial.length();
        self.block(move |_| said(partial.discard())).await?;
        Err(cannot(format!("its {length} bytes have a different digest")))
    }
}

/// The incomplete blob to continue; none if the blob exists.
fn begin(
    work: &impl Work,
    digest: Digest,
    size: u64,
) -> Result<Option<kubexm_transport::partial::Partial>, TransportError> {
    let store = Store::open(work.store_path())?;
    if store.holds(&digest, size)? {
        return Ok(None);
    }
    let mut partial = store.partial(&digest.hex())?;
    // At least as long as the blob, but with another digest: none of it can be trusted.
    if partial.length() >= size && partial.digest() != digest {
        partial.clear()?;
    }
    Ok(Some(partial))
}

/// Takes the host's lock, once for each link.
fn hold(lock: &Mutex<Option<HostLock>>, work: &impl Work, host: &str, patience: Duration) -> Result<(), LinkError> {
    let mut held = lock.lock().unwrap_or_else(PoisonError::into_inner);
    if held.is_some() {
        return Ok(());
    }
    // Ops of another link in this process may still be running.
    let holder = format!("a local run of process {}", std::process::id());
    let patience = LockTimeouts { other: Duration::ZERO, own: patience };
    match HostLock::acquire(&work.lock_path(), &holder, patience, &|| false) {
        Ok(lock) => *held = Some(lock),
        Err(LockError::Held { holder, finishing }) => {
            return Err(LinkError::Locked { host: host.to_owned(), holder, finishing });
        }
        Err(error) => return Err(LinkError::Op { host: host.to_owned(), text: kubexm_spec::error_chain(&error) }),
    }
    Ok(())
}

fn said<T>(result: Result<T, TransportError>) -> Result<T, String> {
    result.map_err(|error| kubexm_spec::error_chain(&error))
}

/// A change that may outlive its caller.
struct Owned {
    run: String,
    sequence: u64,
    before: Vec<ObservedState>,
}

impl Owned {
    fn of(change: Change<'_>) -> Self {
        Self { run: change.run.to_owned(), sequence: change.sequence, before: change.before.to_vec() }
    }

    fn borrowed(&self) -> Change<'_> {
        Change { run: &self.run, sequence: self.sequence, before: &self.before }
    }
}

#[async_trait]
impl<W: Work> Link for LocalLink<W> {
    fn lost_for(&self) -> Option<Duration> {
        None
    }

    async fn answers(&self, _: Duration) -> bool {
        true
    }

    async fn facts(&self) -> Result<Facts, LinkError> {
        let host = self.host.clone();
        self.block(move |work| work.facts(&host, &DataFolders::default())).await
    }

    async fn cluster_facts(&self) -> Result<ClusterFacts, LinkError> {
        let host = self.host.clone();
        self.block(move |work| Ok(work.cluster_facts(&host))).await
    }

    async fn hold(&self) -> Result<(), LinkError> {
        self.block(|_| Ok(())).await
    }

    async fn observe(&self, plan: &Plan, step: &Step, slots: &SlotValues) -> Result<Vec<ObservedState>, LinkError> {
        let (step, texts, slots) = (step.clone(), plan.texts.clone(), slots.clone());
        self.block(move |work| work.observe(&step, texts, slots)).await
    }

    async fn survey(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Survey, LinkError> {
        let steps: Vec<Step> = steps.iter().copied().cloned().collect();
        let (texts, slots) = (plan.texts.clone(), slots.clone());
        self.block(move |work| work.survey(&steps, texts, slots)).await
    }

    async fn drift(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Vec<StepDrift>, LinkError> {
        let steps: Vec<Step> = steps.iter().copied().cloned().collect();
        let (texts, slots) = (plan.texts.clone(), slots.clone());
        self.block(move |work| work.drift(&steps, texts, slots)).await
    }

    async fn converge(
        &self,
        plan: &Plan,
        step: &Step,
        slots: &SlotValues,
        change: Change<'_>,
    ) -> Result<(), LinkError> {
        let (step, texts, slots, change) = (step.clone(), plan.texts.clone(), slots.clone(), Owned::of(change));
        self.block(move |work| work.converge(&step, texts, slots, change.borrowed())).await
    }

    async fn undo(&self, plan: &Plan, step: &Step, change: Change<'_>, wave: Wave) -> Result<(), LinkError> {
        let (step, texts, change) = (step.clone(), plan.texts.clone(), Owned::of(change));
        self.block(move |work| work.undo(&step, texts, change.borrowed(), wave)).await
    }

    async fn provide(&self, provider: &SlotProvider) -> Result<Vec<u8>, LinkError> {
        let provider = provider.clone();
        self.block(move |work| work.provide(&provider)).await
    }

    async fn ledger(&self) -> Result<Vec<ledger::Record>, LinkError> {
        self.block(|work| work.ledger()).await
    }

    /// The controller's own bundle is closer than any depot.
    async fn fetch(
        &self,
        _: &StepId,
        blobs: &[(Digest, u64)],
        _: &Depots,
        _: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        Ok(Fetched { missing: blobs.to_vec(), ..Fetched::default() })
    }

    async fn listen(&self, _: &[mesh::Port]) -> Result<(), LinkError> {
        Ok(())
    }

    /// Without a network nothing can be blocked.
    async fn dial(&self, dials: &[mesh::ConnectionCheck]) -> Result<Vec<mesh::ConnectionResult>, LinkError> {
        Ok(dials
            .iter()
            .map(|dial| mesh::ConnectionResult {
                dial: dial.clone(),
                blocked: None,
                neighbour: None,
                routers: Vec::new(),
            })
            .collect())
    }

    async fn probe(&self, probe: &Probe) -> Result<ProbeAnswer, LinkError> {
        let probe = probe.clone();
        self.block(move |work| work.probe(&probe)).await
    }

    async fn deliver(
        &self,
        blobs: &[(Digest, u64)],
        source: &dyn BlobSource,
        progress: DeliverProgress<'_>,
    ) -> Result<(), LinkError> {
        for blob in blobs {
            self.deliver_one(*blob, source, progress).await?;
        }
        Ok(())
    }

    async fn backup(&self, ask: &BackupAsk) -> Result<BackupAnswer, LinkError> {
        let ask = ask.clone();
        self.block(move |work| work.backup(&ask)).await
    }

    async fn addons(&self, ask: &AddonsAsk) -> Result<InstalledAddons, LinkError> {
        let ask = ask.clone();
        self.block(move |work| work.addons(&ask)).await
    }

    async fn depot(&self) -> Result<DepotContent, LinkError> {
        self.block(|work| work.depot()).await
    }

    async fn ask_etcd(&self, ask: &EtcdAsk, key: &[u8]) -> Result<EtcdAnswer, LinkError> {
        let (ask, key) = (ask.clone(), Zeroizing::new(key.to_vec()));
        self.block(move |work| Ok(work.ask_etcd(&ask, &key))).await
    }

    async fn evidence(&self) -> Result<Vec<(String, String)>, LinkError> {
        self.block(|work| work.evidence()).await
    }

    async fn step_log(&self, run: &str, step: &Step) -> Result<String, LinkError> {
        let (run, step) = (run.to_owned(), step.clone());
        self.block(move |work| work.step_log(&run, &step)).await
    }
}
