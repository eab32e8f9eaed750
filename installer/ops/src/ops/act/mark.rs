//! Our own mark of an init or a join (`/var/lib/kubexm/acts/<act>.json`): whether it was started by us and whether it
//! succeeded. Without it a half-done one of kubexm could not be distinguished from somebody's cluster, which must never
//! be reset, nor from our own cluster whose API server is away for a moment.

use kubexm_plan::op::StateDir;
use kubexm_plan::{Op, ledger, network, state_folders};
use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use crate::fsio::{self, Access};
use crate::place::{Entry, Look, Place};
use crate::system::ActContext;
use crate::{Machine, OpError, folder, paths, transient};

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
    /// Digest of kubeadm's config in the plan, without secrets.
    pub(crate) config: Option<Digest>,
    /// The step that began it, until it succeeded: its unit may still run when another run comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) act: Option<ActContext>,
    /// What was in the folders that a reset clears when the act was started: a reset leaves that. None: an older
    /// version began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Vec<Place>>,
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
    // A second try finds what the first one left, or nothing of that: only the first saw the folders as they were.
    let before = match read(machine, of)?.filter(|older| older.before.is_some() || older.ended_well) {
        Some(older) => older.before,
        None => Some(folders(machine)?),
    };
    let text = serde_json::to_vec(&Mark { ended_well, config, act, before })
        .map_err(|error| OpError::other(format!("{} cannot be written as JSON: {error}", of.path())))?;
    machine.write_file(of.path(), &text, Access::mode(0o600))
}

/// What is in the folders that a reset clears.
fn folders(machine: &Machine) -> Result<Vec<Place>, OpError> {
    let look = |path: &str| {
        let place = Place { held: folder::list(machine, path), ..Place::look(machine, path)? };
        match (&place.entry, &place.held) {
            (Entry::Absent, _) | (_, Some(_)) => Ok(place),
            _ => Err(OpError::other(format!(
                "what is in {path} cannot be listed (it is not a folder, has too many entries or names that are not \
                 UTF-8), and could later not be distinguished from what kubeadm makes; move it away, then run again"
            ))),
        }
    };
    state_folders::cleared().into_iter().chain([state_folders::CNI_CONFIGS]).map(look).collect()
}

/// What the first init or join of kubexm found in the folders that a reset clears.
pub(super) fn before(machine: &Machine) -> Result<Vec<Place>, OpError> {
    for of in Of::ALL {
        if let Some(before) = read(machine, of)?.and_then(|mark| mark.before) {
            return Ok(before);
        }
    }
    if let Some(before) = from_ledger(machine)? {
        return Ok(before);
    }
    Err(OpError::other(
        "there is no record of what was in kubeadm's folders before its init or join was started here (an older \
         version of this program did, or its mark below /var/lib/kubexm/acts was changed): nothing is removed; save \
         what you need of /etc/kubernetes, /var/lib/etcd and /var/lib/kubelet, `kubeadm reset` the node yourself, \
         then run again",
    ))
}

/// The same by the node's ledger, where an older version began the act: its steps looked at these folders earlier in
/// the run. None where one of them was not looked at, or not listed.
fn from_ledger(machine: &Machine) -> Result<Option<Vec<Place>>, OpError> {
    let records = machine.ledger().records()?;
    let looks = || ledger::standing(records.iter()).flat_map(|record| record.ops.iter().zip(&record.before));
    let oldest = |path: &str| -> Result<Option<Place>, OpError> {
        let found = looks().find(|(op, _)| matches!(op, Op::StateDir(dir) if dir.path == path));
        found.map(|(_, found)| Ok(found.state::<StateDir>()?)).transpose()
    };
    let mut places = Vec::new();
    for path in state_folders::cleared() {
        match oldest(path)? {
            Some(place) if place.entry == Entry::Absent || place.held.is_some() => places.push(place),
            _ => return Ok(None),
        }
    }
    // A configuration that no step looked at is none of that run's network: it stays.
    let mut held = Vec::new();
    let mut folder = Place::look(machine, state_folders::CNI_CONFIGS)?;
    for path in network::ALL.iter().flat_map(|network| network.cni_configs) {
        let place = oldest(path)?;
        if place.as_ref().is_none_or(|place| place.entry != Entry::Absent) {
            held.extend(path.rsplit('/').next().map(str::to_owned));
        }
    }
    folder.held = Some(held);
    places.push(folder);
    Ok(Some(places))
}

/// Whether an init or a join of kubexm was ever begun here.
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
