//! What an agent does for its controller on its machine.

use std::path::PathBuf;

use kubexm_ops::paths::ADMIN_CONF;
use kubexm_ops::{
    Machine, OpError, backup, cluster_facts, depot_content, drift, etcd_check, evidence, facts, installed_addons,
    probe, provide, step, survey,
};
use kubexm_plan::addons::{AddonsAsk, InstalledAddons};
use kubexm_plan::backup::{BackupAnswer, BackupAsk};
use kubexm_plan::depot::DepotContent;
use kubexm_plan::etcd_check::{EndpointAnswer, EtcdAnswer, EtcdAsk};
use kubexm_plan::facts::DataFolders;
use kubexm_plan::{
    ClusterFacts, Facts, ObservedState, Probe, ProbeAnswer, SlotProvider, Step, StepDrift, Survey, Texts, Wave, ledger,
};

use crate::link::{Change, SlotValues};

/// Locked by the agent that works on this node.
pub const LOCK_PATH: &str = "/run/kubexm/lock";

/// Locked (shared) by every agent from its first message on, whether it works or waits for confirmation. Removing the
/// program takes the lock exclusively, so the program is never removed while another agent uses it.
pub const PRESENT_PATH: &str = "/run/kubexm/agents.lock";

/// The node's side of a link. An error is one text that is sent to the controller: what, where, how to fix it.
pub trait Work: Send + Sync + 'static {
    /// Gathers facts about the host, and about these folders; changes nothing.
    fn facts(&self, host: &str, folders: &DataFolders) -> Result<Facts, String>;
    /// Observes the cluster; changes nothing.
    fn cluster_facts(&self, host: &str) -> ClusterFacts;
    /// Observes every op of a step.
    fn observe(&self, step: &Step, texts: Texts, slots: SlotValues) -> Result<Vec<ObservedState>, String>;
    /// Observes many steps at once.
    fn survey(&self, steps: &[Step], texts: Texts, slots: SlotValues) -> Result<Survey, String>;
    /// Describes what differs from many steps; changes nothing.
    fn drift(&self, steps: &[Step], texts: Texts, slots: SlotValues) -> Result<Vec<StepDrift>, String>;
    /// Converges a step and updates the ledger.
    fn converge(&self, step: &Step, texts: Texts, slots: SlotValues, change: Change<'_>) -> Result<(), String>;
    /// Rolls a step back in one wave and updates the ledger.
    fn undo(&self, step: &Step, texts: Texts, change: Change<'_>, wave: Wave) -> Result<(), String>;
    /// Makes a slot's value; often a secret.
    fn provide(&self, provider: &SlotProvider) -> Result<Vec<u8>, String>;
    /// The ledger's records.
    fn ledger(&self) -> Result<Vec<ledger::Record>, String>;
    /// Runs a probe once.
    fn probe(&self, probe: &Probe) -> Result<ProbeAnswer, String>;
    /// Text by file name.
    fn evidence(&self) -> Result<Vec<(String, String)>, String>;
    /// A part of a backup; only nodes make one.
    fn backup(&self, _: &BackupAsk) -> Result<BackupAnswer, String> {
        Err("a backup is made on a control plane".to_owned())
    }
    /// What is installed in the cluster; changes nothing. Only control planes know it.
    fn addons(&self, _: &AddonsAsk) -> Result<InstalledAddons, String> {
        Err("add-ons are looked up on a control plane".to_owned())
    }
    /// What the depot of the host has; changes nothing.
    fn depot(&self) -> Result<DepotContent, String> {
        Err("a depot is on a host of the registry".to_owned())
    }
    /// Asks an etcd of the user's.
    fn ask_etcd(&self, ask: &EtcdAsk, _key: &[u8]) -> EtcdAnswer {
        let none = |endpoint: &String| EndpointAnswer { endpoint: endpoint.clone(), ..EndpointAnswer::default() };
        EtcdAnswer { endpoints: ask.endpoints.iter().map(none).collect(), ..EtcdAnswer::default() }
    }
    /// kubeadm's admin.conf, byte for byte; a secret.
    fn admin_kubeconfig(&self) -> Result<Vec<u8>, String>;
    /// Log of a step.
    fn step_log(&self, run: &str, step: &Step) -> Result<String, String>;
    /// The file whose flock locks the host for a run.
    fn lock_path(&self) -> PathBuf;
    /// The file whose shared flock marks a running agent ([`PRESENT_PATH`]).
    fn present_path(&self) -> PathBuf {
        let name = PRESENT_PATH.rsplit('/').next().unwrap_or(PRESENT_PATH);
        self.lock_path().with_file_name(name)
    }
    /// The folder of the node's content store.
    fn store_path(&self) -> PathBuf;
}

impl Work for Machine {
    fn facts(&self, host: &str, folders: &DataFolders) -> Result<Facts, String> {
        said(facts::collect_with(self, host, folders))
    }

    fn cluster_facts(&self, host: &str) -> ClusterFacts {
        cluster_facts::collect(self, host)
    }

    fn observe(&self, step: &Step, texts: Texts, slots: SlotValues) -> Result<Vec<ObservedState>, String> {
        said(step::observe(step, &self.with_texts(texts).with_slots(slots)))
    }

    fn survey(&self, steps: &[Step], texts: Texts, slots: SlotValues) -> Result<Survey, String> {
        said(survey::survey(steps, &self.with_texts(texts).with_slots(slots)))
    }

    fn drift(&self, steps: &[Step], texts: Texts, slots: SlotValues) -> Result<Vec<StepDrift>, String> {
        Ok(drift::drift(steps, &self.with_texts(texts).with_slots(slots)))
    }

    fn converge(&self, step: &Step, texts: Texts, slots: SlotValues, change: Change<'_>) -> Result<(), String> {
        let Change { run, sequence, before } = change;
        said(step::converge(step, &self.with_texts(texts).with_slots(slots), run, sequence, before))
    }

    fn undo(&self, step: &Step, texts: Texts, change: Change<'_>, wave: Wave) -> Result<(), String> {
        let Change { run, sequence, before } = change;
        said(step::undo(step, &self.with_texts(texts), run, sequence, before, wave))
    }

    fn provide(&self, provider: &SlotProvider) -> Result<Vec<u8>, String> {
        said(provide::value(provider, self))
    }

    fn ledger(&self) -> Result<Vec<ledger::Record>, String> {
        said(Machine::ledger(self).records())
    }

    fn probe(&self, probe: &Probe) -> Result<ProbeAnswer, String> {
        said(probe::look(probe, self))
    }

    fn evidence(&self) -> Result<Vec<(String, String)>, String> {
        Ok(evidence::collect(self))
    }

    fn backup(&self, ask: &BackupAsk) -> Result<BackupAnswer, String> {
        said(backup::answer(self, ask))
    }

    fn addons(&self, ask: &AddonsAsk) -> Result<InstalledAddons, String> {
        said(installed_addons::look(self, ask))
    }

    fn depot(&self) -> Result<DepotContent, String> {
        said(depot_content::look(self))
    }

    fn ask_etcd(&self, ask: &EtcdAsk, key: &[u8]) -> EtcdAnswer {
        etcd_check::ask(self, ask, key)
    }

    fn admin_kubeconfig(&self) -> Result<Vec<u8>, String> {
        let path = self.path(ADMIN_CONF);
        std::fs::read(&path).map_err(|error| format!("cannot read {ADMIN_CONF}: {error}; has `kubeadm init` run here?"))
    }

    fn step_log(&self, run: &str, step: &Step) -> Result<String, String> {
        said(step::log(step, self, run))
    }

    fn lock_path(&self) -> PathBuf {
        self.path(LOCK_PATH)
    }

    fn store_path(&self) -> PathBuf {
        self.store()
    }
}

/// Errors are sent as text.
fn said<T>(result: Result<T, OpError>) -> Result<T, String> {
    result.map_err(|error| error.full())
}
