//! Root packages: what nodes need of their distribution, by role.

use std::collections::BTreeMap;

use kubexm_spec::Family;
pub use kubexm_spec::PackageRole as RootRole;
use serde::{Deserialize, Serialize};

/// Something nodes need, whatever a distribution calls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Root {
    /// What we call it: `conntrack`.
    pub name: String,
    /// Which nodes need it.
    pub role: RootRole,
    /// Programs that do what it is wanted for: a node that has all of them needs nothing. Empty where a program says too little.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Packages of Debian's family.
    pub deb: Vec<String>,
    /// Packages of Red Hat's family.
    pub rpm: Vec<String>,
    /// Packages that it takes the place of, by family: carried too, so that there is a rollback.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replaces: BTreeMap<Family, Vec<String>>,
}

impl Root {
    /// What a family calls it, unless a profile says otherwise.
    pub fn names(&self, family: Family) -> &[String] {
        match family {
            Family::Deb => &self.deb,
            Family::Rpm => &self.rpm,
        }
    }
}
