//! kubexm's record of an init or a join (`/var/lib/kubexm/acts/<act>.json`): whether kubexm started it, and whether it
//! succeeded. Without it a half-done one could not be distinguished from another cluster, which must never be reset, or
//! from kubexm's own cluster while its API server is temporarily down.

use kubexm_plan::op::StateDir;
use kubexm_plan::{Op, ledger, network, state_folders};
use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use super::{files, kubeadm_files};
use crate::fsio::{self, Access};
use crate::path_state::{Look, PathEntry, PathState};
use crate::system::ActContext;
use crate::{Machine, OpError, folder, own_etcd, paths, transient};

/// The recorded act.
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

    const fn command(self) -> &'static str {
        match self {
            Self::Init => "kubeadm init",
            Self::Join => "kubeadm join",
        }
    }
}

/// The content of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Mark {
    pub(crate) ended_well: bool,
    /// Digest of kubeadm's config in the plan, without secrets.
    pub(crate) config: Option<Digest>,
    /// The step that started it, until it has succeeded: its unit may still run when another run starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) act: Option<ActContext>,
    /// The content of the folders that a reset clears, when the act was started; a reset keeps that. None if an older
    /// version started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Vec<PathState>>,
}

impl Mark {
    /// The running act: this step's own, or the one of the run that started it.
    pub(super) fn still_running(&self, machine: &Machine) -> Result<Option<ActContext>, OpError> {
        transient::still_running(machine, self.act.as_ref())
    }
}

/// The record; none if there is none. An unreadable one is an error: if it counted as none, kubexm's own half-done init or
/// join would be taken for another cluster.
pub(crate) fn read(machine: &Machine, of: Of) -> Result<Option<Mark>, OpError> {
    let Some(bytes) = fsio::read(&machine.path(of.path()))? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        OpError::other(format!(
            "{path} says whether the `{command}` of kubexm on this node succeeded, and cannot be read: {error}; if a newer \
             kubexm-install wrote it, use that version; if it is damaged, write it anew as {{\"endedWell\": true, \"config\": null}} \
             if this node works in its cluster, as {{\"endedWell\": false, \"config\": null}} if the command did not succeed, or \
             remove it if kubexm never ran the command here",
            path = of.path(),
            command = of.command(),
        ))
    })
}

/// Why a record cannot be read; none if both can.
pub(crate) fn unreadable(machine: &Machine) -> Option<OpError> {
    Of::ALL.into_iter().find_map(|of| read(machine, of).err())
}

/// For a reset, which must be possible whatever the record has become: an unreadable one says only that kubexm started
/// something. What was there before then comes from the ledger, or nothing is removed ([`before`]).
pub(super) fn read_to_reset(machine: &Machine, of: Of) -> Result<Option<Mark>, OpError> {
    let Some(bytes) = fsio::read(&machine.path(of.path()))? else { return Ok(None) };
    let unknown = Mark { ended_well: false, config: None, act: None, before: None };
    Ok(Some(serde_json::from_slice(&bytes).unwrap_or(unknown)))
}

pub(super) fn write(machine: &Machine, of: Of, ended_well: bool, config: Option<Digest>) -> Result<(), OpError> {
    let act = machine.act().filter(|_| !ended_well).cloned();
    // Only the first attempt has seen the folders as they were before.
    let before = match read(machine, of)?.filter(|older| older.before.is_some() || older.ended_well) {
        Some(older) if older.ended_well || ended_well => older.before,
        Some(older) => with_new(older.before.unwrap_or_default(), folders(machine)?),
        None => Some(folders(machine)?),
    };
    // Once it has ended, the files may be edited by people.
    if ended_well && !any_ended_well(machine)? {
        kubeadm_files::record(machine)?;
    }
    let text = serde_json::to_vec(&Mark { ended_well, config, act, before })
        .map_err(|error| OpError::other(format!("{} cannot be written as JSON: {error}", of.path())))?;
    machine.write_file(of.path(), &text, Access::mode(0o600))
}

/// A later try may clear folders that the first one did not know: etcd's, if cluster.yaml names another one since.
fn with_new(mut before: Vec<PathState>, now: Vec<PathState>) -> Option<Vec<PathState>> {
    let is_new = |place: &PathState| !before.iter().any(|known| known.path == place.path);
    let new: Vec<PathState> = now.into_iter().filter(is_new).collect();
    before.extend(new);
    Some(before)
}

/// The cluster has another config of kubeadm since an upgrade; none on a control plane that joined.
pub(crate) fn configured_with(machine: &Machine, config: Option<Digest>) -> Result<(), OpError> {
    match read(machine, Of::Init)?.is_some_and(|mark| mark.ended_well) {
        true => write(machine, Of::Init, true, config),
        false => Ok(()),
    }
}

