//! The parts of `reset` on a simulated host.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::runtime::{self, RuntimeTraits};
use kubexm_plan::{ObservedState, Op, Reset, Wave};
use serde_json::{Value, json};

use super::aside::{is_away, occupied};
use super::keys::{Keys, below, is_below, keys};
use super::names::{AGENT, KUBELET_UNIT, NETWORK, PODS, READ};
use super::world::World;

/// Prefix of the key of something that was set aside.
const ASIDE: &str = "aside:";

impl World {
    pub(super) fn observe_reset(&self, host: &str, reset: &Reset) -> Result<ObservedState, String> {
        let here = self.host(host)?;
        let left = |keys: Vec<&String>| {
            let there: BTreeMap<&String, Option<&String>> =
                keys.iter().map(|key| (*key, here.state.get(*key))).collect();
            ObservedState::opaque(&json!({ "host": there, "cluster": {} }), keys.is_empty())
        };
        Ok(match reset {
            Reset::PodsStopped => left(here.state.keys().filter(|key| *key == PODS).collect()),
            Reset::NetworkCleared => left(here.state.keys().filter(|key| *key == NETWORK).collect()),
            Reset::MoveStateAside { paths, spared, moved } => left(
                here.state.keys().filter(|key| goes(key, paths, spared) && !is_back(&here.state, key, moved)).collect(),
            ),
            Reset::Purge { .. } => {
                let mut found = left(here.state.keys().filter(|key| is_forgotten(key)).collect());
                found.satisfied &= here.ledger.is_empty();
                found
            }
            Reset::Reverted { ops, before } => {
                // Compared by the keys in the recorded states: texts and slots of the earlier plan are not available.
                let looks = ops.iter().zip(before).map(|(op, then)| self.as_it_is(host, op, then));
                let states = looks.collect::<Result<Vec<_>, _>>()?;
                let back = self.all_reverted(host, ops, before)?;
                ObservedState::opaque(&json!({ "states": states }), back)
            }
        })
    }

    fn as_it_is(&self, host: &str, op: &Op, then: &ObservedState) -> Result<ObservedState, String> {
        // The recorded state decides what happens to a service's folder and its earlier content.
        if matches!(op, Op::StateDir(_) | Op::MoveAside(_)) {
            let mut now = then.clone();
            now.satisfied = true;
            return Ok(now);
        }
        let here = &self.host(host)?.state;
        let now: Keys = keys(then, "host")?.into_keys().map(|key| (key.clone(), here.get(&key).cloned())).collect();
        Ok(ObservedState::opaque(&json!({ "host": now, "cluster": {} }), true))
    }

    /// Whether every key has the value that the oldest op (the last one) recorded.
    fn all_reverted(&self, host: &str, ops: &[Op], before: &[ObservedState]) -> Result<bool, String> {
        let here = &self.host(host)?.state;
        let mut then = Keys::new();
        for (op, found) in ops.iter().zip(before) {
            then.extend(keys(found, "host")?);
            if matches!(op, Op::MoveAside(_)) && occupied(found)?.iter().any(|path| is_away(here, path)) {
                return Ok(false);
            }
        }
        Ok(then.iter().all(|(key, was)| here.get(key) == was.as_ref()))
    }

    pub(super) fn converge_reset(&mut self, host: &str, reset: &Reset) -> Result<(), String> {
        if self.host(host)?.runs(KUBELET_UNIT) {
            return Err(format!("{KUBELET_UNIT} runs and would restart pods"));
        }
        let pods = !matches!(reset, Reset::PodsStopped) && self.has(host, PODS);
        match reset {
            _ if pods => Err("pods run, and use what is to be removed".to_owned()),
            Reset::PodsStopped => self.remove(host, PODS),
            Reset::NetworkCleared => self.remove(host, NETWORK),
            Reset::MoveStateAside { paths, spared, moved } => {
                let in_use =
                    |runtime: &&&RuntimeTraits| paths.iter().any(|path| runtime.state.contains(&path.as_str()));
                let host_now = self.host(host)?;
                if let Some(runtime) = runtime::ALL.iter().filter(in_use).find(|runtime| host_now.runs(runtime.unit)) {
                    return Err(format!("{} runs, and its folders are in use", runtime.unit));
                }
                let state = self.host(host)?.state.clone();
                let set_aside = |key: &str| goes(key, paths, spared) && !is_back(&state, key, moved);
                for (key, value) in self.matching(host, set_aside)? {
                    self.remove(host, &key)?;
                    self.restore_key(host, &format!("{ASIDE}{key}"), &value);
                }
                Ok(())
            }
            Reset::Reverted { ops, before } => {
                for wave in Wave::ALL {
                    for (op, then) in ops.iter().zip(before) {
                        self.restore(host, op, then, wave)?;
                    }
                }
                Ok(())
            }
            Reset::Purge { .. } => {
                for (key, _) in self.matching(host, is_forgotten)? {
                    self.remove(host, &key)?;
                }
                if let Some(here) = self.host_mut(host) {
                    here.ledger.clear();
                }
                // The cluster is gone with its last member.
                self.cluster.remove(&format!("member:{host}"));
                self.cluster.remove(&format!("joined:{host}"));
                self.drop_node(host);
                if self.members().next().is_none() {
                    self.cluster.clear();
                }
                Ok(())
            }
        }
    }

    pub(super) fn restore_reset(
        &mut self,
        host: &str,
        reset: &Reset,
        before: &Value,
        wave: Wave,
    ) -> Result<(), String> {
        match reset {
            Reset::MoveStateAside { .. } if wave == Wave::Data => {
                let found = ObservedState::opaque(before, false);
                for (key, was) in keys(&found, "host")? {
                    if let Some(was) = was {
                        self.remove(host, &format!("{ASIDE}{key}"))?;
                        self.restore_key(host, &key, &was);
                    }
                }
                Ok(())
            }
            Reset::Reverted { ops, .. } => {
                let states: Vec<ObservedState> =
                    serde_json::from_value(before["states"].clone()).map_err(|e| e.to_string())?;
                for (op, found) in ops.iter().zip(&states).rev() {
                    match op {
                        // Moved aside again.
                        Op::MoveAside(aside) if wave == Wave::Data => self.converge_aside(host, aside)?,
                        Op::MoveAside(_) => {}
                        op => self.restore(host, op, found, wave)?,
                    }
                }
                Ok(())
            }
            // Pods and rules are created again by their units.
            _ => Ok(()),
        }
    }

    fn matching(&self, host: &str, wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, String)>, String> {
        let state = &self.host(host)?.state;
        Ok(state.iter().filter(|(key, _)| wanted(key)).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

/// Whether a key is set aside: not if it existed before kubexm.
fn goes(key: &str, paths: &[String], spared: &BTreeMap<String, Vec<String>>) -> bool {
    paths.iter().any(|path| match (below(key, path), spared.get(path)) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(rest), Some(names)) => {
            let name = rest.split('/').next().unwrap_or_default();
            !name.is_empty() && !names.iter().any(|spared| spared == name)
        }
    })
}

/// Whether a key was moved aside before the cluster was created and has been moved back.
fn is_back(state: &BTreeMap<String, String>, key: &str, moved: &BTreeSet<String>) -> bool {
    moved.iter().any(|path| is_below(key, std::slice::from_ref(path)) && !is_away(state, path))
}

fn is_forgotten(key: &str) -> bool {
    key.starts_with(ASIDE)
        || key.starts_with(READ)
        || key.starts_with("blob:")
        || key.starts_with("script:")
        || key == "stamp"
        || key == AGENT
}
