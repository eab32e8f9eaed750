//! Whose node this is: `/var/lib/kubexm/stamp.json`.

use kubexm_plan::facts;
use kubexm_plan::op::{Stamp, Stamped};

use crate::fsio::{self, Access};
use crate::place::{Look, Place, PutBack};
use crate::{Converge, Machine, OpError, Wave, paths};

/// Reads the stamp of a machine. One that cannot be read is an error: it says whose node this is, and nobody may take the
/// node for their own on the word of a damaged file.
pub(crate) fn read(machine: &Machine) -> Result<Option<facts::Stamp>, OpError> {
    let Some(bytes) = fsio::read(&machine.path(paths::STAMP))? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        OpError::other(format!(
            "{} says which cluster this node belongs to, and cannot be read: {error}; if a newer kubexm-install wrote it, \
             use that version; if it is damaged, write it anew as {{\"cluster\": \"NAME\", \"run\": \"\"}} with the name of the \
             cluster, or remove it when this node belongs to none",
            paths::STAMP
        ))
    })
}

impl Converge for Stamp {
    fn observe(&self, machine: &Machine) -> Result<Stamped, OpError> {
        let place = Place::look(machine, paths::STAMP)?;
        let (cluster, bundle) = read(machine)?.map(|stamp| (stamp.cluster, stamp.bundle)).unzip();
        Ok(Stamped { place, cluster, bundle: bundle.flatten() })
    }

    /// The run that wrote it does not matter: a second run changes nothing. A plan that says nothing of the bundle was made by a
    /// program that did not remember it, and takes nothing from what is remembered.
    fn satisfied(&self, found: &Stamped, _: &Machine) -> bool {
        found.cluster.as_deref() == Some(&self.cluster) && (self.bundle.is_none() || found.bundle == self.bundle)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![paths::STAMP.to_owned()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let run = machine.act().map(|act| act.run.clone()).unwrap_or_default();
        let stamp = facts::Stamp { cluster: self.cluster.clone(), run, bundle: self.bundle.clone() };
        let mut text = serde_json::to_vec_pretty(&stamp)
            .map_err(|error| OpError::other(format!("the stamp cannot be written as JSON: {error}")))?;
        text.push(b'\n');
        machine.write_file(paths::STAMP, &text, Access::mode(0o600))
    }

    fn restore(&self, machine: &Machine, before: &Stamped, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.place.restore(machine) } else { Ok(()) }
    }
}
