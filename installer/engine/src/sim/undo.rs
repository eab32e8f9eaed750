//! How a simulated host is restored, and what it refuses.

use std::collections::BTreeSet;

use kubexm_plan::op::StateDir;
use kubexm_plan::{Op, PathEntry, RemovalScope, Step, Undo, Wave};

use super::failure::Failure;
use super::keys::{Keys, came_into, is_below, keys};
use super::names::{ADMIN_CONF, KUBELET_UNIT};
use super::world::World;
use crate::link::ObservedState;

impl World {
    /// Rolls a step back in one wave, with the injected failure.
    pub(super) fn undo(&mut self, host: &str, step: &Step, before: &[ObservedState], wave: Wave) -> Result<(), String> {
        self.undos += 1;
        let fails = |at| self.failure == Some(at);
        let (first, last) = (fails(Failure::Undo(self.undos)), fails(Failure::AfterUndo(self.undos)));
        if first || last {
            self.failure = None;
        }
        if first {
            return Err("injected failure of an undo".to_owned());
        }
        self.undo_whole(host, step, before, wave)?;
        self.look();
        if last { Err("injected failure after an undo".to_owned()) } else { Ok(()) }
    }

    fn undo_whole(&mut self, host: &str, step: &Step, before: &[ObservedState], wave: Wave) -> Result<(), String> {
        if before.len() != step.ops.len() {
            return Err(format!("{} states for the {} ops of step {}", before.len(), step.ops.len(), step.id));
        }
        match &step.undo {
            Undo::RestoreBefore => {}
            Undo::Act { act } if wave == Wave::Stop => self.undo_act(host, act)?,
            Undo::Act { .. } => {}
            Undo::WithParent { .. } | Undo::Irreversible { .. } | Undo::Nothing => return Ok(()),
        }
        let own_act = matches!(step.undo, Undo::Act { .. });
        for (op, found) in step.ops.iter().zip(before).rev() {
            if !(own_act && matches!(op, Op::Act(_))) {
                self.restore(host, op, found, wave)?;
            }
        }
        Ok(())
    }

    /// Restores the state that one op had observed.
    pub(super) fn restore(&mut self, host: &str, op: &Op, found: &ObservedState, wave: Wave) -> Result<(), String> {
        if let Op::Reset(reset) = op {
            return self.restore_reset(host, reset, &found.raw(), wave);
        }
        let (here, cluster) = (keys(found, "host")?, keys(found, "cluster")?);
        match (op, op.scope(), wave) {
            (Op::Unit(unit), _, Wave::Stop) => self.stop_unit(host, &unit.name, &here),
            (Op::Unit(unit), _, Wave::Start) => self.start_unit(host, &unit.name, &here),
            (Op::Unit(_), _, Wave::Data) => Ok(()),
            (Op::StaticPodStarted(pod), _, Wave::Start) => self.restart_pod(host, &pod.pod, &here),
            (Op::StaticPodStarted(_), _, _) => Ok(()),
            (Op::Act(act), _, wave) => self.restore_act(host, act, &cluster, wave),
            (Op::StateDir(dir), _, Wave::Data) => self.clear_folder(host, dir, found),
            (Op::MoveAside(_), _, Wave::Data) => self.restore_aside(host, found),
            (_, RemovalScope::Cluster, Wave::Stop) => {
                self.restore_images(host, &here)?;
                // They are gone with the cluster.
                if self.cluster.contains_key("initialised") {
                    for (key, was) in cluster {
                        match was {
                            Some(was) => drop(self.cluster.insert(key, was)),
                            None => drop(self.cluster.remove(&key)),
                        }
                    }
                }
                Ok(())
            }
            (_, RemovalScope::Host | RemovalScope::End, Wave::Data) => self.restore_keys(host, &here),
            _ => Ok(()),
        }
    }

    /// A service's folder that did not exist before is removed with its content; in one that existed, only new entries are
    /// removed, and nothing if its content was not listed.
    fn clear_folder(&mut self, host: &str, dir: &StateDir, found: &ObservedState) -> Result<(), String> {
        let before = found.state::<StateDir>().map_err(|error| error.to_string())?;
        let held: Option<BTreeSet<String>> = before.held.map(|held| held.into_iter().collect());
        let goes = |key: &&String| match (&before.entry, &held) {
            (PathEntry::Absent, _) => is_below(key, std::slice::from_ref(&dir.path)),
            (_, Some(held)) => came_into(key, &dir.path, held),
            (_, None) => false,
        };
        let keys: Vec<String> = self.host(host)?.state.keys().filter(goes).cloned().collect();
        keys.iter().try_for_each(|key| self.remove(host, key))
    }

