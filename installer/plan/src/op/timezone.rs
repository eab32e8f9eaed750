//! The host's time zone.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kind::{Needs, OpKind, RemovalScope, ResetRollback, State};
use crate::path_state::PathState;
use crate::resource::{Resource, ResourceChange};

/// The host's time zone, as `timedatectl set-timezone` sets it. Services that run keep the zone with which they started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Timezone {
    /// `Asia/Shanghai`.
    pub zone: String,
}

/// The zone as observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ZoneWas {
    /// That of the link /etc/localtime; none if it is none into [`ZONES`].
    pub zone: Option<String>,
    /// /etc/localtime.
    pub localtime: PathState,
    /// What /etc/timezone says.
    pub named: Option<String>,
    /// /etc/timezone; none on systems without it.
    pub name: Option<PathState>,
}

/// The folder of the zones.
pub const ZONES: &str = "/usr/share/zoneinfo";

impl OpKind for Timezone {
    type State = ZoneWas;

    fn resource_changes(&self) -> Vec<ResourceChange> {
        vec![
            ResourceChange::file("/etc/localtime", format!("link {}", self.zone)),
            ResourceChange::unknown(Resource::Path("/etc/timezone".to_owned())),
        ]
    }

    fn needs(&self) -> Needs<'_> {
        Needs::nothing()
    }

    fn scope(&self) -> RemovalScope {
        RemovalScope::Host
    }

    fn reset_rollback(&self) -> ResetRollback {
        ResetRollback::Restored
    }
}

impl fmt::Display for Timezone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "time zone {}", self.zone)
    }
}

impl State for ZoneWas {
    const SCHEMA: u32 = 1;

    fn places(&self) -> Vec<&PathState> {
        std::iter::once(&self.localtime).chain(&self.name).collect()
    }

    fn is_back(&self, _: &Self) -> Option<bool> {
        None
    }
}
