//! The stamp of a node: `/var/lib/kubexm/stamp.json`.

use kubexm_plan::facts;
use kubexm_plan::op::{Stamp, Stamped};

use crate::fsio::{self, Access};
use crate::path_state::{Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave, paths};

/// Reads the stamp; none if it does not exist. An unreadable stamp is an error: it tells which cluster the node belongs
/// to, and a damaged one must not let another cluster take the node.
pub(crate) fn read(machine: &Machine) -> Result<Option<facts::Stamp>, OpError> {
    let Some(bytes) = fsio::read(&machine.path(paths::STAMP))? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        OpError::other(format!(
            "{} says which cluster this node belongs to, and cannot be read: {error}; if a newer kubexm-install wrote it, \
             use that version; if it is damaged, write it anew as {{\"cluster\": \"NAME\", \"run\": \"\"}} with the name of the \
             cluster, and with \"adopted\": true if that was adopted, or remove it when this node belongs to none",
            paths::STAMP
        ))
    })
}

impl Converge for Stamp {
    fn observe(&self, machine: &Machine) -> Result<Stamped, OpError> {
        let place = PathState::look(machine, paths::STAMP)?;
        let stamp = read(machine)?;
        Ok(Stamped {
            place,
            id: stamp.as_ref().and_then(|stamp| stamp.id),
            bundle: stamp.as_ref().and_then(|stamp| stamp.bundle.clone()),
            adopted: stamp.as_ref().is_some_and(|stamp| stamp.adopted),
            cluster: stamp.map(|stamp| stamp.cluster),
        })
    }

    /// The run that wrote it does not matter: a second run changes nothing. A plan without id or bundle was made by a
    /// version that did not record them, and removes nothing from the stamp.
    fn satisfied(&self, found: &Stamped, _: &Machine) -> bool {
        found.cluster.as_deref() == Some(&self.cluster)
            && (self.id.is_none() || found.id == self.id)
            && (self.bundle.is_none() || found.bundle == self.bundle)
            && found.adopted == self.adopted
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![paths::STAMP.to_owned()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let found = read(machine)?;
        let known = found.as_ref().filter(|stamp| stamp.cluster == self.cluster).and_then(|stamp| stamp.id);
        if let (Some(known), Some(own)) = (known, self.id)
            && known != own
        {
            return Err(OpError::other(format!(
                "this node belongs to another cluster of the name {:?}: its stamp has the id {known}, this plan's cluster the \
                 id {own}; `kubexm-install reset --only HOST` frees the node if nobody needs what is on it",
                self.cluster
            )));
        }
        if let Some(stamp) = found.filter(|stamp| stamp.cluster == self.cluster && stamp.adopted != self.adopted) {
            return Err(OpError::other(match stamp.adopted {
                true => format!(
                    "cluster {:?} was adopted: kubexm-install has not made it, and does not change it; `kubexm-install adopt --roll-back RUN` \
                     undoes the adoption",
                    self.cluster
                ),
                false => format!("kubexm-install has made cluster {:?} itself, so it cannot be adopted", self.cluster),
            }));
        }
        let run = machine.act().map(|act| act.run.clone()).unwrap_or_default();
        let id = self.id.or(known);
        let stamp =
            facts::Stamp { cluster: self.cluster.clone(), id, run, bundle: self.bundle.clone(), adopted: self.adopted };
        let mut text = serde_json::to_vec_pretty(&stamp)
            .map_err(|error| OpError::other(format!("the stamp cannot be written as JSON: {error}")))?;
        text.push(b'\n');
        machine.write_file(paths::STAMP, &text, Access::mode(0o600))
    }

    fn restore(&self, machine: &Machine, before: &Stamped, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.place.restore(machine) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for Stamp {
        const TESTED: Tested<Case<Self>> =
            Tested::Here(&[("the stamp", |_| Stamp { cluster: "lab".into(), id: None, bundle: None, adopted: false })]);
    }
}
