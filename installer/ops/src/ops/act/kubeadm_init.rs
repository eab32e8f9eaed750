//! `kubeadm init`.
//!
//! kubexm's [`mark`] distinguishes its half-done init from another cluster.

use std::time::{Duration, Instant};

use kubexm_plan::op::{KubeadmInit, Progress, RestoredEtcd};
use kubexm_plan::{Facts, Op, ledger};
use kubexm_spec::Digest;

use super::ignored::ignored;
use super::mark::{self, Mark, Of};
use super::members::Rest;
use super::perform::Perform;
use super::{files, from_backup, kubeadm_reset};
use crate::kube::kubectl;
use crate::system::Program;
use crate::{Machine, OpError, fsio, own_etcd, paths};

/// kubeadm pulls no images (they were loaded before) and waits four minutes for the control plane by default.
const LIMIT_S: u64 = 900;

/// How long the API server may take to answer after an init with an unknown result, before the init counts as half
/// done.
const COMES_UP: Duration = Duration::from_secs(60);

impl Perform for KubeadmInit {
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        observe(machine, self.backup.as_ref())
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        converge(self, machine)
    }
}

fn observe(machine: &Machine, backup: Option<&RestoredEtcd>) -> Result<Progress, OpError> {
    let mark = mark::read(machine, Of::Init)?;
    let traces = kubeadm_reset::traces(machine)?;
    let whole = missing(machine).is_empty();
    Ok(match mark {
        None if traces.is_empty() => Progress::NotBegun,
        // It joined, and is the first control plane since the one with the init was deleted.
        None if whole && has_joined(machine)? => Progress::Done,
        None => Progress::Foreign,
        Some(Mark { ended_well: true, .. }) if whole => Progress::Done,
        // The cluster may have been used and has data: it is never cleared automatically.
        Some(Mark { ended_well: true, .. }) if !traces.is_empty() => Progress::Damaged,
        Some(mark) if mark.still_running(machine)?.is_some() => Progress::HalfDone,
        // The agent was killed between the end of kubeadm and the update of the mark: only the record of the end is missing. What tells it
        // is in a backup from the beginning.
        Some(_) if whole && backup.is_none() && last_phases_done(machine)? => Progress::Damaged,
        Some(_) if traces.is_empty() => Progress::NotBegun,
        Some(_) => Progress::HalfDone,
    })
}

fn has_joined(machine: &Machine) -> Result<bool, OpError> {
    Ok(mark::read(machine, Of::Join)?.is_some_and(|mark| mark.ended_well))
}

