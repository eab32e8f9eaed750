//! A host whose agent is killed in the middle of a step, once.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use kubexm_engine::link::agent::Work;
use kubexm_engine::link::{Change, SlotValues};
use kubexm_ops::fault::{FaultPoint, Faults};
use kubexm_ops::{Machine, Wave};
use kubexm_plan::facts::DataFolders;
use kubexm_plan::{
    ClusterFacts, Facts, ObservedState, Probe, ProbeAnswer, SlotProvider, Step, StepDrift, Survey, Texts, ledger,
};

/// Where an agent is killed.
#[derive(Clone, Debug)]
pub struct Kill {
    /// Id of the step.
    pub step: String,
    /// Whether the link opens another agent, which gets the same request again; else the step fails.
    pub comes_back: bool,
}

/// The kill that is still to come.
#[derive(Default)]
pub struct Death {
    pub kill: Mutex<Option<Kill>>,
    /// Steps that are at work. Nobody appends to a ledger while its last line is taken away.
    working: RwLock<()>,
}

/// A machine and what all links to it share.
pub struct Mortal {
    pub machine: Machine,
    pub death: Arc<Death>,
}

impl Mortal {
    fn take(&self, step: &Step) -> Option<Kill> {
        let mut kill = self.death.kill.lock().unwrap_or_else(PoisonError::into_inner);
        kill.take_if(|kill| step.id.0 == kill.step)
    }

    /// What a killed agent leaves: the ledger has that the step began, and some of its ops are done.
    fn die(&self, step: &Step, texts: Texts, slots: SlotValues, change: Change<'_>) {
        let _alone = self.death.working.write().unwrap_or_else(PoisonError::into_inner);
        let faults = Arc::new(Faults::at(FaultPoint::Before(2)));
        let failed = Work::converge(&self.machine.with_faults(faults), step, texts, slots, change).unwrap_err();
        assert!(failed.contains("injected fault"), "{failed}");
        let ledger = self.machine.path("/var/lib/kubexm/ledger/records.jsonl");
        let text = fs::read_to_string(&ledger).unwrap();
        let whole = text.trim_end().rfind('\n').map_or(0, |end| end + 1);
        assert!(text[whole..].contains("injected fault"), "{}", &text[whole..]);
        fs::File::options().write(true).open(&ledger).unwrap().set_len(whole as u64).unwrap();
    }
}

impl Work for Mortal {
    fn facts(&self, host: &str, folders: &DataFolders) -> Result<Facts, String> {
        Work::facts(&self.machine, host, folders)
    }

    fn cluster_facts(&self, host: &str) -> ClusterFacts {
        Work::cluster_facts(&self.machine, host)
    }

    fn observe(&self, step: &Step, texts: Texts, slots: SlotValues) -> Result<Vec<ObservedState>, String> {
        Work::observe(&self.machine, step, texts, slots)
    }

    fn survey(&self, steps: &[Step], texts: Texts, slots: SlotValues) -> Result<Survey, String> {
        Work::survey(&self.machine, steps, texts, slots)
    }

    fn drift(&self, steps: &[Step], texts: Texts, slots: SlotValues) -> Result<Vec<StepDrift>, String> {
        Work::drift(&self.machine, steps, texts, slots)
    }

    fn converge(&self, step: &Step, texts: Texts, slots: SlotValues, change: Change<'_>) -> Result<(), String> {
        if let Some(kill) = self.take(step) {
            let again = Change { run: change.run, sequence: change.sequence, before: change.before };
            self.die(step, texts.clone(), slots.clone(), again);
            if !kill.comes_back {
                return Err("the agent was killed".to_owned());
            }
        }
        let _working = self.death.working.read().unwrap_or_else(PoisonError::into_inner);
        Work::converge(&self.machine, step, texts, slots, change)
    }

    fn undo(&self, step: &Step, texts: Texts, change: Change<'_>, wave: Wave) -> Result<(), String> {
        let _working = self.death.working.read().unwrap_or_else(PoisonError::into_inner);
        Work::undo(&self.machine, step, texts, change, wave)
    }

    fn provide(&self, provider: &SlotProvider) -> Result<Vec<u8>, String> {
        Work::provide(&self.machine, provider)
    }

    fn ledger(&self) -> Result<Vec<ledger::Record>, String> {
        Work::ledger(&self.machine)
    }

    fn probe(&self, probe: &Probe) -> Result<ProbeAnswer, String> {
        Work::probe(&self.machine, probe)
    }

    fn evidence(&self) -> Result<Vec<(String, String)>, String> {
        Work::evidence(&self.machine)
    }

    fn admin_kubeconfig(&self) -> Result<Vec<u8>, String> {
        Work::admin_kubeconfig(&self.machine)
    }

    fn step_log(&self, run: &str, step: &Step) -> Result<String, String> {
        Work::step_log(&self.machine, run, step)
    }

    fn lock_path(&self) -> PathBuf {
        Work::lock_path(&self.machine)
    }

    fn store_path(&self) -> PathBuf {
        Work::store_path(&self.machine)
    }
}
