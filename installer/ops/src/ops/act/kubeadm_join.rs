//! `kubeadm join`: a worker, or one more control plane, with a stacked etcd member where etcd is kubeadm's.
//!
//! kubeadm's config contains a bootstrap token and perhaps the key of the cluster's certificates: it is written below
//! /run, readable only by root, for the duration of the call. kubexm's [`mark`] distinguishes its half-done join from a
//! node of another cluster.

use kubexm_plan::op::{KubeadmJoin, Progress};

use super::ignored::ignored;
use super::mark::{self, Mark, Of};
use super::members::{self, Listed, Rest};
use super::perform::Perform;
use super::{files, kubeadm_reset};
use crate::fsio::{self, Access};
use crate::kube::kubectl;
use crate::system::Program;
use crate::{Machine, OpError, own_etcd, paths, systemd, transient};

/// kubeadm pulls no images (they were loaded before); a control plane waits for etcd to promote its learner.
const LIMIT_S: u64 = 900;
const KUBELET: &str = "kubelet.service";
const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
const KUBELET_CONFIG: &str = "/var/lib/kubelet/config.yaml";
const BOOTSTRAP_CONF: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
const ETCD: &str = "/etc/kubernetes/manifests/etcd.yaml";

impl Perform for KubeadmJoin {
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        Join(self).observe(machine)
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        Join(self).converge(machine)
    }
}

/// The join of a plan.
#[derive(Clone, Copy, Debug)]
struct Join<'a>(&'a KubeadmJoin);

