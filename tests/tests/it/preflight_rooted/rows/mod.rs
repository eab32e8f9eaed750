//! The rows: one edit of a good scene each, and what preflight must say of it.

mod existing;
mod machine;
mod surroundings;

use kubexm_recipes::preflight::Severity;

use super::scene::Scene;

/// An edit and the one finding that comes of it.
pub struct Row {
    /// For messages.
    pub what: &'static str,
    pub check: &'static str,
    pub severity: Severity,
    /// None: it is about the whole cluster.
    pub host: Option<&'static str>,
    pub edit: fn(&mut Scene),
    /// Parts of the finding's words.
    pub found: &'static str,
    pub needed: &'static str,
    pub fix: &'static str,
}

/// `check severity host "what" edit => found, needed, fix`, one a line.
macro_rules! rows {
    ($($check:literal $severity:ident $host:expr, $what:literal, $edit:expr => $found:literal, $needed:literal, $fix:literal;)*) => {
        &[$(Row {
            what: $what, check: $check, severity: $severity, host: $host, edit: $edit,
            found: $found, needed: $needed, fix: $fix,
        }),*]
    };
}

use rows;

const NODE1: Option<&str> = Some("node1");
const NODE2: Option<&str> = Some("node2");
// Of `Scene::with_roles`.
const ETCD1: Option<&str> = Some("etcd1");
const LB1: Option<&str> = Some("lb1");
// Of `Scene::with_harbor`.
const STORE: Option<&str> = Some("store");
const LB2: Option<&str> = Some("lb2");

/// Everything that stops an installation or is reported before one.
pub fn all() -> impl Iterator<Item = &'static Row> {
    [machine::ROWS, existing::ROWS, surroundings::ROWS].into_iter().flatten()
}