fn converge(op: &KubeadmInit, machine: &Machine) -> Result<(), OpError> {
    let (config, socket, backup) = (&op.config, &op.cri_socket, op.backup.as_ref());
    let digest = fsio::read(&machine.path(config))?.map(Digest::of);
    if digest.is_none() {
        return Err(OpError::other(format!("{config} is not there: kubeadm's config must be written before its init")));
    }
    let mut init = Program::new("kubeadm").args(["init", "--config", config, "--skip-token-print"]).within(LIMIT_S);
    let mut ignore = ignored(machine, &op.ignore)?;
    if backup.is_some() {
        ignore.push(from_backup::ignored(machine)?);
    }
    if !ignore.is_empty() {
        init = init.arg(format!("--ignore-preflight-errors={}", ignore.join(",")));
    }
    let progress = observe(machine, backup)?;
    if progress != Progress::Done {
        from_backup::refuse_without(machine, backup)?;
    }
    match progress {
        Progress::Done => return mark::write(machine, Of::Init, true, digest),
        Progress::Foreign => {
            return Err(OpError::other(format!(
                "this node already has a Kubernetes that kubexm did not install ({}); `{}` it yourself if \
                 nobody needs it, then run again",
                kubeadm_reset::traces(machine)?.join(", "),
                own_etcd::by_hand(machine)
            )));
        }
        // Without a recorded end, a later run that finds the API server down would take this cluster for a half-done init.
        Progress::Damaged if missing(machine).is_empty() => return end(machine, backup, digest),
        Progress::Damaged => {
            return Err(OpError::other(format!(
                "this node's control plane was set up by kubexm, and {} is missing now; it is not set up again, since \
                 that would delete its data: put the file back (`kubeadm init phase kubeconfig` and `kubeadm init \
                 phase control-plane` with --config {config} write them), or `{}` it yourself if nobody \
                 needs it, then run again",
                missing(machine).join(", "),
                own_etcd::by_hand(machine)
            )));
        }
        Progress::HalfDone => {
            let running = mark::read(machine, Of::Init)?.map_or(Ok(None), |mark| mark.still_running(machine))?;
            let ended_well = match running {
                // Started by a run that was interrupted: wait for it. If it fails, it is cleared and repeated.
                Some(act) => machine.with_act(act).run_act(&init).is_ok(),
                None => backup.is_none() && missing(machine).is_empty() && comes_up(machine)?,
            };
            if ended_well {
                return end(machine, backup, digest);
            }
            if was_used(machine)? {
                return Err(OpError::other(
                    "this node's control plane was set up and used by kubexm, and its API server does not answer now; \
                     it is not set up again, since that would delete its data: get kubelet, etcd and kube-apiserver \
                     running (`crictl ps -a`, `journalctl -u kubelet`), then run again",
                ));
            }
            kubeadm_reset::clear(machine, socket, Rest::Lives)?;
        }
        Progress::NotBegun => {}
    }
    mark::write(machine, Of::Init, false, digest)?;
    if let Some(backup) = backup {
        from_backup::restore(machine, backup)?;
    }
    machine.run_act(&init)?;
    end(machine, backup, digest)
}

/// Without this record an init counts as half done, so all that belongs to it comes before.
fn end(machine: &Machine, backup: Option<&RestoredEtcd>, config: Option<Digest>) -> Result<(), OpError> {
    if let Some(backup) = backup {
        from_backup::forget_nodes(machine, backup)?;
    }
    mark::write(machine, Of::Init, true, config)
}

/// Whether a later step has changed the cluster: its init had ended then, whatever the mark says. Earlier versions of this
/// program could leave a mark without an end.
fn was_used(machine: &Machine) -> Result<bool, OpError> {
    let records = machine.ledger().records()?;
    let changes = |op: &Op| {
        let of_node =
            matches!(op, Op::NodeLabel(_) | Op::NodeAnnotation(_) | Op::NodeUntainted(_) | Op::NodeTainted(_));
        of_node || matches!(op, Op::KubeObject(_) | Op::NodePruned(_))
    };
    Ok(ledger::any_not_rolled_back(records.iter(), changes))
}

/// Results of a successful init that are missing.
fn missing(machine: &Machine) -> Vec<&'static str> {
    [paths::ADMIN_CONF].into_iter().chain(files::MANIFESTS).filter(|path| !machine.path(path).is_file()).collect()
}

/// After a reboot, or right after kubeadm's end, the API server needs some time; clearing the cluster then would lose
/// it.
fn comes_up(machine: &Machine) -> Result<bool, OpError> {
    let until = Instant::now() + COMES_UP;
    loop {
        if answers(machine)? {
            return last_phases_done(machine);
        }
        if !machine.is_real() || Instant::now() > until {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_secs(2));
    }
}

fn answers(machine: &Machine) -> Result<bool, OpError> {
    Ok(machine.try_run(&kubectl(["get", "--raw", "/readyz"]))?.code == 0)
}

/// Whether the API server answers, and the two add-ons that kubeadm applies last exist; one, where the pod network does the work of the
/// other.
fn last_phases_done(machine: &Machine) -> Result<bool, OpError> {
    let config = fsio::read_text(&machine.path(paths::KUBEADM_CONFIG))?.unwrap_or_default();
    let skipped = config.lines().any(|line| line.trim() == "- addon/kube-proxy");
    let proxy = (!skipped).then_some("daemonset/kube-proxy");
    let last = ["get", "--namespace", "kube-system", "deployment/coredns"].into_iter().chain(proxy);
    Ok(answers(machine)? && machine.try_run(&kubectl(last.chain(["--output=name"])))?.code == 0)
}