impl Join<'_> {
    /// Needs no slot values.
    fn observe(&self, machine: &Machine) -> Result<Progress, OpError> {
        let traces = kubeadm_reset::traces(machine)?;
        let Some(mark) = mark::read(machine, Of::Join)? else {
            return Ok(if traces.is_empty() { Progress::NotBegun } else { Progress::Foreign });
        };
        let whole = self.missing(machine).is_empty();
        Ok(match mark {
            Mark { ended_well: true, .. } if whole => self.still_in(machine)?,
            // The node may have been used: its data is never cleared automatically.
            Mark { ended_well: true, .. } if !traces.is_empty() => Progress::Damaged,
            mark if mark.still_running(machine)?.is_some() => Progress::HalfDone,
            // The agent was killed between the end of kubeadm and the update of the mark: only the record of the end is
            // missing.
            mark if whole && self.ended_unseen(machine, &mark)? => Progress::Damaged,
            _ if traces.is_empty() => Progress::NotBegun,
            _ => Progress::HalfDone,
        })
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        match self.observe(machine)? {
            Progress::Done => return mark::write(machine, Of::Join, true, Some(self.0.config)),
            Progress::Foreign => {
                return Err(OpError::other(format!(
                    "this node already has a Kubernetes that kubexm did not join to this cluster ({}); `{}` \
                     it yourself if nobody needs it, then run again",
                    kubeadm_reset::traces(machine)?.join(", "),
                    own_etcd::by_hand(machine)
                )));
            }
            Progress::Damaged => return self.fix(machine),
            Progress::HalfDone => {
                let running = mark::read(machine, Of::Join)?.map_or(Ok(None), |mark| mark.still_running(machine))?;
                // Started by a run that was interrupted: wait for it. If it fails, it is cleared and repeated.
                if let Some(act) = running
                    && self.call(&machine.with_act(act)).is_ok()
                {
                    return self.ended(machine);
                }
                kubeadm_reset::clear(machine, &self.0.cri_socket, Rest::Lives)?;
            }
            Progress::NotBegun => {}
        }
        mark::write(machine, Of::Join, false, Some(self.0.config))?;
        self.call(machine)?;
        self.ended(machine)
    }

    /// kubeadm has reported success; the result is verified before it is recorded.
    fn ended(&self, machine: &Machine) -> Result<(), OpError> {
        let missing = self.missing(machine);
        if !missing.is_empty() {
            return Err(OpError::other(format!(
                "`kubeadm join` succeeded, but {} does not exist; run again, which removes what it made and joins \
                 again",
                missing.join(", ")
            )));
        }
        if self.gets_member() && matches!(members::listed(machine)?, Listed::No | Listed::Partly) {
            return Err(OpError::other(
                "`kubeadm join` succeeded, but etcd does not have this host as a voting member; look at the log of \
                 etcd (`crictl logs`, /var/log/pods/kube-system_etcd-*) and run again",
            ));
        }
        mark::write(machine, Of::Join, true, Some(self.0.config))
    }

    /// Runs kubeadm with the config in place, or attaches to the running one.
    fn call(&self, machine: &Machine) -> Result<(), OpError> {
        let text = machine.filled(&self.0.config, &self.0.slots)?;
        let _config = SecretFile::write(machine, files::JOIN_CONFIG, text.as_bytes())?;
        let mut join = Program::new("kubeadm").args(["join", "--config", files::JOIN_CONFIG]).within(LIMIT_S);
        let ignore = ignored(machine, &self.0.ignore)?;
        if !ignore.is_empty() {
            join = join.arg(format!("--ignore-preflight-errors={}", ignore.join(",")));
        }
        machine.run_act(&join).map(drop)
    }

    /// Whether a member of etcd comes with it.
    const fn gets_member(self) -> bool {
        self.0.control_plane && !self.0.external_etcd
    }

    /// Results of a successful join that are missing.
    fn missing(&self, machine: &Machine) -> Vec<&'static str> {
        let control_plane: &[&str] = if self.0.control_plane { &[paths::ADMIN_CONF] } else { &[] };
        let etcd: &[&str] = if self.gets_member() { &[ETCD] } else { &[] };
        let manifests: &[&str] = if self.0.control_plane { &files::MANIFESTS } else { &[] };
        [KUBELET_CONF]
            .iter()
            .chain(control_plane)
            .chain(etcd)
            .chain(manifests)
            .copied()
            .filter(|path| !machine.path(path).is_file())
            .collect()
    }

    /// After a successful join: whether kubelet runs, and etcd, if it answers, still has the member.
    fn still_in(&self, machine: &Machine) -> Result<Progress, OpError> {
        let kubelet = systemd::show(machine, KUBELET)?;
        let in_etcd = !self.gets_member() || members::listed(machine)? != Listed::No;
        let up = kubelet.active() || kubelet.running();
        Ok(if up && in_etcd { Progress::Done } else { Progress::Damaged })
    }

    /// Whether a join of kubexm has succeeded unobserved. The unit shows it as long as systemd keeps it. After a reboot
    /// a worker is identified by its missing bootstrap kubeconfig, a control plane by etcd and the API server.
    fn ended_unseen(&self, machine: &Machine, mark: &Mark) -> Result<bool, OpError> {
        for act in [machine.act(), mark.act.as_ref()].into_iter().flatten() {
            if let Some(well) = transient::ended(machine, act)? {
                return Ok(well);
            }
        }
        let kubelet = systemd::show(machine, KUBELET)?.active();
        // kubelet.conf may have been given before the join; kubelet's configuration is kubeadm's.
        if !kubelet || machine.path(BOOTSTRAP_CONF).exists() || !machine.path(KUBELET_CONFIG).is_file() {
            return Ok(false);
        }
        Ok(!self.0.control_plane
            || ((!self.gets_member() || members::listed(machine)? == Listed::Yes)
                && machine.try_run(&kubectl(["get", "--raw", "/readyz"]))?.code == 0))
    }

    /// Records an end that was not recorded, or starts a stopped kubelet; missing files cannot be created again.
    fn fix(&self, machine: &Machine) -> Result<(), OpError> {
        let missing = self.missing(machine);
        if !missing.is_empty() {
            return Err(OpError::other(format!(
                "this node was joined by kubexm, and {} is missing now; it is not joined again, since that would \
                 delete what it has: put the file back, or `{}` the node yourself, then run again",
                missing.join(", "),
                own_etcd::by_hand(machine)
            )));
        }
        if self.gets_member() && members::listed(machine)? == Listed::No {
            return Err(OpError::other(
                "this control plane was joined by kubexm, and etcd's member list does not have it any more: somebody \
                 removed it; `kubeadm reset` the node yourself and delete its node object, then run again",
            ));
        }
        let unrecorded = mark::read(machine, Of::Join)?.is_some_and(|mark| !mark.ended_well);
        if unrecorded {
            return self.ended(machine);
        }
        systemd::start_anew(machine, KUBELET)
    }
}

/// A file with secrets that is deleted on drop.
pub(crate) struct SecretFile<'a> {
    machine: &'a Machine,
    path: &'static str,
}

impl<'a> SecretFile<'a> {
    pub(crate) fn write(machine: &'a Machine, path: &'static str, bytes: &[u8]) -> Result<Self, OpError> {
        machine.write_file(path, bytes, Access::mode(0o600))?;
        Ok(Self { machine, path })
    }
}

impl Drop for SecretFile<'_> {
    fn drop(&mut self) {
        // It is below /run and readable only by root; the next reset tries again.
        let _ = fsio::remove(&self.machine.path(self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};

    impl ActCases for KubeadmJoin {
        const TESTED: Tested<ActCase<Self>> = Tested::In("join.rs");
    }
}
