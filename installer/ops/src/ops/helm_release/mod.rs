//! A chart of the bundle as a release of helm. helm itself does the work; its releases are what `helm list` shows.
//!
//! Before anything is applied, the chart is rendered with the real values and the cluster's own APIs: an image that the bundle
//! does not have is refused by name. An install or upgrade that fails is undone here, and not by `--atomic`: helm would remove
//! the failed hook before anybody has read its log, and would leave the hook's objects.
//!
//! Removing a release never removes what holds data or objects of others, see [`kept`].

pub(in crate::ops) mod drift;
mod failure;
mod helm;
mod kept;
mod look;
pub(in crate::ops) mod removal;
mod render;
mod undo;

use std::time::Instant;

use kubexm_charts::stored::{self, Revision};
use kubexm_plan::op::{FoundRelease, HelmRelease, ReleaseInput, Released};
use kubexm_spec::{Digest, rendering};
use serde_json::{Map, Value};

use crate::{Converge, Machine, OpError, Wave, kube};

impl Converge for HelmRelease {
    fn observe(&self, machine: &Machine) -> Result<Released, OpError> {
        if !kube::has_admin_conf(machine) {
            return Ok(Released::Unknown);
        }
        // While the API server is down nothing is known; the change itself reports errors.
        let Ok(history) = look::history(machine, self) else { return Ok(Released::Unknown) };
        let Some(last) = history.last() else {
            return Ok(Released::Absent { namespace: look::has_namespace(machine, &self.namespace)? });
        };
        let mut found = look::found(last)?;
        // Asking the API server for every object takes longest: only if nothing else has to be changed.
        if self.satisfied(&Released::There(found.clone()), machine) {
            found.drifted = drift::of(machine, self, last)?;
        }
        Ok(Released::There(found))
    }

    fn satisfied(&self, found: &Released, machine: &Machine) -> bool {
        let Released::There(found) = found else { return false };
        // A slot that is only filled if a step needs its value.
        let Ok(input) = input(self, machine) else { return false };
        found.is_deployed()
            && found.blob.as_deref() == Some(&*helm::label(&self.chart))
            && found.values == digest(&input.values)
            && found.drifted.is_empty()
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let input = input(self, machine)?;
        let history = look::history(machine, self)?;
        refuse_foreign(self, history.last())?;
        let namespace = look::has_namespace(machine, &self.namespace)?;
        let history = undo::unfinished(machine, self, history, namespace)?;
        let rendered = render::checked(machine, self, &input, !history.is_empty())?;
        let crds = kept::absent_crds(machine, &rendered)?;
        kept::protect(machine, self, history.last())?;
        let drifted = history.last().map(|last| drift::of(machine, self, last)).transpose()?.unwrap_or_default();
        let output = machine.try_run(&helm::upgrade(machine, self, &input.values))?;
        let wrong = match output.code {
            0 => render::refused(machine, self, &input)?,
            _ => Some(output.tail()),
        };
        if let Some(said) = wrong {
            let failed = failure::Failed { op: self, said: &said, before: &history, namespace, crds: &crds };
            return Err(failed.undone(machine));
        }
        drift::settle(machine, self, &drifted)
    }

    fn restore(&self, machine: &Machine, before: &Released, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Stop || !kube::has_control_plane(machine) {
            return Ok(());
        }
        match before {
            Released::Unknown => Ok(()),
            Released::Absent { namespace } => {
                let history = look::history(machine, self)?;
                let is_ours = history.last().is_some_and(|last| !last.label(helm::LABEL).is_empty());
                if is_ours { undo::uninstall(machine, self, *namespace, &[]).map(drop) } else { Ok(()) }
            }
            Released::There(found) => undo::to_revision(machine, self, found),
        }
    }
}

/// The state of a revision, without what has drifted.
pub(crate) fn found(last: &Revision) -> Result<FoundRelease, OpError> {
    look::found(last)
}

/// Its objects that are missing, or are not as they were rendered. `end`: then it is given up.
pub(crate) fn drifted(
    machine: &Machine,
    op: &HelmRelease,
    last: &Revision,
    end: Instant,
) -> Result<Vec<String>, OpError> {
    drift::until(machine, op, last, end)
}

/// Its objects, with hooks, as they were rendered.
pub(crate) fn rendered(last: &Revision) -> Result<Vec<Value>, OpError> {
    let mut objects = look::objects(&look::read(last)?)?;
    objects.extend(undo::hooks(last)?.into_iter().map(|hook| hook.object));
    Ok(objects)
}

/// What helm is given, with the values of slots.
fn input(op: &HelmRelease, machine: &Machine) -> Result<ReleaseInput, OpError> {
    let text = machine.text(&op.input)?;
    let mut input: ReleaseInput = serde_json::from_str(text).map_err(|error| {
        OpError::other(format!("text {} cannot be read: {error}; this is a fault of the plan", op.input))
    })?;
    if !op.slots.is_empty() {
        fill(&mut input.values, machine, op)?;
    }
    Ok(input)
}

/// Replaces placeholders in strings after the text was parsed, so that no value can break out of its field.
fn fill(values: &mut Map<String, Value>, machine: &Machine, op: &HelmRelease) -> Result<(), OpError> {
    values.values_mut().try_for_each(|value| fill_value(value, machine, op))
}

fn fill_value(value: &mut Value, machine: &Machine, op: &HelmRelease) -> Result<(), OpError> {
    match value {
        Value::Object(values) => fill(values, machine, op),
        Value::Array(all) => all.iter_mut().try_for_each(|value| fill_value(value, machine, op)),
        Value::String(text) => {
            *text = machine.filled_text(text, &op.input, &op.slots)?;
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn digest(values: &Map<String, Value>) -> Digest {
    rendering::digest(&stored::comparable(values))
}

fn refuse_foreign(op: &HelmRelease, last: Option<&Revision>) -> Result<(), OpError> {
    let Some(last) = last.filter(|last| last.label(helm::LABEL).is_empty()) else { return Ok(()) };
    let HelmRelease { name, namespace, .. } = op;
    Err(OpError::other(format!(
        "the release {name} in namespace {namespace} was not installed by kubexm (chart {}, revision {}, {}) and is left as it is; \
         give the add-on another name or namespace in cluster.yaml, or remove the release: helm uninstall {name} --namespace {namespace}",
        look::found(last)?.chart,
        last.number(),
        last.status(),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for HelmRelease {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("a release of a chart", |h| {
            h.with_cluster();
            h.put("/usr/local/bin/helm", "#!/bin/true\n");
            let input = h.text(r#"{"values": {"a": 1}, "images": []}"#);
            let (name, namespace, chart) = ("web".to_owned(), "apps".to_owned(), h.blob("a chart"));
            HelmRelease { name, namespace, chart, input, slots: Vec::new(), wait_s: 10 }
        })]);
    }
}
