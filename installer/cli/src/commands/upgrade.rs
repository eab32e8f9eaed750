//! `kubexm-install upgrade`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use kubexm_session::{Drain, Recipe, UpgradeOptions};
use kubexm_terminal::{Display, Failure};

use super::args::{AsideArgs, CaArgs, ChangeArgs};
use super::{change, upgrade_walk};
use crate::render::ended;

/// Bring the cluster to the Kubernetes version of a bundle, one minor version at a time
///
/// The bundle's content is put on every host first. Then members of kubexm's own etcd get the bundle's, one at a time; the
/// first control plane is upgraded, the others one at a time, and the workers in batches; a node is drained where a minor
/// version of Kubernetes or of the runtime changes. Once the first control plane is being upgraded, or the last member has
/// another minor version of etcd, no version goes back; etcd's data of before is in a snapshot on that host, and
/// `backup`, made before, is what `restore` reads. A run that was interrupted is continued with `resume`.
///
/// Once every node is upgraded, the bundle's add-ons are installed, and those that cluster.yaml no longer has are removed, as `create` does
/// it. Where one fails, the add-ons of the run go back to what they were, and no node does. With --keep-addons they stay as they are, until
/// `create` or `addons apply`.
///
/// With --os-packages each node also gets the bundle's packages of the operating system where it has older ones: at the end of its turn, while
/// it is drained, and for good, since the bundle does not have the older ones. No service is restarted for it, and no host rebooted.
///
/// With --then it goes on, bundle by bundle, through the minor versions in between: all of them are verified before the first change, each
/// begins when the one before has ended well, and add-ons and --os-packages are for the last one. After a failure, `resume` ends that
/// upgrade, and the same command again goes on: versions that the cluster is beyond are passed over. A bundle of --then may be a delta on
/// the ones before it.
///
/// On a cluster that was adopted it does what an upgrade by hand with kubeadm does: images, kubeadm, kubelet and kubectl, with the
/// cluster's own configuration; the runtime, the pod network and all else stay as they are. It needs containerd, `registry: {type: none}`
/// in cluster.yaml, and upstream's programs in /usr/local/bin (exit 22 otherwise, with what to do).
///
/// Examples:
///   kubexm-install upgrade --bundle new.tar.zst
///   kubexm-install upgrade --bundle new.tar.zst --batch 5 --drain-timeout 1800 -y
///   kubexm-install upgrade --bundle new.tar.zst --pause-after first-control-plane
///   kubexm-install upgrade --bundle new.tar.zst --os-packages
///   kubexm-install upgrade --bundle v1.34.tar.zst --then v1.35.tar.zst --then v1.36.tar.zst -y
///   kubexm-install plan upgrade --bundle new.tar.zst --text
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    pub change: ChangeArgs,
    #[command(flatten)]
    upgrade: UpgradeArgs,
    /// A bundle of the version after that; may be given several times, in the order of the versions. Each one's own cluster.yaml is used
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "pause_after", "signatures"])]
    then: Vec<PathBuf>,
}

/// How an upgrade goes about it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct UpgradeArgs {
    /// How many workers an upgrade upgrades at the same time
    #[arg(long, value_name = "N", default_value = "1")]
    batch: NonZeroUsize,
    /// End an upgrade early; the next one does the rest
    #[arg(long, value_enum, value_name = "WHERE")]
    pause_after: Option<PauseAfter>,
    /// How long an upgrade waits until the pods of a node are gone
    #[arg(long, value_name = "SECONDS", default_value_t = Drain::default().limit_s)]
    drain_timeout: u64,
    /// When an upgrade drains a node, delete pods that no controller creates again
    #[arg(long)]
    drain_force: bool,
    /// Let an upgrade drain every node, also where only patch versions change
    #[arg(long)]
    always_drain: bool,
    /// Let an upgrade leave add-ons and what makes volumes as they are
    #[arg(long)]
    keep_addons: bool,
    /// Let an upgrade bring what nodes have installed of the bundle's packages to the bundle's versions, once they are drained
    #[arg(long)]
    os_packages: bool,
}

/// Where an upgrade ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PauseAfter {
    /// After the first control plane
    FirstControlPlane,
    /// After all control planes and the pod network
    ControlPlanes,
    /// After the first batch of workers
    FirstBatch,
}

impl UpgradeArgs {
    /// Without a clock of its own, certificates are compared with this machine's.
    pub fn options(&self) -> UpgradeOptions {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        UpgradeOptions {
            batch: self.batch.get(),
            pause_after: self.pause_after.map(|pause| match pause {
                PauseAfter::FirstControlPlane => kubexm_session::PauseAfter::FirstControlPlane,
                PauseAfter::ControlPlanes => kubexm_session::PauseAfter::ControlPlanes,
                PauseAfter::FirstBatch => kubexm_session::PauseAfter::FirstBatch,
            }),
            drain: Drain { limit_s: self.drain_timeout, force: self.drain_force },
            always_drain: self.always_drain,
            keep_addons: self.keep_addons,
            os_packages: self.os_packages,
            now: i64::try_from(now).unwrap_or(i64::MAX),
        }
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let options = args.upgrade.options();
    if !args.then.is_empty() {
        return upgrade_walk::run(&args.change, &args.then, &options, display);
    }
    let recipe = Recipe::Upgrade(&options);
    let ended = change::run("upgrade", &args.change, AsideArgs::default(), CaArgs::default(), recipe, display)?;
    ended::report(&ended, "", display)
}
