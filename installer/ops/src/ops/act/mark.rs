//! Our own mark of an init or a join (`/var/lib/kubexm/acts/<act>.json`): whether it was begun by us and whether it
//! ended well. Without it a half-done one of ours could not be told from somebody's cluster, which must never be
//! reset, nor from our own cluster whose API server is away for a moment.

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::fsio::{self, Access};
use crate::system::ActContext;
use crate::{Machine, OpError, paths, transient};

/// Which act is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Init,
    Join,
}

impl Of {
    pub(crate) const ALL: [Self; 2] = [Self::Init, Self::Join];

    const fn path(self) -> &'static str {
        match self {
            Self::Init => "/var/lib/kubexm/acts/kubeadm-init.json",
            Self::Join => "/var/lib/kubexm/acts/kubeadm-join.json",
        }
    }
}

/// What the file says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Mark {
    pub(crate) ended_well: bool,
    /// Of kubeadm's config as the plan has it, without secrets.
    pub(crate) config: Option<Digest>,
    /// The step that began it, until it ended well: its unit may still run when another run comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) act: Option<ActContext>,
}

impl Mark {
    /// The act that runs right now: this step's own, or the one of another run that began it.
    pub(super) fn still_running(&self, machine: &Machine) -> Result<Option<ActContext>, OpError> {
        for act in [machine.act(), self.act.as_ref()].into_iter().flatten() {
            if transient::is_running(machine, act)? {
                return Ok(Some(act.clone()));
            }
        }
        Ok(None)
    }
}

/// One that cannot be read counts as none.
pub(crate) fn read(machine: &Machine, of: Of) -> Result<Option<Mark>, OpError> {
    Ok(fsio::read(&machine.path(of.path()))?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

pub(super) fn write(machine: &Machine, of: Of, ended_well: bool, config: Option<Digest>) -> Result<(), OpError> {
    let act = machine.act().filter(|_| !ended_well).cloned();
    let text = serde_json::to_vec(&Mark { ended_well, config, act })
        .map_err(|error| OpError::other(format!("{} cannot be written as JSON: {error}", of.path())))?;
    fsio::write(machine, of.path(), &text, Access::mode(0o600))
}

/// Whether an init or a join of ours was ever begun here.
pub(super) fn any(machine: &Machine) -> bool {
    Of::ALL.into_iter().any(|of| machine.path(of.path()).exists())
}

/// After a reset there is nothing to be told apart any more.
pub(super) fn remove_all(machine: &Machine) -> Result<(), OpError> {
    Of::ALL.into_iter().try_for_each(|of| fsio::remove(&machine.path(of.path())))?;
    // Only when no other act has left a mark.
    let _ = std::fs::remove_dir(machine.path(format!("{}/acts", paths::STATE)));
    Ok(())
}
