//! The link to a host of the simulated fleet.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kubexm_plan::depot::DepotContent;
use kubexm_plan::etcd;
use kubexm_plan::facts::Stamp;
use kubexm_plan::op::{self, Depots};
use kubexm_plan::{
    ClusterFacts, Difference, Facts, Op, Plan, Probe, REGISTRY_CAS, SEALED_AUTHORITIES, SlotName, SlotProvider, Step,
    StepDrift, StepId, Wave, ledger, mesh,
};
use kubexm_spec::Digest;
use tokio::io::AsyncReadExt;

use super::facts::facts;
use super::fleet::SimFleet;
use super::names::{KUBELET_CONF, KUBELET_CONFIG};
use super::world::Host;
use crate::link::{
    BlobSource, Change, DeliverProgress, Fetched, Link, LinkError, ObservedState, ProbeAnswer, RunIdentity, SlotValues,
    Survey,
};
use crate::run_context::Links;

impl SimFleet {
    /// A link to every host.
    pub fn links(&self) -> Links {
        let hosts: Vec<String> = self.lock().host_names().map(str::to_owned).collect();
        let link = |host: String| (host.clone(), Arc::new(SimLink { fleet: self.clone(), host }) as Arc<dyn Link>);
        hosts.into_iter().map(link).collect()
    }
}

/// The link to one simulated host.
struct SimLink {
    fleet: SimFleet,
    host: String,
}

impl SimLink {
    /// Whether the host can be reached now.
    fn reach(&self) -> Result<(), LinkError> {
        match self.fleet.lock().cut.contains(&self.host) {
            false => Ok(()),
            true => Err(LinkError::Unreachable {
                host: self.host.clone(),
                address: format!("{}:22", self.host),
                reason: "no route to host".to_owned(),
            }),
        }
    }

    fn refused(&self, text: String) -> LinkError {
        LinkError::Op { host: self.host.clone(), text }
    }

    async fn observe_step(
        &self,
        plan: &Plan,
        step: &Step,
        slots: &SlotValues,
    ) -> Result<Vec<ObservedState>, LinkError> {
        // As with a real host, other tasks run while it answers.
        tokio::task::yield_now().await;
        self.reach()?;
        let world = self.fleet.lock();
        let found = step.ops.iter().map(|op| world.observe(&self.host, op, plan, slots));
        let found: Vec<ObservedState> = found.collect::<Result<_, _>>().map_err(|text| self.refused(text))?;
        shows_no_secret(plan, slots, &found).map_err(|text| self.refused(text))?;
        Ok(found)
    }

    async fn ask(&self, probe: &Probe) -> Result<ProbeAnswer, LinkError> {
        tokio::task::yield_now().await;
        self.reach()?;
        let missing = self.fleet.lock().probe(&self.host, probe);
        Ok(ProbeAnswer { holds: missing.is_none(), seen: missing.unwrap_or_else(|| "holds".to_owned()) })
    }

    async fn converge_ops(&self, plan: &Plan, step: &Step, slots: &SlotValues) -> Result<(), LinkError> {
        for op in &step.ops {
            tokio::task::yield_now().await;
            self.reach()?;
            let mut world = self.fleet.lock();
            world.set_plan(plan);
            let found = world.observe(&self.host, op, plan, slots).map_err(|text| self.refused(text))?;
            if !found.satisfied {
                world.converge(&self.host, op, plan, step, slots).map_err(|text| self.refused(text))?;
                if let Op::File(op::File { path, content: op::Content::Slot { slot }, .. }) = op
                    && let Some(value) = slots.get(slot)
                {
                    if let Some(SlotProvider::Certificate(of)) = plan.slots.get(slot)
                        && !of.replaces.is_empty()
                    {
                        world.renewed.insert(Digest::of(value));
                    }
                    if let Some(text) = std::str::from_utf8(value).ok().filter(|_| path == SEALED_AUTHORITIES) {
                        world.keep_sealed(text);
                    }
                }
            }
        }
        Ok(())
    }
}

