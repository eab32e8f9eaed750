//! Kubernetes objects applied with the admin kubeconfig: server-side apply as field manager `kubexm`.
//!
//! The API server decides whether they are satisfied (`kubectl diff --server-side`: a dry run of the same apply, exit
//! code 1 if anything would change), so that manual changes are detected, and fields of others are left alone.
//!
//! The content of a Secret is in no state, since states are journalled. Earlier Secrets are kept in the node's ledger,
//! like the old content of files.

use std::borrow::Cow;
use std::collections::BTreeSet;

use kubexm_charts::objects::list;
use kubexm_plan::op::{Applied, KubeObject};
use kubexm_spec::Digest;
use serde_json::Value;

use crate::kube;
use crate::kube::objects::{FORCE, is_secret, on, own, printed};
use crate::{Converge, Machine, OpError, Wave};

const GONE: [&str; 2] = ["--ignore-not-found", "--wait=false"];

impl Converge for KubeObject {
    fn observe(&self, machine: &Machine) -> Result<Applied, OpError> {
        if !kube::has_admin_conf(machine) {
            return Ok(Applied::Unknown);
        }
        // A slot that is only filled if a step needs its value: the objects can be read, and not compared.
        let Ok(text) = self.filled(machine) else { return Ok(self.before(machine).unwrap_or(Applied::Unknown)) };
        let diff = machine.try_run(&on("diff", FORCE, &text))?;
        match diff.code {
            0 => Ok(Applied::Same),
            1 => self.before(machine),
            // A kind whose definition is in the same text cannot be compared yet, and nothing can while the API server
            // is down: the apply reports errors.
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
        let text = self.filled(machine)?;
        if self.has_secrets(machine)? {
            let (_, secrets) = self.there(machine)?;
            if !secrets.is_empty() {
                machine.ledger().keep_bytes(list(&secrets).as_bytes())?;
            }
        }
        machine.run(&on("apply", FORCE, &text)).map(drop)
    }

    /// Applies the earlier objects as the same field manager, which removes the fields that kubexm has added.
    ///
    /// If the earlier state is unknown, the objects are left: an error here would block later steps on every host.
    fn restore(&self, machine: &Machine, before: &Applied, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Stop || !kube::has_control_plane(machine) {
            return Ok(());
        }
        match before {
            Applied::Same | Applied::Unknown | Applied::Different => Ok(()),
            Applied::Absent => {
                // Deleting only needs the objects' names, and no slot values.
                machine.run(&on("delete", GONE, machine.text(&self.text)?)).map(drop)
            }
            Applied::Other { objects, secrets } => {
                let kept = secrets.map(|digest| self.kept(machine, &digest)).transpose()?.unwrap_or_default();
                let had: Vec<Value> = objects.iter().cloned().chain(kept).collect();
                if !had.is_empty() {
                    machine.run(&on("apply", FORCE, &list(&had)))?;
                }
                let had: BTreeSet<String> = had.iter().map(name).collect();
                let (objects, secrets) = self.there(machine)?;
                let new = objects.into_iter().chain(secrets).filter(|object| !had.contains(&name(object)));
                let new: Vec<Value> = new.collect();
                if new.is_empty() {
                    return Ok(());
                }
                machine.run(&on("delete", GONE, &list(&new))).map(drop)
            }
        }
    }
}

trait Objects {
    fn before(&self, machine: &Machine) -> Result<Applied, OpError>;
    fn filled<'a>(&self, machine: &'a Machine) -> Result<Cow<'a, str>, OpError>;
    fn has_secrets(&self, machine: &Machine) -> Result<bool, OpError>;
    fn there(&self, machine: &Machine) -> Result<(Vec<Value>, Vec<Value>), OpError>;
    fn kept(&self, machine: &Machine, digest: &Digest) -> Result<Vec<Value>, OpError>;
}

impl Objects for KubeObject {
    /// The state that a rollback restores. Of the text only the identity of the objects is read, no values of slots.
    fn before(&self, machine: &Machine) -> Result<Applied, OpError> {
        let (objects, secrets) = self.there(machine)?;
        if objects.is_empty() && secrets.is_empty() {
            return Ok(Applied::Absent);
        }
        let secrets = (!secrets.is_empty()).then(|| Digest::of(list(&secrets)));
        Ok(Applied::Other { objects, secrets })
    }

    /// The documents with the values of the slots.
    fn filled<'a>(&self, machine: &'a Machine) -> Result<Cow<'a, str>, OpError> {
        if self.slots.is_empty() {
            return machine.text(&self.text).map(Cow::Borrowed);
        }
        machine.filled_in_base64(&self.text, &self.slots).map(Cow::Owned)
    }

    /// Whether the documents may contain Secrets, so that the cluster's Secrets have to be read.
    fn has_secrets(&self, machine: &Machine) -> Result<bool, OpError> {
        Ok(machine.text(&self.text)?.contains("Secret"))
    }

    /// The objects that exist, in the form in which they can be applied; Secrets separately.
    fn there(&self, machine: &Machine) -> Result<(Vec<Value>, Vec<Value>), OpError> {
        let program = on("get", ["--ignore-not-found", "--output=json"], machine.text(&self.text)?);
        let output = machine.run(&program)?;
        let objects = printed(&output.stdout)
            .map_err(|error| OpError::other(format!("`{program}` did not return JSON: {error}")))?;
        let (secrets, others) = objects.into_iter().map(own).partition(is_secret);
        Ok((others, secrets))
    }

    /// The Secrets as they were. Only an apply keeps them in the ledger: if none was reached, the cluster has them still.
    fn kept(&self, machine: &Machine, digest: &Digest) -> Result<Vec<Value>, OpError> {
        from_ledger(machine, digest).or_else(|error| {
            let (_, now) = self.there(machine)?;
            if Digest::of(list(&now)) == *digest { Ok(now) } else { Err(error) }
        })
    }
}

/// Secrets that an apply has found, from the node's ledger.
fn from_ledger(machine: &Machine, digest: &Digest) -> Result<Vec<Value>, OpError> {
    let unreadable = |error| OpError::other(format!("the Secrets kept as {digest} are no JSON: {error}"));
    let mut list: Value = serde_json::from_slice(&machine.ledger().content(digest)?).map_err(unreadable)?;
    match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(OpError::other(format!("what the node's ledger keeps as {digest} is no list of Secrets"))),
    }
}

/// Group, kind, namespace and name. The version may differ when it is read again.
fn name(object: &Value) -> String {
    let field = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let group = field("/apiVersion").split_once('/').map_or("", |(group, _)| group);
    [group, field("/kind"), field("/metadata/namespace"), field("/metadata/name")].join("/")
}
