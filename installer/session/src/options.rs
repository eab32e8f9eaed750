//! Options of the operator.

use std::path::PathBuf;

use kubexm_engine::OnFailure;
use kubexm_engine::options::Drill;

/// Which signatures a bundle needs.
#[derive(Clone, Debug, Default)]
pub struct TrustOptions {
    /// Files of trusted public keys, in addition to those of [`crate::Home::trusted_keys`]. If there is any key, only a
    /// bundle with a valid signature by one of them is accepted.
    pub keys: Vec<PathBuf>,
    /// Files of signatures, in addition to those in the bundle.
    pub signatures: Vec<PathBuf>,
    /// Require a valid signature even if no key is trusted.
    pub require_signature: bool,
    /// Use the cluster.yaml of a bundle without a trusted signature without asking.
    pub allow_unsigned: bool,
}

/// Which bundles may replace the installed one.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplaceOptions {
    /// One that was signed earlier.
    pub older: bool,
    /// One that none of the recorded signers has signed.
    pub other_signer: bool,
}

/// A bundle, and which cluster.yaml to use.
#[derive(Clone, Debug, Default)]
pub struct BundleOptions {
    /// Its file, a folder with it, or its volumes.
    pub bundle: Vec<PathBuf>,
    /// For a delta: the bundles that have the rest of its content.
    pub bases: Vec<PathBuf>,
    /// cluster.yaml to use instead of the one in the bundle.
    pub file: Option<PathBuf>,
    /// Which signatures it needs.
    pub trust: TrustOptions,
    /// Which installed bundle it may replace.
    pub replace: ReplaceOptions,
}

/// A cluster by its cluster.yaml, with or without a bundle.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// cluster.yaml; needed where no bundle is given.
    pub file: Option<PathBuf>,
    /// A bundle whose cluster.yaml is used; also needed for hosts with another architecture than the controller's.
    pub bundle: Option<PathBuf>,
    /// For a delta: the bundles that have the rest of its content.
    pub bases: Vec<PathBuf>,
    /// Which signatures the bundle needs.
    pub trust: TrustOptions,
}

/// How hosts are connected.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// Accept and record the key of an unknown host.
    pub accept_new_host_keys: bool,
    /// The file of known host keys; none for those of [`crate::Home::known_hosts`].
    pub known_hosts: Option<PathBuf>,
}

/// How a run is executed.
#[derive(Clone)]
pub struct RunOptions<'a> {
    /// What to do when a step fails.
    pub on_failure: OnFailure,
    /// How many hosts that are only workers may be left out.
    pub max_failed_workers: usize,
    /// Whether hosts take content from each other where the cluster allows it.
    pub fan_out: bool,
    /// A simulated failure.
    pub drill: Option<Drill>,
    /// The commands to print and journal for resuming the run or rolling it back.
    pub commands: &'a dyn Commands,
}

impl<'a> RunOptions<'a> {
    /// No host may be left out, and nothing fails on purpose.
    pub fn strict(on_failure: OnFailure, commands: &'a dyn Commands) -> Self {
        Self { on_failure, max_failed_workers: 0, fan_out: true, drill: None, commands }
    }
}

/// The complete commands that resume a run or roll it back, valid in any folder.
pub trait Commands: Send + Sync {
    /// Resumes a run.
    fn resume(&self, run: &str) -> String;

    /// Rolls a run back.
    fn rollback(&self, run: &str) -> String;

    /// Called when a drill (`die:N`) has stopped the run, before anything is cleaned up: a program exits here, as in a
    /// power cut. If this returns, the run ends with [`crate::SessionError::Stopped`].
    fn die(&self) {}
}