/// States are written to the journal and shown, so they must not contain the value of a secret slot.
fn shows_no_secret(plan: &Plan, slots: &SlotValues, states: &[ObservedState]) -> Result<(), String> {
    let text = serde_json::to_string(states).map_err(|e| e.to_string())?;
    let secret = |name: &SlotName| plan.slots.get(name).is_none_or(SlotProvider::secret);
    let shown = |value: &[u8]| !value.is_empty() && std::str::from_utf8(value).is_ok_and(|value| text.contains(value));
    match slots.iter().find(|(name, value)| secret(name) && shown(value)) {
        Some((name, _)) => Err(format!("a state contains the value of slot {}", name.0)),
        None => Ok(()),
    }
}

#[async_trait]
impl Link for SimLink {
    fn lost_for(&self) -> Option<Duration> {
        self.reach().is_err().then_some(Duration::ZERO)
    }

    async fn answers(&self, _: Duration) -> bool {
        self.reach().is_ok()
    }

    async fn facts(&self) -> Result<Facts, LinkError> {
        self.reach()?;
        let world = self.fleet.lock();
        let here = &world.host(&self.host).map_err(|text| self.refused(text))?.state;
        let stamp = here.get("stamp").map(|text| match serde_json::from_str(text) {
            Ok(op::Stamp { cluster, id, bundle, adopted }) => {
                Stamp { cluster, id, run: "simulated".to_owned(), bundle, adopted }
            }
            // Set by a test.
            Err(_) => {
                Stamp { cluster: text.clone(), id: None, run: "simulated".to_owned(), bundle: None, adopted: false }
            }
        });
        // As on a real host: also when the cluster that it joined is gone.
        // Both are kubeadm's; the first may have been given before it ran.
        let joined = stamp.is_some() && [KUBELET_CONF, KUBELET_CONFIG].iter().all(|key| here.contains_key(*key));
        // `file 0644 sha256:…`
        let digest = |path: &str| here.get(&format!("path:{path}"))?.rsplit(' ').next();
        let sealed_authorities = digest(SEALED_AUTHORITIES).and_then(|digest| world.sealed.get(digest).cloned());
        let registry_ca = REGISTRY_CAS.iter().find_map(|path| digest(path)?.parse().ok());
        let etcd_formed = digest(etcd::FORMED).and_then(|digest| world.texts.get(digest).cloned());
        let mut facts = Facts { stamp, joined, sealed_authorities, registry_ca, etcd_formed, ..facts(&self.host) };
        if let Some(bend) = world.bend {
            bend(&mut facts);
        }
        Ok(facts)
    }

    async fn cluster_facts(&self) -> Result<ClusterFacts, LinkError> {
        let facts = self.facts().await?;
        Ok(self.fleet.lock().cluster_facts(&self.host, facts))
    }

    async fn depot(&self) -> Result<DepotContent, LinkError> {
        self.reach()?;
        self.fleet.lock().depot(&self.host).map_err(|text| self.refused(text))
    }

    async fn hold(&self) -> Result<(), LinkError> {
        self.reach()
    }

    async fn observe(&self, plan: &Plan, step: &Step, slots: &SlotValues) -> Result<Vec<ObservedState>, LinkError> {
        self.fleet.lock().observations += 1;
        self.observe_step(plan, step, slots).await
    }