/// The content of the folders that a reset clears.
fn folders(machine: &Machine) -> Result<Vec<PathState>, OpError> {
    let look = |path: &str| {
        let place = PathState { held: folder::list(machine, path), ..PathState::look(machine, path)? };
        match (&place.entry, &place.held) {
            (PathEntry::Absent, _) | (_, Some(_)) => Ok(place),
            _ => Err(OpError::other(format!(
                "what is in {path} cannot be listed (it is not a folder, has too many entries or names that are not \
                 UTF-8), and could later not be distinguished from what kubeadm makes; move it away, then run again"
            ))),
        }
    };
    let cleared = own_etcd::cleared(machine)?;
    cleared.iter().map(String::as_str).chain([state_folders::CNI_CONFIGS]).map(look).collect()
}

/// The content of the folders that a reset clears, before kubexm's first init or join.
pub(super) fn before(machine: &Machine) -> Result<Vec<PathState>, OpError> {
    for of in Of::ALL {
        if let Some(before) = read_to_reset(machine, of)?.and_then(|mark| mark.before) {
            return Ok(before);
        }
    }
    if let Some(before) = from_ledger(machine)? {
        return Ok(before);
    }
    Err(OpError::other(format!(
        "there is no record of what was in kubeadm's folders before its init or join was started here (an older \
         version of this program did, or its mark below /var/lib/kubexm/acts was changed): nothing is removed; save \
         what you need of /etc/kubernetes, {} and /var/lib/kubelet, `{}` the node yourself, \
         then run again",
        own_etcd::data_dir(machine)?,
        own_etcd::by_hand(machine)
    )))
}

/// The same from the node's ledger, if an older version started the act: its steps observed these folders earlier in
/// the run. None if one of them was not observed or listed.
fn from_ledger(machine: &Machine) -> Result<Option<Vec<PathState>>, OpError> {
    let records = machine.ledger().records()?;
    let looks = || ledger::not_rolled_back(records.iter()).flat_map(|record| record.ops.iter().zip(&record.before));
    let oldest = |path: &str| -> Result<Option<PathState>, OpError> {
        let found = looks().find(|(op, _)| matches!(op, Op::StateDir(dir) if dir.path == path));
        found.map(|(_, found)| Ok(found.state::<StateDir>()?)).transpose()
    };
    let mut places = Vec::new();
    for path in &own_etcd::cleared(machine)? {
        match oldest(path)? {
            Some(place) if place.entry == PathEntry::Absent || place.held.is_some() => places.push(place),
            // Of a network that the older version did not know: whatever is in it is not of that run.
            None if network::ALL.iter().any(|network| network.folders().any(|folder| folder == path)) => {
                places.push(PathState { held: folder::list(machine, path), ..PathState::look(machine, path)? });
            }
            _ => return Ok(None),
        }
    }
    // A configuration that no step observed does not belong to that run's network and is kept.
    let mut held = Vec::new();
    let mut folder = PathState::look(machine, state_folders::CNI_CONFIGS)?;
    for path in network::ALL.iter().flat_map(|network| network.cni_configs) {
        let place = oldest(path)?;
        if place.as_ref().is_none_or(|place| place.entry != PathEntry::Absent) {
            held.extend(path.rsplit('/').next().map(str::to_owned));
        }
    }
    folder.held = Some(held);
    places.push(folder);
    Ok(Some(places))
}

/// Whether an init or a join by kubexm has succeeded on this machine.
pub(crate) fn any_ended_well(machine: &Machine) -> Result<bool, OpError> {
    Of::ALL.into_iter().try_fold(false, |found, of| Ok(found || read(machine, of)?.is_some_and(|mark| mark.ended_well)))
}

/// Whether kubexm has ever started an init or a join on this machine.
pub(crate) fn any(machine: &Machine) -> bool {
    Of::ALL.into_iter().any(|of| machine.path(of.path()).exists())
}

/// After a reset there is nothing to distinguish any more.
pub(super) fn remove_all(machine: &Machine) -> Result<(), OpError> {
    Of::ALL.into_iter().try_for_each(|of| fsio::remove(&machine.path(of.path())))?;
    fsio::remove(&machine.path(files::UPGRADE_MARK))?;
    kubeadm_files::forget(machine)?;
    // Only if no other act has left a record.
    let _ = std::fs::remove_dir(machine.path(format!("{}/acts", paths::STATE)));
    Ok(())
}