/// The text of that config, unless the file was edited, is gone or is longer than the controller takes.
pub(crate) fn text_of(config: Option<&Digest>, machine: &Machine) -> Result<Option<String>, OpError> {
    let Some(config) = config else { return Ok(None) };
    // An upgrade that failed behind kubeadm has left the first one as it was before, and the second one as kubeadm was given it.
    for path in [paths::KUBEADM_CONFIG, paths::KUBEADM_UPGRADE_CONFIG] {
        let text = fsio::read_text(&machine.path(path))?;
        if let Some(text) = text.filter(|text| text.len() <= Facts::KUBEADM_CONFIG_MOST && Digest::of(text) == *config)
        {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// Digest of the config of kubexm's init, after it has succeeded.
pub(crate) fn config_of_the_cluster(machine: &Machine) -> Result<Option<Digest>, OpError> {
    Ok(mark::read(machine, Of::Init)?.filter(|mark| mark.ended_well).and_then(|mark| mark.config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};
    use crate::dispatch;
    use crate::fake::host::{Host, SOCKET, same};
    use kubexm_plan::op::KubeadmReset;

    fn init() -> KubeadmInit {
        KubeadmInit {
            config: "/etc/kubexm/kubeadm.yaml".into(),
            cri_socket: SOCKET.into(),
            ignore: vec![],
            backup: None,
        }
    }

    impl ActCases for KubeadmInit {
        const TESTED: Tested<ActCase<Self>> = Tested::Here(&[
            ActCase {
                name: "kubeadm init",
                host: |h| {
                    h.ready_for_init();
                    init()
                },
                progress: Progress::NotBegun,
                undo: Some(|| KubeadmReset { cri_socket: SOCKET.into() }.into()),
            },
            ActCase {
                name: "a kubeadm init that was killed",
                host: |h| {
                    h.ready_for_init();
                    h.put("/run/kubexm-double/kill-kubeadm-init", "");
                    dispatch::converge(&init().into(), &h.machine).expect_err("half-way");
                    init()
                },
                progress: Progress::HalfDone,
                undo: Some(|| KubeadmReset { cri_socket: SOCKET.into() }.into()),
            },
        ]);
    }

    #[test]
    fn kubeadm_init_is_rolled_back_by_reset() {
        let host = Host::fresh();
        host.ready_for_init();
        let op = || Op::from(init());
        let before = host.tree();
        dispatch::converge(&op(), &host.machine).expect("init");
        assert!(dispatch::observe(&op(), &host.machine).expect("observe").satisfied);
        let reset = Op::from(KubeadmReset { cri_socket: SOCKET.into() });
        assert!(!dispatch::observe(&reset, &host.machine).expect("observe").satisfied);
        dispatch::converge(&reset, &host.machine).expect("reset");
        assert!(dispatch::observe(&reset, &host.machine).expect("observe").satisfied);
        let mut after = host.tree();
        // kubeadm empties these and leaves them.
        after.retain(|path, _| {
            !["etc/kubernetes", "var/lib/etcd", "var/lib/kubelet"].iter().any(|folder| path.starts_with(folder))
        });
        same(&before, &after, "reset");
    }

    #[test]
    fn a_config_that_is_longer_than_the_controller_takes_is_not_sent() {
        let host = Host::fresh();
        let is_sent = |length: usize| {
            let text = "x".repeat(length);
            host.put(paths::KUBEADM_CONFIG, &text);
            text_of(Some(&Digest::of(&text)), &host.machine).expect("no error").is_some()
        };
        assert!(is_sent(Facts::KUBEADM_CONFIG_MOST));
        assert!(!is_sent(Facts::KUBEADM_CONFIG_MOST + 1));
    }
}