    async fn survey(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Survey, LinkError> {
        let mut holding = BTreeSet::new();
        for step in steps {
            // A step that cannot be observed is not satisfied.
            let ops = self.observe_step(plan, step, slots).await;
            let probe = match &step.probe {
                Some(timed) => self.ask(&timed.probe).await?.holds,
                None => true,
            };
            if probe && ops.is_ok_and(|found| found.iter().all(|found| found.satisfied)) {
                holding.insert(step.id.clone());
            }
        }
        self.reach()?;
        let world = self.fleet.lock();
        let records = world.host(&self.host).map_err(|text| self.refused(text))?.ledger.len();
        Ok(Survey { holding, past: records.to_string() })
    }

    async fn drift(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Vec<StepDrift>, LinkError> {
        let mut drift = Vec::new();
        for step in steps {
            let found = self.observe_step(plan, step, slots).await?;
            let differs = step.ops.iter().zip(&found).filter(|(_, found)| !found.satisfied);
            let differences: Vec<Difference> = differs
                .map(|(op, _)| Difference { what: op.to_string(), how: "not as planned".to_owned(), diff: None })
                .collect();
            if !differences.is_empty() {
                drift.push(StepDrift { step: step.id.clone(), differences });
            }
        }
        Ok(drift)
    }

    async fn converge(
        &self,
        plan: &Plan,
        step: &Step,
        slots: &SlotValues,
        change: Change<'_>,
    ) -> Result<(), LinkError> {
        shows_no_secret(plan, slots, change.before).map_err(|text| self.refused(text))?;
        self.reach()?;
        let forgets = step.ops.iter().any(|op| matches!(op, Op::Reset(reset) if reset.forgets()));
        let note = |outcome| {
            if !forgets {
                self.fleet.lock().record(&self.host, step, change, outcome);
            }
        };
        note(ledger::Outcome::Begun);
        let ended = self.converge_ops(plan, step, slots).await;
        note(match &ended {
            Ok(()) => ledger::Outcome::Done,
            Err(error) => ledger::Outcome::Failed { text: error.to_string() },
        });
        ended
    }

    async fn undo(&self, plan: &Plan, step: &Step, change: Change<'_>, wave: Wave) -> Result<(), LinkError> {
        tokio::task::yield_now().await;
        self.reach()?;
        let mut world = self.fleet.lock();
        world.set_plan(plan);
        world.undo(&self.host, step, change.before, wave).map_err(|text| self.refused(text))?;
        if wave == Wave::Start {
            world.record(&self.host, step, change, ledger::Outcome::Restored);
        }
        Ok(())
    }

    async fn provide(&self, provider: &SlotProvider) -> Result<Vec<u8>, LinkError> {
        tokio::task::yield_now().await;
        self.reach()?;
        self.fleet.lock().provide(&self.host, provider).map_err(|text| self.refused(text))
    }

    async fn ledger(&self) -> Result<Vec<ledger::Record>, LinkError> {
        self.reach()?;
        let world = self.fleet.lock();
        let copy = |host: &Host| host.ledger.iter().map(|record| (**record).clone()).collect();
        world.host(&self.host).map(copy).map_err(|text| self.refused(text))
    }

    async fn fetch(
        &self,
        _: &StepId,
        blobs: &[(Digest, u64)],
        _: &Depots,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        tokio::task::yield_now().await;
        self.reach()?;
        let mut world = self.fleet.lock();
        let (there, missing): (Vec<_>, Vec<_>) = blobs.iter().partition(|(digest, _)| world.depots.contains(digest));
        for (digest, size) in there {
            world.add_blob(&self.host, &digest);
            progress(digest, size, size);
        }
        Ok(Fetched { missing, reasons: world.depot_troubles.clone(), still_coming: false })
    }

    async fn share(&self, listen: SocketAddr, blobs: &[Digest], _: &RunIdentity) -> Result<(), LinkError> {
        tokio::task::yield_now().await;
        self.reach()?;
        let mut world = self.fleet.lock();
        if blobs.is_empty() {
            world.shared.remove(&listen);
            return Ok(());
        }
        if let Some(lacking) = blobs.iter().find(|digest| !world.has_blob(&self.host, digest)) {
            return Err(self.refused(format!("it should serve {lacking}, which it has not")));
        }
        let (_, shared) = world.shared.entry(listen).or_insert_with(|| (self.host.clone(), BTreeSet::new()));
        shared.extend(blobs);
        Ok(())
    }

    async fn fetch_shared(
        &self,
        _: &StepId,
        blobs: &[(Digest, u64)],
        from: SocketAddr,
        _: &RunIdentity,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        tokio::task::yield_now().await;
        self.reach()?;
        let is_silent = {
            let world = self.fleet.lock();
            world.shared.get(&from).is_some_and(|(host, _)| world.silent.contains(host))
        };
        if is_silent {
            std::future::pending::<()>().await;
        }
        let mut world = self.fleet.lock();
        let mut fetched = Fetched::default();
        let source = world.shared.get(&from).cloned();
        let serves = source.filter(|(host, _)| !world.cut.contains(host) && !world.bad_hosts.contains(host));
        let Some((host, shared)) = serves else {
            let reasons = vec![format!("host https://{from}: no answer")];
            return Ok(Fetched { missing: blobs.to_vec(), reasons, still_coming: false });
        };
        let lies = world.liars.contains(&self.host);
        for (digest, size) in blobs {
            if lies || !shared.contains(digest) || !world.has_blob(&host, digest) {
                fetched.missing.push((*digest, *size));
                continue;
            }
            world.add_blob(&self.host, digest);
            world.taken.push((self.host.clone(), host.clone()));
            progress(*digest, *size, *size);
        }
        Ok(fetched)
    }

    async fn listen(&self, _: &[mesh::Port]) -> Result<(), LinkError> {
        Ok(())
    }

    async fn dial(&self, dials: &[mesh::ConnectionCheck]) -> Result<Vec<mesh::ConnectionResult>, LinkError> {
        Ok(dials
            .iter()
            .map(|dial| {
                // Nobody has a certificate of an earlier cluster.
                let blocked = dial.authority.as_ref().map(|_| "refused".to_owned());
                mesh::ConnectionResult { dial: dial.clone(), blocked, neighbour: None, routers: Vec::new() }
            })
            .collect())
    }

    async fn probe(&self, probe: &Probe) -> Result<ProbeAnswer, LinkError> {
        self.fleet.lock().observations += 1;
        self.ask(probe).await
    }

    async fn deliver(
        &self,
        blobs: &[(Digest, u64)],
        source: &dyn BlobSource,
        progress: DeliverProgress<'_>,
    ) -> Result<(), LinkError> {
        self.reach()?;
        let present: BTreeSet<Digest> = {
            let world = self.fleet.lock();
            blobs.iter().map(|(digest, _)| *digest).filter(|digest| world.has_blob(&self.host, digest)).collect()
        };
        for (digest, size) in blobs.iter().filter(|(digest, _)| !present.contains(digest)) {
            let failed = |reason: String| LinkError::Source { digest: *digest, reason };
            let mut reader = source.open(*digest, 0).await.map_err(|e| failed(e.to_string()))?;
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).await.map_err(|e| failed(e.to_string()))?;
            if Digest::of(&bytes) != *digest || bytes.len() as u64 != *size {
                return Err(failed(format!("{} bytes arrived, with another digest", bytes.len())));
            }
            self.fleet.lock().add_blob(&self.host, digest);
            progress(*digest, *size, *size);
        }
        Ok(())
    }

    async fn evidence(&self) -> Result<Vec<(String, String)>, LinkError> {
        self.reach()?;
        let state = self.fleet.snapshot().remove(&self.host).unwrap_or_default();
        let lines: Vec<String> = state.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        Ok(vec![("state.txt".to_owned(), lines.join("\n"))])
    }

    async fn step_log(&self, run: &str, step: &Step) -> Result<String, LinkError> {
        Ok(format!("{} of run {run} on {}\n", step.id, self.host))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_state_with_the_value_of_a_secret_slot_is_refused() {
        let (token, hash) = (SlotName("token".to_owned()), SlotName("hash".to_owned()));
        let host = || "cp".to_owned();
        let plan = Plan {
            schema: kubexm_plan::SCHEMA,
            pipeline: kubexm_plan::Pipeline::Create,
            cluster_name: "demo".to_owned(),
            cluster_id: None,
            cluster: Digest::of("cluster.yaml"),
            bundle: None,
            hosts: Vec::new(),
            fleet_concurrency: 1,
            host_concurrency: 1,
            slots: BTreeMap::from([
                (token.clone(), SlotProvider::JoinToken { host: host() }),
                (hash.clone(), SlotProvider::CaCertHash { host: host() }),
            ]),
            texts: BTreeMap::new(),
            steps: Vec::new(),
        };
        let slots = SlotValues::from([(token, b"abcdef.0123".to_vec()), (hash, b"sha256:ca".to_vec())]);
        let state = |text: &str| [ObservedState::opaque(&serde_json::json!({ "path:/etc/x": text }), false)];
        assert_eq!(shows_no_secret(&plan, &slots, &state("file sha256:ca")), Ok(()));
        let refused = shows_no_secret(&plan, &slots, &state("token abcdef.0123"));
        assert_eq!(refused, Err("a state contains the value of slot token".to_owned()));
    }
}
