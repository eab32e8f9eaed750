//! Arguments that several verbs share.

use std::io::ErrorKind;
use std::path::PathBuf;

use kubexm_engine::execute as engine;
use kubexm_engine::options::Drill;
use kubexm_plan::StepId;
use kubexm_session::{BundleOptions, ClusterOptions, Commands, HostOptions, ReplaceOptions, RunOptions, TrustOptions};
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;

/// The bundle, and whose cluster.yaml.
#[derive(Clone, Debug, clap::Args)]
pub struct BundleArgs {
    /// The bundle that `kubexm-bundle build` wrote: its file, a folder with it, or its volumes (one of them if they are
    /// in one folder; otherwise given several times, or folder by folder)
    #[arg(long, value_name = "FILE", required = true)]
    pub bundle: Vec<PathBuf>,
    /// For a delta: a bundle that has what it leaves out; may be given several times
    #[arg(long = "base", value_name = "FILE", requires = "bundle")]
    pub bases: Vec<PathBuf>,
    /// cluster.yaml to use instead of the one in the bundle
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub trust: TrustArgs,
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

/// cluster.yaml alone, or a bundle that contains one. The group shows in the usage that one of the two is needed.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("cluster-source").args(["file", "bundle"]).required(true).multiple(true)))]
pub struct ClusterArgs {
    /// cluster.yaml of the cluster; needed where no bundle is given
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Bundle whose cluster.yaml is used; needed where no -f is given, and for hosts of another architecture than this machine's
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// For a delta: a bundle that has what it leaves out; may be given several times
    #[arg(long = "base", value_name = "FILE", requires = "bundle")]
    pub bases: Vec<PathBuf>,
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// Keys and signatures given on the command line.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TrustArgs {
    /// Trusted public key; may be given several times, and those in $KUBEXM_HOME/trusted-keys/*.pub count as given.
    /// With a key, only a bundle with a valid signature by one of them is accepted (exit 34)
    #[arg(long = "key", value_name = "FILE", requires = "bundle")]
    pub keys: Vec<PathBuf>,
    /// Signatures in a separate file (NAME.sig), in addition to those in the bundle
    #[arg(long = "signature", value_name = "FILE", requires = "bundle")]
    pub signatures: Vec<PathBuf>,
    /// Accept no bundle without a valid signature by a trusted key; without any trusted key, every bundle is refused
    /// (exit 34)
    #[arg(long, requires = "bundle")]
    pub require_signature: bool,
    /// Without asking, use the cluster.yaml of a bundle that no trusted key has signed: connect to the hosts that it
    /// names, with the passwords and keys that it names; its helm renders charts on this machine. If any key is trusted,
    /// such a bundle is still refused
    #[arg(long, requires = "bundle", conflicts_with = "require_signature")]
    pub allow_unsigned: bool,
}

/// Which installed bundles a bundle may replace.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ReplaceArgs {
    /// Install a bundle that was signed before the installed one; without this it is refused (exit 34)
    #[arg(long)]
    pub allow_older: bool,
    /// Install a bundle that is not signed, or not by the signer of the installed one; without this it is refused (exit
    /// 34)
    #[arg(long)]
    pub allow_other_signer: bool,
}

/// How hosts are reached.
#[derive(Clone, Debug, clap::Args)]
pub struct HostArgs {
    /// Accept and record the key of a host that is not known yet; a changed key is still refused
    #[arg(long)]
    pub accept_new_host_keys: bool,
    /// File of known host keys; with --accept-new-host-keys it is made if there is none [default: $KUBEXM_HOME/known_hosts, ~/.ssh/known_hosts, /etc/ssh/ssh_known_hosts]
    #[arg(long, value_name = "FILE")]
    pub known_hosts: Option<PathBuf>,
}

/// What happens to the content of folders that the cluster makes and fills.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct AsideArgs {
    /// Move what is in folders that the cluster fills (/var/lib/etcd, /var/lib/kubelet …) out of the way, instead of
    /// refusing it; rollback and reset move it back
    #[arg(long)]
    pub set_aside: bool,
}

/// Which CA the registry has.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct CaArgs {
    /// Make a new CA for the registry and give it to every host, when everything that opens the cluster's own is lost, or was
    /// stolen; without this the cluster keeps the one it has
    #[arg(long)]
    pub new_registry_ca: bool,
}

