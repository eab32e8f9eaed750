//! The steps of a run on the controller: the same ops, over a link without a channel, inside the cluster's folder.
//!
//! The folder is the root of the machine that these ops see, so a plan does not depend on the operator's home. The
//! earlier state is in a ledger next to it, as on a node. No root rights are needed, and a controller that is also a
//! node has two ledgers and two locks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubexm_ops::Machine;
use kubexm_ops::real::RealSystem;
use kubexm_plan::facts::DataFolders;
use kubexm_plan::{
    CONTROLLER, ClusterFacts, Facts, ObservedState, Probe, ProbeAnswer, SlotProvider, Step, StepDrift, Survey, Texts,
    Wave, ledger,
};

use crate::LocalLink;
use crate::link::agent::Work;
use crate::link::{Change, SlotValues};

/// The controller, limited to the folder of one cluster.
pub struct ControllerWork {
    machine: Machine,
    folder: PathBuf,
}

/// The ledger's folder inside the cluster's folder.
const LEDGER: &str = "ledger";

/// A link to the controller, limited to the folder of a cluster, `clusters/<name>`.
pub fn controller_link(folder: &Path) -> LocalLink<ControllerWork> {
    LocalLink::new(CONTROLLER, ControllerWork::of(folder))
}

impl ControllerWork {
    /// For the folder of a cluster.
    pub fn of(folder: &Path) -> Self {
        let machine = Machine::with_system(folder, Arc::new(RealSystem)).with_ledger(folder.join(LEDGER));
        Self { machine, folder: folder.to_owned() }
    }
}

fn not_here<T>(what: &str) -> Result<T, String> {
    Err(format!("{what} is not the controller's; this is a fault of the program"))
}

impl Work for ControllerWork {
    fn facts(&self, _: &str, _: &DataFolders) -> Result<Facts, String> {
        not_here("a host's facts")
    }

    fn cluster_facts(&self, _: &str) -> ClusterFacts {
        // The controller as such is not a node.
        ClusterFacts::default()
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
        Work::converge(&self.machine, step, texts, slots, change)
    }

    fn undo(&self, step: &Step, texts: Texts, change: Change<'_>, wave: Wave) -> Result<(), String> {
        Work::undo(&self.machine, step, texts, change, wave)
    }

    fn provide(&self, _: &SlotProvider) -> Result<Vec<u8>, String> {
        not_here("a value that a control plane makes")
    }

    fn ledger(&self) -> Result<Vec<ledger::Record>, String> {
        Work::ledger(&self.machine)
    }

    fn probe(&self, _: &Probe) -> Result<ProbeAnswer, String> {
        not_here("a probe")
    }

    /// Journals of the operator's own machine are not collected.
    fn evidence(&self) -> Result<Vec<(String, String)>, String> {
        Ok(Vec::new())
    }

    fn admin_kubeconfig(&self) -> Result<Vec<u8>, String> {
        not_here("an admin.conf")
    }

    fn step_log(&self, run: &str, step: &Step) -> Result<String, String> {
        Work::step_log(&self.machine, run, step)
    }

    fn lock_path(&self) -> PathBuf {
        self.folder.join("controller.lock")
    }

    fn store_path(&self) -> PathBuf {
        self.machine.store()
    }
}
