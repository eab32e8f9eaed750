//! How an upgrade goes about it.

use crate::modules::drain::Drain;

/// How an upgrade goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpgradeOptions {
    /// How many workers are upgraded at the same time; at least one.
    pub batch: usize,
    /// Where the run ends before all is done; the next upgrade does the rest.
    pub pause_after: Option<PauseAfter>,
    /// How nodes are drained.
    pub drain: Drain,
    /// Drain every node, also where only the patch version changes.
    pub always_drain: bool,
    /// Leave add-ons and what makes volumes as they are.
    pub keep_addons: bool,
    /// Upgrade what nodes have installed in an older version than the bundle's packages.
    pub os_packages: bool,
    /// Seconds of Unix time: which certificates have ended.
    pub now: i64,
}

/// Where an upgrade pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseAfter {
    /// After the first control plane.
    FirstControlPlane,
    /// After all control planes and the pod network.
    ControlPlanes,
    /// After the first batch of workers.
    FirstBatch,
}

impl Default for UpgradeOptions {
    fn default() -> Self {
        Self {
            batch: 1,
            pause_after: None,
            drain: Drain::default(),
            always_drain: false,
            keep_addons: false,
            os_packages: false,
            now: 0,
        }
    }
}
