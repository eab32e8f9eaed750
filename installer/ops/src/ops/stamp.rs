//! Whose node this is: `/var/lib/kubexm/stamp.json`.

use kubexm_plan::facts;
use kubexm_plan::op::Stamp;
use serde::{Deserialize, Serialize};

use crate::fsio::{self, Access};
use crate::place::Place;
use crate::{Converge, Machine, OpError, Wave, paths};

/// The stamp's place, and the cluster it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stamped {
    place: Place,
    cluster: Option<String>,
}

/// Reads the stamp of a machine; one that cannot be read counts as none, and is replaced.
pub(crate) fn read(machine: &Machine) -> Result<Option<facts::Stamp>, OpError> {
    Ok(fsio::read(&machine.path(paths::STAMP))?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

impl Converge for Stamp {
    type State = Stamped;

    fn observe(&self, machine: &Machine) -> Result<Stamped, OpError> {
        Ok(Stamped { place: Place::look(machine, paths::STAMP)?, cluster: read(machine)?.map(|stamp| stamp.cluster) })
    }

    /// The run that wrote it does not matter: a second run changes nothing.
    fn satisfied(&self, found: &Stamped, _: &Machine) -> bool {
        found.cluster.as_deref() == Some(&self.cluster)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![paths::STAMP.to_owned()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let run = machine.act().map(|act| act.run.clone()).unwrap_or_default();
        let stamp = facts::Stamp { cluster: self.cluster.clone(), run };
        let mut text = serde_json::to_vec_pretty(&stamp)
            .map_err(|error| OpError::other(format!("the stamp cannot be written as JSON: {error}")))?;
        text.push(b'\n');
        fsio::write(machine, paths::STAMP, &text, Access::mode(0o600))
    }

    fn restore(&self, machine: &Machine, before: &Stamped, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.place.restore(machine) } else { Ok(()) }
    }
}
