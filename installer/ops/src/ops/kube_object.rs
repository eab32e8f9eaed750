//! Kubernetes objects applied with the admin kubeconfig: server-side apply as field manager `kubexm`.
//!
//! Whether they hold is asked of the API server (`kubectl diff --server-side`: a dry run of the same apply, exit code 1
//! when anything would change), so that a change made by hand is seen, and fields of others are left alone.

use std::collections::BTreeSet;

use kubexm_plan::op::{Applied, KubeObject};
use serde_json::{Value, json};

use crate::kube::{self, kubectl};
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave};

const FORCE: [&str; 3] = ["--server-side", "--force-conflicts", "--field-manager=kubexm"];
/// What the API server sets by itself in the metadata of every object; an apply with it is refused or says nothing.
const SET_BY_THE_SERVER: [&str; 6] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];

impl Converge for KubeObject {
    fn observe(&self, machine: &Machine) -> Result<Applied, OpError> {
        if !kube::has_admin_conf(machine) {
            return Ok(Applied::Unknown);
        }
        let diff = machine.try_run(&on(["diff"], FORCE, machine.text(&self.text)?))?;
        match diff.code {
            0 => Ok(Applied::Same),
            1 => {
                let objects = self.there(machine)?;
                if objects.is_empty() {
                    return Ok(Applied::Absent);
                }
                // States are journalled.
                let objects = objects.into_iter().filter(|object| !is_secret(object)).map(own).collect();
                Ok(Applied::Other { objects })
            }
            // A kind whose definition is among the texts cannot be compared yet, and neither can anything while the
            // API server is away: the apply will tell.
            _ => Ok(Applied::Unknown),
        }
    }

    fn satisfied(&self, found: &Applied, _: &Machine) -> bool {
        *found == Applied::Same
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        machine.run(&on(["apply"], FORCE, machine.text(&self.text)?)).map(drop)
    }

    /// An apply of what was there, as the same field manager: it takes out the fields that ours had brought.
    ///
    /// What is not known to have been otherwise stays: an error here would hold up what comes after it on every host.
    fn restore(&self, machine: &Machine, before: &Applied, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Stop || !kube::has_control_plane(machine) {
            return Ok(());
        }
        match before {
            Applied::Same | Applied::Unknown | Applied::Different => Ok(()),
            Applied::Absent => {
                let text = machine.text(&self.text)?;
                machine.run(&on(["delete"], ["--ignore-not-found", "--wait=false"], text)).map(drop)
            }
            Applied::Other { objects } => {
                if !objects.is_empty() {
                    machine.run(&on(["apply"], FORCE, &list(objects)))?;
                }
                let had: BTreeSet<String> = objects.iter().map(name).collect();
                let mut new = self.there(machine)?;
                new.retain(|object| !is_secret(object) && !had.contains(&name(object)));
                if new.is_empty() {
                    return Ok(());
                }
                machine.run(&on(["delete"], ["--ignore-not-found", "--wait=false"], &list(&new))).map(drop)
            }
        }
    }
}

trait There {
    fn there(&self, machine: &Machine) -> Result<Vec<Value>, OpError>;
}

impl There for KubeObject {
    /// Those of the objects that the cluster has, as it has them.
    fn there(&self, machine: &Machine) -> Result<Vec<Value>, OpError> {
        let program = on(["get"], ["--ignore-not-found", "--output=json"], machine.text(&self.text)?);
        let output = machine.run(&program)?;
        if output.stdout.iter().all(u8::is_ascii_whitespace) {
            return Ok(Vec::new());
        }
        let mut answer: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| OpError::other(format!("`{program}` did not return JSON: {error}")))?;
        // One object comes alone, several in a list.
        Ok(match answer.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => vec![answer],
        })
    }
}

/// What an apply may say of an object: nothing that the API server sets.
fn own(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, _| !SET_BY_THE_SERVER.contains(&key.as_str()));
        }
    }
    object
}

fn is_secret(object: &Value) -> bool {
    object.get("kind").is_some_and(|kind| kind == "Secret")
}

/// Group, kind, namespace and name. The version may be another one when it is asked again.
fn name(object: &Value) -> String {
    let field = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let group = field("/apiVersion").split_once('/').map_or("", |(group, _)| group);
    [group, field("/kind"), field("/metadata/namespace"), field("/metadata/name")].join("/")
}

fn list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

fn on<const N: usize>(verb: [&str; 1], options: [&str; N], text: &str) -> Program {
    kubectl(verb).args(options).args(["--filename", "-"]).stdin(text)
}