/// What a verb takes that begins a run.
#[derive(Clone, Debug, clap::Args)]
pub struct ChangeArgs {
    #[command(flatten)]
    pub bundle: BundleArgs,
    #[command(flatten)]
    pub hosts: HostArgs,
    /// Confirm without being asked
    #[arg(short = 'y', long)]
    pub yes: bool,
    #[command(flatten)]
    pub failure: FailureArgs,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

impl TrustArgs {
    /// For a session.
    pub fn options(&self) -> TrustOptions {
        let Self { keys, signatures, require_signature, allow_unsigned } = self.clone();
        TrustOptions { keys, signatures, require_signature, allow_unsigned }
    }
}

impl BundleArgs {
    /// `--bundle` of a verb that finds it in the record of the run.
    pub fn recorded(bundle: clap::Arg) -> clap::Arg {
        bundle
            .required(false)
            .help("The bundle, where it is not there any more [default: the one that the run was started with]")
    }

    /// For a session.
    pub fn options(&self) -> BundleOptions {
        let Self { bundle, bases, file, .. } = self.clone();
        let ReplaceArgs { allow_older: older, allow_other_signer: other_signer } = self.replace;
        let replace = ReplaceOptions { older, other_signer };
        BundleOptions { bundle, bases, file, trust: self.trust.options(), replace }
    }
}

impl ClusterArgs {
    /// For a session.
    pub fn options(&self) -> ClusterOptions {
        let Self { file, bundle, bases, .. } = self.clone();
        ClusterOptions { file, bundle, bases, trust: self.trust.options() }
    }
}

impl HostArgs {
    /// For a session. A file that was named is there, unless it may be made.
    pub fn options(&self) -> Result<HostOptions, Failure> {
        let Self { accept_new_host_keys, known_hosts } = self.clone();
        let problem = known_hosts.as_ref().and_then(|path| match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => Some((path, "it is a folder; name the file with the hosts' keys".to_owned())),
            Ok(_) => None,
            Err(error) if error.kind() != ErrorKind::NotFound => Some((path, error.to_string())),
            Err(_) if accept_new_host_keys => None,
            Err(_) => {
                let text = "there is no such file, so no host would be known; name the file with the hosts' keys, or let it be made with \
                            --accept-new-host-keys";
                Some((path, text.to_owned()))
            }
        });
        match problem {
            None => Ok(HostOptions { accept_new_host_keys, known_hosts }),
            Some((path, problem)) => {
                Err(Failure::new(ExitCode::Config, format!("--known-hosts {}: {problem}", path.display())))
            }
        }
    }
}

/// How a run is executed, and what happens when something fails.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FailureArgs {
    /// What to do when a step fails [default: rollback]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub on_failure: Option<OnFailure>,
    /// Continue without up to this many hosts that are workers and nothing else; exit code 72, and `resume` adds them later
    /// [default: 0]
    #[arg(long, value_name = "N")]
    pub max_failed_workers: Option<usize>,
    /// Let hosts take the bundle's content from the depot and this machine only, and not from each other as well
    /// (port 5444 between hosts, while the run lasts)
    #[arg(long)]
    pub no_fan_out: bool,
    /// Fail on purpose, to see the rollback before it is needed: `fail:HOST/STEP` reports a step as failed after it was
    /// done, `die:N` ends the program at the Nth record of the run's journal, as a power cut would
    #[arg(long, value_name = "DRILL", value_parser = drill)]
    pub drill: Option<Drill>,
}

/// What happens to hosts that cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Unreachable {
    /// Start nothing
    #[default]
    Refuse,
    /// Leave them as they are, and name them at the end
    Skip,
}

/// What happens to the completed steps when a step fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnFailure {
    /// Roll the run back, so that the hosts are as they were; a run that ended without some hosts, or was kept, stays
    #[default]
    Rollback,
    /// Keep what was done, for `resume`
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
    /// For a session.
    pub fn options<'a>(&self, commands: &'a dyn Commands) -> RunOptions<'a> {
        let on_failure = self.on_failure.unwrap_or_default().into();
        let max_failed_workers = self.max_failed_workers.unwrap_or_default();
        RunOptions { on_failure, max_failed_workers, fan_out: !self.no_fan_out, drill: self.drill.clone(), commands }
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
