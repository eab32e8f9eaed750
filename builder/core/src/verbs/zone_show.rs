//! Which zone holds, and who named it.

use std::path::Path;

use kubexm_manifests::Zone;
use kubexm_manifests::zone::Rule;
use serde::Serialize;

use crate::session::{Choice, Session, SessionError};

/// The zone that is used.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    schema: &'static str,
    pub zone: String,
    /// `--zone`, a variable, `spec.bundle.zone` or `the default`.
    pub named_by: &'static str,
    /// In the order in which they are tried.
    pub rules: Vec<Rule>,
    /// Names of zones that are built in.
    pub known: Vec<String>,
    pub warnings: Vec<String>,
    pub notes: Vec<String>,
}

/// Chooses and reads it. `file` is cluster.yaml.
pub fn show(session: &Session, named: Option<&str>, file: Option<&Path>) -> Result<Shown, SessionError> {
    let cluster = file.map(|file| session.cluster(Some(file), None)).transpose()?;
    let Choice { zone, by, warnings, notes } = session.zone(named, cluster.as_ref().map(|(_, cluster)| cluster))?;
    let Zone { name, rules, .. } = zone;
    let known = Zone::builtin_names();
    Ok(Shown { schema: "kubexm.io/zone-show/v1", zone: name, named_by: by, rules, known, warnings, notes })
}
