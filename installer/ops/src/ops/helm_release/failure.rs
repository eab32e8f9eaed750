//! An install or upgrade that failed: what it has left is read, then it is undone, and the error has both.

use kubexm_charts::objects::Identity;
use kubexm_charts::stored::{Hook, Revision};
use kubexm_plan::op::HelmRelease;
use serde_json::Value;

use super::{look, undo};
use crate::kube::{kubectl, removal, waiting};
use crate::{Machine, OpError};

pub(super) struct Failed<'a> {
    pub op: &'a HelmRelease,
    /// helm's output, or why what it installed may not stay.
    pub said: &'a str,
    /// The revisions before.
    pub before: &'a [Revision],
    /// Whether the namespace existed.
    pub namespace: bool,
    /// Definitions that did not exist.
    pub crds: &'a [Identity],
}

impl Failed<'_> {
    /// Undoes it, and returns the error.
    pub(super) fn undone(&self, machine: &Machine) -> OpError {
        let HelmRelease { name, namespace, .. } = self.op;
        let mut text = format!("helm could not install release {namespace}/{name}: {}", self.said);
        let hooks = self.hooks(machine);
        for line in self.of_hooks(machine, &hooks).into_iter().chain(waiting::not_ready(machine, namespace)) {
            text.push('\n');
            text.push_str(&line);
        }
        let (result, done) = self.undo(machine, hooks);
        text.push('\n');
        match result {
            Ok(()) => text.push_str(&done),
            Err(error) => text.push_str(&format!("and it could not be undone: {}", error.full())),
        }
        // Logs of pods may have what the values have.
        OpError::other(machine.without_slots(text))
    }

    /// Hooks of the attempt that did not succeed.
    fn hooks(&self, machine: &Machine) -> Vec<Hook> {
        let Ok(history) = look::history(machine, self.op) else { return Vec::new() };
        let known = self.before.last().map_or(0, Revision::number);
        let attempt = history.last().filter(|last| last.number() > known);
        let hooks = attempt.and_then(|attempt| undo::hooks(attempt).ok()).unwrap_or_default();
        hooks.into_iter().filter(|hook| !matches!(hook.phase.as_str(), "" | "Succeeded")).collect()
    }

    fn of_hooks(&self, machine: &Machine, hooks: &[Hook]) -> Vec<String> {
        let of = |hook: &Hook| {
            let identity = Identity::of(&hook.object);
            let kind = match identity.kind.as_str() {
                kind @ ("Job" | "Pod") => kind.to_lowercase(),
                _ => return Some(format!("the hook {identity} failed")),
            };
            let namespace = if identity.namespace.is_empty() { &self.op.namespace } else { &identity.namespace };
            let args = [
                "logs",
                "--all-containers",
                "--tail=20",
                "--namespace",
                namespace,
                &format!("{kind}/{}", identity.name),
            ];
            let log = machine.try_run(&kubectl(args).may_be_cut_off()).map(|output| output.tail());
            Some(match log {
                Ok(log) if !log.is_empty() => format!("the hook {identity} failed; its log ends with:\n{log}"),
                _ => format!("the hook {identity} failed, and has no log"),
            })
        };
        hooks.iter().filter_map(of).collect()
    }

    /// The revision before, or nothing at all.
    fn undo(&self, machine: &Machine, hooks: Vec<Hook>) -> (Result<(), OpError>, String) {
        let Some(deployed) = undo::last_good(self.before) else {
            let left = match undo::uninstall(machine, self.op, self.namespace, self.crds) {
                Ok(left) => left,
                Err(error) => return (Err(error), String::new()),
            };
            let names: Vec<String> = left.iter().map(ToString::to_string).collect();
            let but = if names.is_empty() { String::new() } else { format!(" but its volumes: {}", names.join(", ")) };
            return (Ok(()), format!("nothing of it was left{but}"));
        };
        let number = deployed.number();
        let objects: Vec<Value> = hooks.into_iter().map(|hook| hook.object).collect();
        let result = undo::roll_back(machine, self.op, number)
            .and_then(|()| removal::delete(machine, &self.op.namespace, objects))
            .and_then(|()| removal::remove_unused(machine, self.crds));
        (result, format!("revision {number} was restored"))
    }
}
