//! Packages of the operating system, by its own package manager, from a repository of our own.

use kubexm_plan::op::Packages;
use serde::{Deserialize, Serialize};

use crate::{Converge, Machine, OpError, Wave};

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Installed {}

impl Converge for Packages {
    type State = Installed;

    fn observe(&self, _: &Machine) -> Result<Installed, OpError> {
        Ok(Installed {})
    }

    fn satisfied(&self, _: &Installed, _: &Machine) -> bool {
        self.packages.is_empty()
    }

    fn converge(&self, _: &Machine) -> Result<(), OpError> {
        Err(OpError::other("packages cannot be installed yet"))
    }

    fn restore(&self, _: &Machine, _: &Installed, _: Wave) -> Result<(), OpError> {
        Ok(())
    }
}