    /// On its host an op of the cluster has only images, which the runtime removes.
    fn restore_images(&mut self, host: &str, images: &Keys) -> Result<(), String> {
        let gone = images.iter().any(|(key, was)| was.is_none() && self.has(host, key));
        if gone && !self.host(host)?.runs_containers() {
            return Err("an image cannot be removed: no container runtime runs".to_owned());
        }
        self.restore_keys(host, images)
    }

    fn restore_keys(&mut self, host: &str, keys: &Keys) -> Result<(), String> {
        for (key, was) in keys {
            match was {
                Some(was) => self.restore_key(host, key, was),
                None => self.refuse_unit_file(host, key).and_then(|()| self.remove(host, key))?,
            }
        }
        Ok(())
    }

    fn refuse_unit_file(&self, host: &str, key: &str) -> Result<(), String> {
        let here = self.host(host)?;
        let name = key.strip_prefix("path:").and_then(|path| path.rsplit('/').next());
        match name.filter(|name| here.runs(name)) {
            Some(name) => Err(format!("{key} is the file of {name}, which runs")),
            None => Ok(()),
        }
    }

    /// Stops a unit that did not run before; one that did is restarted when its files are restored.
    fn stop_unit(&mut self, host: &str, unit: &str, keys: &Keys) -> Result<(), String> {
        let ran =
            keys.get(&format!("unit:{unit}")).and_then(Option::as_ref).is_some_and(|was| was.ends_with("running"));
        if ran {
            return Ok(());
        }
        for (key, was) in keys.iter().filter(|(key, _)| key.starts_with("loaded:") || key.starts_with("unit:")) {
            match was {
                Some(was) => self.restore_key(host, key, was),
                None => self.remove(host, key)?,
            }
        }
        Ok(())
    }

    /// A static pod reads the restored files. One without an earlier entry is removed; one whose manifest is gone runs no
    /// more.
    fn restart_pod(&mut self, host: &str, pod: &str, keys: &Keys) -> Result<(), String> {
        if !self.has(host, ADMIN_CONF) && !self.has(host, &format!("path:/etc/kubernetes/manifests/{pod}.yaml")) {
            return keys.keys().try_for_each(|key| self.remove(host, key));
        }
        for (key, was) in keys {
            let path = key.rsplit_once(':').map(|(_, path)| format!("path:{path}")).unwrap_or_default();
            match (was, self.host(host)?.state.get(&path).cloned()) {
                (None, _) => self.remove(host, key)?,
                (Some(_), Some(now)) => self.restore_key(host, key, &now),
                (Some(_), None) => return Err(format!("a static pod would start without {path}")),
            }
        }
        Ok(())
    }

    fn start_unit(&mut self, host: &str, unit: &str, keys: &Keys) -> Result<(), String> {
        let key = format!("unit:{unit}");
        let Some(was) = keys.get(&key).and_then(Option::as_ref).filter(|was| was.ends_with("running")) else {
            return Ok(());
        };
        let own = format!("/{unit}");
        let here = self.host(host)?;
        let file = || here.state.keys().any(|key| key.starts_with("path:") && key.ends_with(&own));
        if here.brings(unit).is_none() && !file() {
            return Err(format!("{unit} cannot run again: it has no file"));
        }
        self.restore_key(host, &key, was);
        let prefix = format!("loaded:{unit}:");
        for (key, was) in keys.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            let path = key.trim_start_matches(&prefix);
            let here = self.host(host)?;
            let now = here.state.get(&here.key_of(path)).cloned();
            match (was, now) {
                (None, _) => self.remove(host, key)?,
                (Some(_), Some(now)) => self.restore_key(host, key, &now),
                (Some(_), None) => return Err(format!("{unit} would run again without {path}")),
            }
        }
        if unit == KUBELET_UNIT {
            self.kubelet_restarted(host)?;
            self.kubelet_starts(host);
        }
        Ok(())
    }
}
