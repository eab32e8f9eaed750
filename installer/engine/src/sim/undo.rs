//! How a simulated host is brought back, and what it refuses on the way.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::{Act, Op, Step, Undo, Wave};

use super::Failure;
use super::reset::{came_into, is_below};
use super::rules::{CONTAINERD, KUBELET_UNIT};
use super::world::World;
use crate::link::Found;

/// Keys with the values they had, none where there was nothing.
pub(super) type Keys = BTreeMap<String, Option<String>>;

/// The part of a state that is of the host or of the cluster.
pub(super) fn keys(found: &Found, part: &str) -> Result<Keys, String> {
    let keys = found.state.get(part).cloned().unwrap_or_else(|| serde_json::json!({}));
    serde_json::from_value(keys).map_err(|e| format!("a state before cannot be read: {e}"))
}

impl World {
    /// Takes a step back in one wave, with the failure that was asked for.
    pub(super) fn undo(&mut self, host: &str, step: &Step, before: &[Found], wave: Wave) -> Result<(), String> {
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

    fn undo_whole(&mut self, host: &str, step: &Step, before: &[Found], wave: Wave) -> Result<(), String> {
        if before.len() != step.ops.len() {
            return Err(format!("{} states for the {} ops of {}", before.len(), step.ops.len(), step.id));
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

    /// Brings back what one op had found.
    pub(super) fn restore(&mut self, host: &str, op: &Op, found: &Found, wave: Wave) -> Result<(), String> {
        if let Op::Reset(reset) = op {
            return self.restore_reset(host, reset, &found.state, wave);
        }
        if let Op::MoveAside(_) = op {
            return if wave == Wave::Data { self.restore_aside(host, &keys(found, "host")?) } else { Ok(()) };
        }
        let (here, cluster) = (keys(found, "host")?, keys(found, "cluster")?);
        match (op, wave) {
            (Op::Unit(unit), Wave::Stop) => self.stop_unit(host, &unit.name, &here),
            (Op::Unit(unit), Wave::Start) => self.start_unit(host, &unit.name, &here),
            (Op::Act(Act::KubeadmInit { .. } | Act::KubeadmJoin { .. }), Wave::Stop) => {
                let was_done = cluster.values().all(Option::is_some);
                if was_done { Ok(()) } else { self.reset(host) }
            }
            (Op::ImageLoaded(_), Wave::Stop) => {
                let gone = here.iter().any(|(key, was)| was.is_none() && self.has(host, key));
                if gone && !self.host(host)?.runs(CONTAINERD) {
                    return Err(format!("an image cannot be removed: {CONTAINERD} does not run"));
                }
                self.put_back(host, &here)
            }
            (Op::KubeObject(_) | Op::NodeUntainted(_) | Op::NodeLabel(_), Wave::Stop) => {
                // With the cluster they are gone, too.
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
            (Op::Unit(_) | Op::Act(_) | Op::ImageLoaded(_) | Op::KubeObject(_), _)
            | (Op::NodeUntainted(_) | Op::NodeLabel(_), _) => Ok(()),
            // What a service put there goes with the folder, when that was not there before.
            (Op::StateDir(dir), Wave::Data) if found.state.pointer("/entry/is").is_some_and(|is| is == "absent") => {
                let below = |key: &&String| is_below(key, std::slice::from_ref(&dir.path));
                let keys: Vec<String> = self.host(host)?.state.keys().filter(below).cloned().collect();
                keys.iter().try_for_each(|key| self.remove(host, key))
            }
            // Of one that was there what came goes; nothing of one whose content nobody listed.
            (Op::StateDir(dir), Wave::Data) => {
                let Some(held) = found.state.get("held") else { return Ok(()) };
                let held: BTreeSet<String> = serde_json::from_value(held.clone()).map_err(|e| e.to_string())?;
                let came = |key: &&String| came_into(key, &dir.path, &held);
                let keys: Vec<String> = self.host(host)?.state.keys().filter(came).cloned().collect();
                keys.iter().try_for_each(|key| self.remove(host, key))
            }
            (_, Wave::Data) => self.put_back(host, &here),
            (_, Wave::Stop | Wave::Start) => Ok(()),
        }
    }

    fn undo_act(&mut self, host: &str, act: &Act) -> Result<(), String> {
        match act {
            Act::KubeadmReset { .. } => self.reset(host),
            Act::NodeDelete { node } => {
                if self.cluster.contains_key("initialised") {
                    self.drop_node(node);
                }
                Ok(())
            }
            Act::KubeadmInit { .. } | Act::KubeadmJoin { .. } | Act::NodeAwaited { .. } => {
                Err("a join, an init or a look takes nothing back".to_owned())
            }
        }
    }

    fn put_back(&mut self, host: &str, keys: &Keys) -> Result<(), String> {
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

    /// A unit that did not run before stops; one that did goes on until its files are back.
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
            let now = self.host(host)?.state.get(&format!("path:{path}")).cloned();
            match (was, now) {
                (None, _) => self.remove(host, key)?,
                (Some(_), Some(now)) => self.restore_key(host, key, &now),
                (Some(_), None) => return Err(format!("{unit} would run again without {path}")),
            }
        }
        if unit == KUBELET_UNIT {
            self.kubelet_starts(host);
        }
        Ok(())
    }
}
