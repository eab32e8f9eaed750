//! Observes ops on a simulated host: compares the desired keys and values of an op with the current ones.
//!
//! They follow from the op's data ([`kubexm_plan::OpKind::resource_changes`]), except for units, whose state depends on the host's;
//! acts; folders that a service fills, and their earlier content; and the parts of a reset.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubexm_plan::op::{StateDir, StaticPodStarted, Unit};
use kubexm_plan::{Op, PathEntry, PathState, Plan, ledger};
use kubexm_spec::Digest;

use super::keys::{Key, Want, held, is_below, key};
use super::names::READ;
use super::world::World;
use crate::link::{ObservedState, SlotValues};

impl World {
    pub(super) fn observe(
        &self,
        host: &str,
        op: &Op,
        plan: &Plan,
        slots: &SlotValues,
    ) -> Result<ObservedState, String> {
        match op {
            Op::Reset(reset) => return self.observe_reset(host, reset),
            Op::StateDir(dir) => return self.observe_folder(host, dir),
            Op::MoveAside(aside) => return self.observe_aside(host, aside),
            _ => {}
        }
        let want = self.want(host, op, plan, slots)?;
        let here = &self.host(host)?.state;
        let look =
            |want: &BTreeMap<String, String>, state: &BTreeMap<String, String>| -> BTreeMap<String, Option<String>> {
                want.keys().map(|key| (key.clone(), state.get(key).cloned())).collect()
            };
        let holds = |want: &BTreeMap<String, String>, state: &BTreeMap<String, String>| {
            want.iter().all(|(key, value)| state.get(key) == Some(value))
        };
        let satisfied = holds(&want.host, here) && holds(&want.cluster, &self.cluster);
        let satisfied = match op {
            // A unit without an entry neither runs nor starts.
            Op::Unit(Unit { name, enabled: false, running: Some(false), .. }) => {
                satisfied || !here.contains_key(&format!("unit:{name}"))
            }
            Op::Link(link) => satisfied || self.host(host)?.leads_to(&link.path, &link.accepted),
            Op::Act(act) => self.act_holds(act, satisfied),
            _ => satisfied,
        };
        let state =
            serde_json::json!({ "host": look(&want.host, here), "cluster": look(&want.cluster, &self.cluster) });
        Ok(ObservedState::opaque(&state, satisfied))
    }

    /// The earlier content of a service's folder tells a reset what to keep; it is listed as on a real host.
    fn observe_folder(&self, host: &str, dir: &StateDir) -> Result<ObservedState, String> {
        let here = &self.host(host)?.state;
        let there = here.keys().any(|key| is_below(key, std::slice::from_ref(&dir.path)));
        let entry = if there { PathEntry::Directory { mode: 0o755 } } else { PathEntry::Absent };
        // A folder that a service of kubexm has already filled is not listed: nothing in it is removed.
        let is_it = |op: &Op| matches!(op, Op::StateDir(other) if other == dir);
        let ours = ledger::any_not_rolled_back(self.host(host)?.ledger.iter().map(Arc::as_ref), is_it);
        let held = (there && !ours).then(|| held(here, &dir.path).into_iter().collect());
        let place = PathState { path: dir.path.clone(), entry, missing: Vec::new(), held };
        ObservedState::new::<StateDir>(&place, true).map_err(|error| error.to_string())
    }

    pub(super) fn want(&self, host: &str, op: &Op, plan: &Plan, slots: &SlotValues) -> Result<Want, String> {
        let needs = op.needs();
        if let Some(missing) = needs.text.filter(|digest| !plan.texts.contains_key(digest)) {
            return Err(format!("the plan has no text {missing}"));
        }
        let mut want = Want::default();
        for change in op.resource_changes() {
            let (Some(key), Some(mut value)) = (key(&change.resource), change.value) else { continue };
            for slot in needs.slots {
                let content = match slots.get(slot) {
                    Some(value) => Digest::of(value).to_string(),
                    // What a host makes later is not what is there.
                    None if plan.slots.get(slot).is_some_and(|provider| provider.made_on().is_some()) => String::new(),
                    None => return Err(format!("slot {} was not given to the step", slot.0)),
                };
                value = value.replace(&slot.placeholder(), &content);
            }
            match key {
                Key::Host(key) => want.host.insert(key, value),
                Key::Cluster(key) => want.cluster.insert(key, value),
            };
        }
        match op {
            Op::Unit(unit) => want.host.extend(self.want_unit(host, unit)?),
            Op::StaticPodStarted(pod) => want.host.extend(self.want_pod(host, pod)?),
            Op::Act(act) => Self::want_act(host, act, &mut want),
            _ => {}
        }
        Ok(want)
    }

    /// Desired: the static pod has read the current content of its files.
    pub(super) fn want_pod(&self, host: &str, pod: &StaticPodStarted) -> Result<Vec<(String, String)>, String> {
        let here = self.host(host)?;
        let now = |path: &String| here.state.get(&format!("path:{path}")).map_or("missing", String::as_str).to_owned();
        Ok(pod.files().map(|path| (format!("{READ}{}:{path}", pod.pod), now(path))).collect())
    }

    fn want_unit(&self, host: &str, unit: &Unit) -> Result<Vec<(String, String)>, String> {
        let here = self.host(host)?;
        let runs = unit.running.unwrap_or_else(|| here.runs(&unit.name));
        let words = match (unit.enabled, runs) {
            (true, true) => "enabled running",
            (true, false) => "enabled stopped",
            (false, true) => "disabled running",
            (false, false) => "disabled stopped",
        };
        let mut want = vec![(format!("unit:{}", unit.name), words.to_owned())];
        if unit.running == Some(true) {
            for path in unit.files() {
                // A missing path cannot have been loaded; starting the unit is refused.
                let now = here.state.get(&here.key_of(path)).map_or("missing", String::as_str);
                want.push((format!("loaded:{}:{path}", unit.name), now.to_owned()));
            }
        }
        Ok(want)
    }
}
