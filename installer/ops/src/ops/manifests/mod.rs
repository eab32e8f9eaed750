//! Objects of an add-on, as they are in a file of the bundle: server-side apply as field manager `kubexm`.
//!
//! What was applied is recorded in the cluster ([`inventory`]), so that the next version of the add-on can remove what it no
//! longer has. The record is written before anything is applied, with everything of both versions, and afterwards with that of the
//! new one: an interrupted run loses none of them.

mod apply;
pub(crate) mod inventory;
mod look;
mod ready;

use std::time::Instant;

use kubexm_charts::objects::{Identity, list};
use kubexm_plan::op::{FoundManifests, Inventory, Manifests};
use kubexm_spec::Digest;
use serde_json::Value;

use crate::kube::objects::printed;
use crate::kube::{self, apis, removal};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for Manifests {
    fn observe(&self, machine: &Machine) -> Result<FoundManifests, OpError> {
        if !kube::has_admin_conf(machine) {
            return Ok(FoundManifests::Unknown);
        }
        // While the API server is down nothing is known; the change itself reports errors.
        let Ok(inventory) = inventory::read(machine, self) else { return Ok(FoundManifests::Unknown) };
        // A slot that is only filled if a step needs its value: the objects can be read, and not compared.
        let (found, comparable) = match look::filled(machine, self) {
            Ok(filled) => (filled, true),
            Err(_) => (look::wanted(machine, self)?, false),
        };
        let Some(objects) = found else { return Ok(FoundManifests::Unknown) };
        if self.is_removal() && inventory.is_none() {
            return Ok(FoundManifests::Same);
        }
        let current =
            |inventory: &Inventory| inventory.blob == Some(self.blob) && inventory.namespace == self.namespace;
        if comparable && inventory.as_ref().is_some_and(current) && look::is_same(machine, self, &objects)? {
            return Ok(FoundManifests::Same);
        }
        look::before(machine, self, &objects, inventory)
    }

    fn satisfied(&self, found: &FoundManifests, _: &Machine) -> bool {
        *found == FoundManifests::Same
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let objects = look::filled(machine, self)?.ok_or_else(|| {
            let name = &self.name;
            OpError::other(format!(
                "the file of add-on {name} is not in the node's store; it is sent when you run again"
            ))
        })?;
        let earlier = inventory::read(machine, self)?.unwrap_or_default();
        if self.is_removal() {
            let secrets = look::secrets(machine, self, &objects, &earlier)?;
            machine.ledger().keep_bytes(list(&secrets).as_bytes())?;
            let mut gone = inventory::without(&earlier, &inventory::of_others(machine, self)?);
            // Whose a namespace is, nobody knows any more: it stays.
            gone.retain(|object| object["kind"] != "Namespace");
            remove(machine, self, gone)?;
            return inventory::remove(machine, self);
        }
        let secrets = look::secrets(machine, self, &objects, &earlier)?;
        if !secrets.is_empty() {
            machine.ledger().keep_bytes(list(&secrets).as_bytes())?;
        }
        apply::definitions(machine, self, &objects)?;
        // Only now every kind is served.
        let wanted = inventory::of(self, &objects, &apis::served(machine)?);
        inventory::write(machine, self, &inventory::both(&wanted, &earlier))?;
        apply::rest(machine, self, &objects)?;
        ready::wait(machine, self, &objects)?;
        let mut gone = inventory::without(&earlier, &wanted.objects);
        if !gone.is_empty() {
            let others = inventory::of_others(machine, self)?;
            gone = inventory::without(&Inventory { objects: gone, ..earlier }, &others);
        }
        remove(machine, self, gone)?;
        inventory::write(machine, self, &wanted)
    }

    /// Applies what was there as the same field manager, which removes the fields that kubexm has added; and deletes the rest,
    /// but what holds data or objects of others.
    fn restore(&self, machine: &Machine, before: &FoundManifests, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Stop || !kube::has_control_plane(machine) {
            return Ok(());
        }
        match before {
            FoundManifests::Unknown | FoundManifests::Same => Ok(()),
            FoundManifests::Absent { namespace } => {
                let now = inventory::read(machine, self)?.unwrap_or_default();
                remove(machine, self, now.objects)?;
                inventory::remove(machine, self)?;
                if *namespace { Ok(()) } else { removal::remove_unused_namespace(machine, &self.namespace) }
            }
            FoundManifests::Other { objects, secrets, inventory } => {
                let secrets = secrets.map(|digest| kept(machine, &digest)).transpose()?.unwrap_or_default();
                let had: Vec<Value> = objects.iter().chain(&secrets).cloned().collect();
                apply::definitions(machine, self, &had)?;
                apply::rest(machine, self, &had)?;
                let now = inventory::read(machine, self)?.unwrap_or_default();
                let stay: Vec<Value> =
                    had.iter().chain(inventory.iter().flat_map(|all| &all.objects)).cloned().collect();
                remove(machine, self, inventory::without(&now, &stay))?;
                match inventory {
                    Some(inventory) => inventory::write(machine, self, inventory),
                    None => inventory::remove(machine, self),
                }
            }
        }
    }
}

/// The objects of the add-on's file; none if the node's store does not have it.
pub(crate) fn file(machine: &Machine, op: &Manifests) -> Result<Option<Vec<Value>>, OpError> {
    look::wanted(machine, op)
}

/// Names of the objects that are missing, or that an apply would change.
pub(crate) fn differing(
    machine: &Machine,
    op: &Manifests,
    objects: &[Value],
    end: Instant,
) -> Result<Vec<String>, OpError> {
    look::differing(machine, op, objects, end)
}

/// Names of the recorded objects that are missing.
pub(crate) fn missing(machine: &Machine, inventory: &Inventory) -> Result<Vec<String>, OpError> {
    look::missing(machine, inventory)
}

/// Deletes objects; of what holds data or objects of others only what nobody uses.
fn remove(machine: &Machine, op: &Manifests, objects: Vec<Value>) -> Result<(), OpError> {
    let kept: Vec<Identity> = objects.iter().map(Identity::of).filter(Identity::is_kept).collect();
    removal::delete(machine, &op.namespace, objects)?;
    removal::remove_unused(machine, &kept)
}

/// Secrets that an apply has found, from the node's ledger. Only an apply keeps them there: if none was reached, the cluster has
/// them still.
fn kept(machine: &Machine, digest: &Digest) -> Result<Vec<Value>, OpError> {
    let Ok(content) = machine.ledger().content(digest) else { return Ok(Vec::new()) };
    printed(&content).map_err(|error| OpError::other(format!("the Secrets kept as {digest} are no JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for Manifests {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("objects of an add-on", |h| {
            h.with_cluster();
            let blob = h.blob("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n");
            Manifests {
                name: "site".into(),
                namespace: "apps".into(),
                blob,
                in_plan: false,
                slots: Vec::new(),
                wait_s: 10,
            }
        })]);
    }
}
