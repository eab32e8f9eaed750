//! Arguments that several verbs share.

use std::path::PathBuf;

/// The bundle, and whose cluster.yaml.
#[derive(Clone, Debug, clap::Args)]
pub struct BundleArgs {
    /// The bundle that `kubexm-bundle build` wrote
    #[arg(long, value_name = "FILE")]
    pub bundle: PathBuf,
    /// cluster.yaml in place of the one that the bundle carries
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// How hosts are reached.
#[derive(Clone, Debug, clap::Args)]
pub struct HostArgs {
    /// Accept and record the key of a host that is not known yet; a changed key is refused all the same
    #[arg(long)]
    pub accept_new_host_keys: bool,
    /// File of known host keys [default: $KUBEXM_HOME/known_hosts, ~/.ssh/known_hosts, /etc/ssh/ssh_known_hosts]
    #[arg(long, value_name = "FILE")]
    pub known_hosts: Option<PathBuf>,
}

/// What becomes of what was done when a step fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnFailure {
    /// It stays, for `resume`
    #[default]
    Keep,
    /// It is taken back: known, not built yet
    Rollback,
}

impl OnFailure {
    /// Refuses what is not built yet, before anything is read or touched.
    pub fn check(self) -> Result<(), kubexm_terminal::Failure> {
        match self {
            Self::Keep => Ok(()),
            Self::Rollback => Err(kubexm_terminal::Failure::new(
                kubexm_spec::ExitCode::NotBuiltYet,
                "--on-failure rollback: known, not built yet; leave it out: what was done stays, and `kubexm-install \
                 resume` goes on when the cause is mended",
            )),
        }
    }
}
