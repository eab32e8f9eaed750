//! What an operator chooses.

use std::path::PathBuf;

use kubexm_engine::OnFailure;
use kubexm_engine::options::Drill;

/// Whom a bundle has to be from.
#[derive(Clone, Debug, Default)]
pub struct TrustOptions {
    /// Files of public keys that are trusted, besides those of [`crate::Home::trusted_keys`]. With a key, only a bundle with a
    /// valid signature by one of them is accepted.
    pub keys: Vec<PathBuf>,
    /// Files of signatures, besides those in the bundle.
    pub signatures: Vec<PathBuf>,
    /// No bundle without a valid signature is accepted, also when no key is trusted.
    pub require_signature: bool,
    /// The cluster.yaml of a bundle that nobody trusted has signed is used without a question.
    pub allow_unsigned: bool,
}

/// Which bundle may take the place of the one that a cluster was made of.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplaceOptions {
    /// One that was signed before it.
    pub older: bool,
    /// One that no remembered signer has signed.
    pub other_signer: bool,
}

/// A bundle, and whose cluster.yaml.
#[derive(Clone, Debug, Default)]
pub struct BundleOptions {
    /// Its file, a folder with it, or its volumes.
    pub bundle: Vec<PathBuf>,
    /// Of a delta: bundles that have what it leaves out.
    pub bases: Vec<PathBuf>,
    /// cluster.yaml to use instead of the one in the bundle.
    pub file: Option<PathBuf>,
    /// Whom it has to be from.
    pub trust: TrustOptions,
    /// What it may take the place of.
    pub replace: ReplaceOptions,
}

/// A cluster by its cluster.yaml, with or without a bundle.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// cluster.yaml; needed where no bundle is given.
    pub file: Option<PathBuf>,
    /// A bundle whose cluster.yaml is meant; also needed for hosts of another architecture than this machine's.
    pub bundle: Option<PathBuf>,
    /// Of a delta: bundles that have what it leaves out.
    pub bases: Vec<PathBuf>,
    /// Whom the bundle has to be from.
    pub trust: TrustOptions,
}

/// How hosts are reached.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// The key of a host that is not known yet is accepted and recorded.
    pub accept_new_host_keys: bool,
    /// The file of known host keys; those of [`crate::Home::known_hosts`] when none.
    pub known_hosts: Option<PathBuf>,
}

/// How a run is executed.
#[derive(Clone)]
pub struct RunOptions<'a> {
    /// When a step failed.
    pub on_failure: OnFailure,
    /// How many hosts that are workers and nothing else may be left out.
    pub max_failed_workers: usize,
    /// A failure on purpose.
    pub drill: Option<Drill>,
    /// What is printed and journalled for anybody who continues the run or rolls it back.
    pub commands: &'a dyn Commands,
}

/// The exact commands that continue a run or roll it back, from any folder.
pub trait Commands: Send + Sync {
    /// Continues a run.
    fn resume(&self, run: &str) -> String;

    /// Rolls a run back.
    fn rollback(&self, run: &str) -> String;

    /// Called when a drill (`die:N`) has stopped the run, before anything is tidied up: a program ends here as a power cut
    /// would end it. Where this returns, the run ends with [`crate::SessionError::Stopped`].
    fn die(&self) {}
}
