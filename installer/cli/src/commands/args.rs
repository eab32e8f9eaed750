//! Arguments that several verbs share.

use std::path::PathBuf;

use kubexm_engine::execute as engine;
use kubexm_engine::options::Drill;
use kubexm_plan::{Plan, StepId};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure};

use crate::run::again::Again;
use crate::site::access::Access;
use crate::site::opened::Opened;
use crate::site::trust::TrustArgs;
use crate::support::events::Shown;
use crate::support::home::Home;

/// The bundle, and whose cluster.yaml.
#[derive(Clone, Debug, clap::Args)]
pub struct BundleArgs {
    /// The bundle that `kubexm-bundle build` wrote: its file, a folder with it, or its volumes (one of them when they lie side by
    /// side; given several times, or folder by folder, when they do not)
    #[arg(long, value_name = "FILE", required = true)]
    pub bundle: Vec<PathBuf>,
    /// Of a delta: a bundle that has what it leaves out; may be given several times
    #[arg(long = "base", value_name = "FILE", requires = "bundle")]
    pub bases: Vec<PathBuf>,
    /// cluster.yaml in place of the one that the bundle carries
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub trust: TrustArgs,
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

/// What becomes of what lies in folders that the cluster makes and fills.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct AsideArgs {
    /// Move what is in folders that the cluster fills (/var/lib/etcd, /var/lib/kubelet …) out of the way, in place of
    /// refusing it; rollback and reset bring it back
    #[arg(long)]
    pub set_aside: bool,
}

/// What a verb takes that begins a run.
#[derive(Clone, Debug, clap::Args)]
pub struct ChangeArgs {
    #[command(flatten)]
    pub bundle: BundleArgs,
    #[command(flatten)]
    pub hosts: HostArgs,
    /// Say yes without being asked
    #[arg(short = 'y', long)]
    pub yes: bool,
    #[command(flatten)]
    pub failure: FailureArgs,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

impl ChangeArgs {
    /// Permission to connect to the hosts of the cluster, asked for where a bundle that nobody vouches for names them.
    pub fn access(&self, opened: &Opened, home: &Home, display: &Display) -> Result<Access, Failure> {
        Access::obtain(&opened.cluster, &self.bundle.trust, &self.hosts, home, display, &Shown(display))
    }

    /// How the command is called again for its run.
    pub fn again(&self) -> Again<'_> {
        Again { bundle: &self.bundle, hosts: &self.hosts, failure: &self.failure }
    }
}

/// What becomes of a run when something fails.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FailureArgs {
    /// When a step fails
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub on_failure: OnFailure,
    /// Go on without up to this many hosts that are workers and nothing else; exit code 72, and `resume` adds them later
    #[arg(long, default_value_t, value_name = "N")]
    pub max_failed_workers: usize,
    /// Fail on purpose, to see the way back before it is needed: `fail:STEP` tells a step as failed after it was done,
    /// `die:N` ends the program at the Nth record of the run's journal, as a power cut would
    #[arg(long, value_name = "DRILL", value_parser = drill)]
    pub drill: Option<Drill>,
}

/// What becomes of hosts that cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Unreachable {
    /// Nothing is begun
    #[default]
    Refuse,
    /// They are left as they are, and named at the end
    Skip,
}

/// What becomes of what was done when a step fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnFailure {
    /// It is taken back, and the hosts are as they were; a run that ended without some hosts, or was kept, stays
    #[default]
    Rollback,
    /// It stays, for `resume`
    Keep,
}

impl From<OnFailure> for engine::OnFailure {
    fn from(what: OnFailure) -> Self {
        match what {
            OnFailure::Rollback => Self::Rollback,
            OnFailure::Keep => Self::Keep,
        }
    }
}

impl FailureArgs {
    /// Refuses a drill over a step that the plan does not have, before anything is asked or touched.
    pub fn check(&self, plan: &Plan) -> Result<(), Failure> {
        match &self.drill {
            Some(Drill::FailStep(step)) if plan.step(step).is_none() => Err(Failure::new(
                ExitCode::Usage,
                format!(
                    "--drill fail:{step}: the plan has no such step; `kubexm-install plan create --text` lists them"
                ),
            )),
            _ => Ok(()),
        }
    }
}

fn drill(text: &str) -> Result<Drill, String> {
    let wanted = || "wanted is fail:HOST/STEP or die:N".to_owned();
    match text.split_once(':').ok_or_else(wanted)? {
        ("fail", step) if step.contains('/') => Ok(Drill::FailStep(StepId(step.to_owned()))),
        ("die", record) => record.parse().map(Drill::DieAtRecord).map_err(|_| wanted()),
        _ => Err(wanted()),
    }
}
