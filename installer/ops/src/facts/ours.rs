//! Identifies what belongs to kubexm on a host.

use super::processes::Process;
use crate::{Machine, OpError, fsio, paths};

/// Identifies what belongs to kubexm: by the paths in the node's ledger, and for pods by the stamp.
pub(crate) struct Ours {
    ledger: String,
    stamped: bool,
}

impl Ours {
    pub(super) fn read(machine: &Machine, stamped: bool) -> Result<Self, OpError> {
        let ledger = fsio::read_text(&machine.path(format!("{}/records.jsonl", paths::LEDGER)))?.unwrap_or_default();
        Ok(Self { ledger, stamped })
    }

    /// Whether an op of kubexm has changed this path.
    pub(crate) fn path(&self, path: &str) -> bool {
        self.ledger.contains(&format!("\"{path}\""))
    }

    /// Whether a process runs a program of kubexm, in a unit of kubexm, or in a pod of its cluster.
    pub(crate) fn process(&self, process: &Process) -> bool {
        let unit = process.unit.as_ref().map(|unit| format!("/etc/systemd/system/{unit}"));
        unit.is_some_and(|unit| self.path(&unit))
            || process.exe.as_deref().is_some_and(|exe| self.path(exe))
            || (self.stamped && process.in_pod)
    }

    /// Whether the node has kubexm's stamp.
    pub(crate) const fn stamped(&self) -> bool {
        self.stamped
    }
}
