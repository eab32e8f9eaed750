//! `kubeadm init`.
//!
//! Our own mark (`/var/lib/kubexm/acts/kubeadm-init.json`) says whether an init was begun by us and whether it ended
//! well. Without it a half-done init of ours could not be told from somebody's cluster, which must never be reset,
//! nor from our own cluster whose API server is away for a moment.

use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};

use super::{Progress, kubeadm_reset};
use crate::fsio::{self, Access};
use crate::kube::{self, kubectl};
use crate::system::Program;
use crate::{Machine, OpError, paths, transient};

/// kubeadm pulls nothing (images are there) and waits four minutes for the control plane by default.
const LIMIT_S: u64 = 900;
pub(super) const MARK: &str = "/var/lib/kubexm/acts/kubeadm-init.json";
pub(super) const MANIFESTS: [&str; 3] = [
    "/etc/kubernetes/manifests/kube-apiserver.yaml",
    "/etc/kubernetes/manifests/kube-controller-manager.yaml",
    "/etc/kubernetes/manifests/kube-scheduler.yaml",
];

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mark {
    ended_well: bool,
    /// Of kubeadm's config.
    config: Option<Digest>,
}

pub(super) fn observe(machine: &Machine) -> Result<Progress, OpError> {
    let mark = read_mark(machine)?;
    let traces = kubeadm_reset::traces(machine)?;
    let whole = kube::has_admin_conf(machine) && MANIFESTS.iter().all(|path| machine.path(path).is_file());
    Ok(match mark {
        Some(Mark { ended_well: true, .. }) if whole => Progress::Done,
        // We were killed between the end of kubeadm and the mark.
        Some(_) if whole && !running(machine)? && last_phases_done(machine)? => Progress::Done,
        Some(_) if traces.is_empty() && !running(machine)? => Progress::NotBegun,
        Some(_) => Progress::HalfDone,
        None if traces.is_empty() => Progress::NotBegun,
        None => Progress::Foreign,
    })
}

pub(super) fn converge(machine: &Machine, config: &str, socket: &str, ignore: &[String]) -> Result<(), OpError> {
    let digest = fsio::read(&machine.path(config))?.map(Digest::of);
    if digest.is_none() {
        return Err(OpError::other(format!("{config} is not there: kubeadm's config must be written before its init")));
    }
    let mut init = Program::new("kubeadm").args(["init", "--config", config, "--skip-token-print"]).within(LIMIT_S);
    if !ignore.is_empty() {
        init = init.arg(format!("--ignore-preflight-errors={}", ignore.join(",")));
    }
    match observe(machine)? {
        Progress::Done => return write_mark(machine, true, digest),
        Progress::Foreign => {
            return Err(OpError::other(format!(
                "this node already carries a Kubernetes that we did not make ({}); \
                 `kubeadm reset` it yourself if nobody needs it, then run again",
                kubeadm_reset::traces(machine)?.join(", ")
            )));
        }
        Progress::HalfDone if running(machine)? => {
            // Started by a run that was killed: wait for it. When it fails it is cleared and tried anew.
            if machine.run_act(&init).is_ok() {
                return write_mark(machine, true, digest);
            }
            kubeadm_reset::clear(machine, socket)?;
        }
        Progress::HalfDone => kubeadm_reset::clear(machine, socket)?,
        Progress::NotBegun => {}
    }
    write_mark(machine, false, digest)?;
    machine.run_act(&init)?;
    write_mark(machine, true, digest)
}

fn running(machine: &Machine) -> Result<bool, OpError> {
    machine.act().map_or(Ok(false), |act| transient::is_running(machine, act))
}

/// The API server answers, and the two addons that kubeadm applies last are there.
fn last_phases_done(machine: &Machine) -> Result<bool, OpError> {
    let ready = machine.try_run(&kubectl(["get", "--raw", "/readyz"]))?;
    if ready.code != 0 {
        return Ok(false);
    }
    let last = ["get", "--namespace", "kube-system", "deployment/coredns", "daemonset/kube-proxy", "--output=name"];
    Ok(machine.try_run(&kubectl(last))?.code == 0)
}

fn read_mark(machine: &Machine) -> Result<Option<Mark>, OpError> {
    Ok(fsio::read(&machine.path(MARK))?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn write_mark(machine: &Machine, ended_well: bool, config: Option<Digest>) -> Result<(), OpError> {
    let text = serde_json::to_vec(&Mark { ended_well, config })
        .map_err(|error| OpError::other(format!("the mark of kubeadm init cannot be written as JSON: {error}")))?;
    fsio::write(machine, MARK, &text, Access::mode(0o600))
}

/// After a reset there is nothing to be told apart any more.
pub(super) fn remove_mark(machine: &Machine) -> Result<(), OpError> {
    fsio::remove(&machine.path(MARK))?;
    // Only when no other act has left a mark.
    let _ = std::fs::remove_dir(machine.path(format!("{}/acts", paths::STATE)));
    Ok(())
}
