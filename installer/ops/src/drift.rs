//! What differs on a host from what a plan wants there. Only observes, and takes no lock.
//!
//! The content of a file is shown only if the plan has it as a text: values of slots may be secrets.

use std::io::Read as _;

use kubexm_plan::op::{
    Applied, Content, File, FoundManifests, HelmRelease, KubeObject, Manifests, NodeApplied, NodePruned, Pruned,
    Released, Resolver, Sysctl, Unit,
};
use kubexm_plan::{Difference, ObservedState, Op, PathEntry, Step, StepDrift};

use crate::difference::{self, Contents};
use crate::dirfd::DirFd;
use crate::managed_edit::Edit;
use crate::survey::{self, side_by_side};
use crate::{Machine, OpError, dispatch, fsio};

const NOW: &str = "now";
const PLANNED: &str = "planned";

/// The steps whose ops are not all satisfied, in the order of `steps`, with each op that is not. Probes are not run.
pub fn drift(steps: &[Step], machine: &Machine) -> Vec<StepDrift> {
    let machine = machine.in_survey(survey::scope_of(steps));
    let all: Vec<&Step> = steps.iter().collect();
    let found = side_by_side(&all, |step| {
        let differences: Vec<Difference> = step.ops.iter().filter_map(|op| difference(op, &machine)).collect();
        (!differences.is_empty()).then(|| StepDrift { step: step.id.clone(), differences })
    });
    machine.digest_cache().save();
    found
}

fn difference(op: &Op, machine: &Machine) -> Option<Difference> {
    let plain = |how: String| Difference { what: op.to_string(), how, diff: None };
    let described = match dispatch::observe(op, machine) {
        Ok(found) if found.satisfied => return None,
        Ok(found) => describe(op, &found, machine),
        Err(error) => Err(error),
    };
    Some(described.unwrap_or_else(|error| plain(format!("cannot be observed: {}", error.full()))))
}

fn describe(op: &Op, found: &ObservedState, machine: &Machine) -> Result<Difference, OpError> {
    let how = match op {
        Op::File(file) => return file_difference(file, &found.state::<File>()?.entry, machine),
        Op::HostsBlock(edit) => return edit_difference("/etc/hosts", edit, machine),
        Op::Resolver(_) => {
            format!("{} does not have these servers first", found.state::<Resolver>()?.file.path)
        }
        Op::Unit(unit) => unit_differs(unit, found)?,
        Op::Sysctl(sysctl) => sysctl_differs(sysctl, found)?,
        Op::KubeObject(_) => match found.state::<KubeObject>()? {
            Applied::Unknown => "the API server does not answer".to_owned(),
            Applied::Absent => "they are missing".to_owned(),
            Applied::Different | Applied::Other { .. } | Applied::Same => "some are missing or different".to_owned(),
        },
        Op::Manifests(op) if op.is_removal() => {
            "they are there, and cluster.yaml does not have them any more".to_owned()
        }
        Op::ReleaseAbsent(_) => "it is installed, and cluster.yaml does not have it any more".to_owned(),
        Op::Manifests(_) => match found.state::<Manifests>()? {
            FoundManifests::Unknown => {
                "the API server does not answer, or the node's store does not have them".to_owned()
            }
            FoundManifests::Absent { .. } => "they are missing".to_owned(),
            FoundManifests::Other { .. } | FoundManifests::Same => {
                "some are missing or different, or an earlier version has others".to_owned()
            }
        },
        Op::HelmRelease(_) => release_differs(&found.state::<HelmRelease>()?),
        Op::NodePruned(_) => pruned_differs(&found.state::<NodePruned>()?),
        _ => "not as planned".to_owned(),
    };
    Ok(Difference { what: op.to_string(), how, diff: None })
}

fn file_difference(file: &File, entry: &PathEntry, machine: &Machine) -> Result<Difference, OpError> {
    let plain = |how: String| Difference { what: file.path.clone(), how, diff: None };
    let wanted = machine.content_digest(&file.content)?;
    Ok(match entry {
        PathEntry::Absent => plain("it is missing".to_owned()),
        PathEntry::File { digest, mode, .. } if *digest == wanted => {
            plain(format!("its mode is {mode:04o}, planned is {:04o}", file.mode))
        }
        PathEntry::File { .. } if matches!(file.content, Content::Text { .. }) => {
            let old = now(machine, &file.path)?;
            let new = machine.content(&file.content)?;
            difference::of_contents(&file.path, &Contents { old: &old, old_name: NOW, new: &new, new_name: PLANNED })
        }
        PathEntry::File { .. } => plain("its content differs, and is not shown since it may be secret".to_owned()),
        PathEntry::Link { target } => plain(format!("it is a link to {target}")),
        PathEntry::Directory { .. } => plain("it is a folder".to_owned()),
        PathEntry::Special => plain("it is a device, socket or pipe".to_owned()),
    })
}

