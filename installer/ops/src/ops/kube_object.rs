//! Kubernetes objects applied with the admin kubeconfig: server-side apply as field manager `kubexm`.
//!
//! Whether they hold is asked of the API server (`kubectl diff --server-side`: a dry run of the same apply, exit code 1
//! when anything would change), so that a change made by hand is seen, and fields of others are left alone.

use kubexm_plan::op::KubeObject;
use serde::{Deserialize, Serialize};

use crate::kube::{self, kubectl};
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave};

const FORCE: [&str; 3] = ["--server-side", "--force-conflicts", "--field-manager=kubexm"];

/// How far the objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Applied {
    /// No cluster, or it does not answer.
    Unknown,
    /// None of them is there.
    Absent,
    /// Some are missing or say something else.
    Different,
    /// An apply would change nothing.
    Same,
}

impl Converge for KubeObject {
    type State = Applied;

    fn observe(&self, machine: &Machine) -> Result<Applied, OpError> {
        if !kube::has_admin_conf(machine) {
            return Ok(Applied::Unknown);
        }
        let text = machine.text(&self.text)?;
        let diff = machine.try_run(&on(["diff"], FORCE, text))?;
        match diff.code {
            0 => Ok(Applied::Same),
            1 => {
                let existing = machine.try_run(&on(["get"], ["--ignore-not-found", "--output=name"], text))?;
                Ok(if existing.code == 0 && existing.stdout.is_empty() { Applied::Absent } else { Applied::Different })
            }
            // A kind whose definition is among the texts cannot be compared yet, and neither can anything while the
            // API server is away: the apply will tell.
            _ => Ok(Applied::Unknown),
        }
    }

    fn satisfied(&self, found: &Applied, _: &Machine) -> bool {
        *found == Applied::Same
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        machine.run(&on(["apply"], FORCE, machine.text(&self.text)?)).map(drop)
    }

    fn restore(&self, machine: &Machine, before: &Applied, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Stop || !kube::has_control_plane(machine) {
            return Ok(());
        }
        match before {
            Applied::Same | Applied::Unknown => Ok(()),
            Applied::Absent => {
                let text = machine.text(&self.text)?;
                machine.run(&on(["delete"], ["--ignore-not-found", "--wait=false"], text)).map(drop)
            }
            Applied::Different => Err(OpError::other(format!(
                "the objects of {} were there before with other content, which is not kept; \
                 look at them with `kubectl diff` and put back what is missed",
                self.name
            ))),
        }
    }
}

fn on<const N: usize>(verb: [&str; 1], options: [&str; N], text: &str) -> Program {
    kubectl(verb).args(options).args(["--filename", "-"]).stdin(text)
}
