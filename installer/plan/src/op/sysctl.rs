//! Kernel parameters, now and at boot.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// Kernel parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sysctl {
    /// Drop-in below /etc/sysctl.d.
    pub path: String,
    /// `net.ipv4.ip_forward` → `1`.
    pub values: BTreeMap<String, String>,
    /// Parameters that services of the cluster set later by themselves (`net.ipv4.conf.all.route_localnet`, by
    /// kube-proxy): no value is set, and undo restores the observed one.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub remembered: BTreeSet<String>,
}

/// Current values, and the values at the next boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// kubexm's drop-in.
    pub file: PathState,
    /// None if the kernel does not have the parameter (its module is not loaded).
    pub live: BTreeMap<String, Option<String>>,
    /// What the next boot would set, with kubexm's file as it is now.
    pub boot: BTreeMap<String, BootValue>,
}

/// A value and the line that it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BootValue {
    /// The value in the file, with single spaces.
    pub value: String,
    /// `/etc/sysctl.d/99-sysctl.conf:12`.
    pub line: String,
}

impl OpKind for Sysctl {
    type State = Parameters;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        let values =
            self.values.iter().map(|(name, value)| ResourceChange::sets(Resource::Sysctl(name.clone()), value));
        std::iter::once(ResourceChange::file(&self.path, "sysctls")).chain(values).collect()
    }

    fn needs(&self) -> Needs<'_> {
        // These exist only while the module is loaded.
        let bridge = self.values.keys().any(|name| name.starts_with("net.bridge."));
        let resources = if bridge { vec![Resource::Module("br_netfilter".to_owned())] } else { Vec::new() };
        Needs { resources, ..Needs::nothing() }
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::RestoredAndMade
    }
}

impl fmt::Display for Sysctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<_> = self.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        write!(f, "sysctl {} {}", self.path, values.join(" "))?;
        self.remembered.iter().try_for_each(|name| write!(f, "\n    remembering {name}"))
    }
}

impl State for Parameters {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        vec![&self.file]
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