/// The content of a file that was observed as one. By now a user may have put a link there, to what root alone may read.
fn now(machine: &Machine, path: &str) -> Result<Vec<u8>, OpError> {
    let real = machine.path(path);
    let (folder, name) = DirFd::of(&real)?;
    let mut content = Vec::new();
    let read = folder.open_file(name).and_then(|mut file| file.read_to_end(&mut content));
    read.map_err(OpError::path("read", &real))?;
    Ok(content)
}

fn edit_difference(path: &str, edit: &impl Edit, machine: &Machine) -> Result<Difference, OpError> {
    let old = fsio::read_text(&machine.path(path))?.unwrap_or_default();
    let new = edit.make(&old);
    let (old, new) = (old.as_bytes(), new.as_bytes());
    Ok(difference::of_contents(path, &Contents { old, old_name: NOW, new, new_name: PLANNED }))
}

fn unit_differs(unit: &Unit, found: &ObservedState) -> Result<String, OpError> {
    let state = found.state::<Unit>()?;
    let mut how = Vec::new();
    if !state.exists {
        how.push("systemd does not know it");
    }
    if state.enabled != unit.enabled {
        how.push(if state.enabled { "it is enabled" } else { "it is not enabled" });
    }
    match unit.running {
        Some(true) if !state.active => how.push("it does not run"),
        Some(false) if state.active => how.push("it runs"),
        Some(true) if !state.current => how.push("it runs with earlier files"),
        _ => {}
    }
    if state.needs_reload {
        how.push("its unit file was changed");
    }
    Ok(if how.is_empty() { "not as planned".to_owned() } else { how.join(", ") })
}

fn release_differs(found: &Released) -> String {
    match found {
        Released::Unknown => "the API server does not answer".to_owned(),
        Released::Absent { .. } => "it is not installed".to_owned(),
        Released::There(found) if !found.drifted.is_empty() => {
            format!("objects are missing or were changed: {}", found.drifted.join(", "))
        }
        Released::There(found) if !found.is_deployed() => {
            format!("its revision {} is {}", found.revision, found.status)
        }
        Released::There(found) if found.blob.is_none() => format!("{} was installed by somebody else", found.chart),
        Released::There(found) => format!("{} is installed, from another chart or with other values", found.chart),
    }
}

/// Each of them goes with the next `create`, so each is named.
fn pruned_differs(found: &Pruned) -> String {
    let labels = found.labels.keys().map(|key| format!("label {key}"));
    let annotations = found.annotations.keys().map(|key| format!("annotation {key}"));
    let taints = found.taints.iter().map(|taint| format!("taint {}", NodeApplied::taint(&taint.key, &taint.effect)));
    let all: Vec<String> = labels.chain(annotations).chain(taints).collect();
    match (found.known, all.is_empty()) {
        (false, _) => "the API server does not answer, or does not know the node".to_owned(),
        (true, true) => "the record of what is cluster.yaml's is another one".to_owned(),
        (true, false) => format!("cluster.yaml does not have them any more: {}", all.join(", ")),
    }
}

fn sysctl_differs(sysctl: &Sysctl, found: &ObservedState) -> Result<String, OpError> {
    let state = found.state::<Sysctl>()?;
    let mut how = Vec::new();
    for (name, wanted) in &sysctl.values {
        if let Some(Some(live)) = state.live.get(name).filter(|live| live.as_ref() != Some(wanted)) {
            how.push(format!("{name} is {live}"));
        }
        if let Some(boot) = state.boot.get(name).filter(|boot| boot.value != *wanted) {
            how.push(format!("{} sets {name} to {} at boot", boot.line, boot.value));
        }
    }
    Ok(if how.is_empty() { format!("{} is not as planned", sysctl.path) } else { how.join(", ") })
}
