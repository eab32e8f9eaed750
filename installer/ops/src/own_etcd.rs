//! A member of an etcd that kubexm runs itself: whether a host has one, since etcd's data is not kubeadm's then, and whether it may be
//! restarted.

use std::time::{Duration, Instant};

use kubexm_plan::{etcd, state_folders};

pub(crate) use crate::etcd_unit::has_member;
use crate::ops::act::members::{Client, LOCAL, Member};
use crate::{Machine, OpError, fsio};

/// Others that were restarted right before may be electing a leader.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// A rollback restarts one member right after another, without a step that waits for it in between. Well below the time that a step has,
/// since a host that is off answers nothing for seconds.
pub(crate) const AFTER_EACH_OTHER: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(500);

/// kubeadm's own reset, as an operator runs it: without a static pod of etcd it takes etcd's usual folder for its own and deletes
/// it (removeetcdmember.go), a member of ours or not.
pub(crate) fn by_hand(machine: &Machine) -> &'static str {
    if has_member(machine) { "kubeadm reset --skip-phases=remove-etcd-member" } else { "kubeadm reset" }
}

/// The folders that must be cleared before an init or a join can be retried here.
pub(crate) fn cleared(machine: &Machine) -> Result<Vec<String>, OpError> {
    let others = state_folders::cleared().into_iter().filter(|path| *path != state_folders::ETCD);
    let mut all: Vec<String> = others.map(str::to_owned).collect();
    if !has_member(machine) {
        // The usual one too: kubeadm takes it for etcd's where it does not find another, and an earlier try may have named one.
        all.extend([data_dir(machine)?, state_folders::ETCD.to_owned()]);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The folder with the data of the host's member of etcd, kubeadm's or ours. What the member runs with decides; before it is there,
/// the recipe's file, which an earlier try with another cluster.yaml may have left.
pub(crate) fn data_dir(machine: &Machine) -> Result<String, OpError> {
    let named = if has_member(machine) {
        let config = fsio::read_text(&machine.path(etcd::CONFIG))?.unwrap_or_default();
        config.lines().find_map(|line| line.strip_prefix("data-dir:")).map(str::to_owned)
    } else if let Some(runs_with) = of_static_pod(machine)? {
        Some(runs_with)
    } else {
        fsio::read_text(&machine.path(etcd::DATA_DIR))?
    };
    let named = named.map(|text| text.trim().trim_matches('"').to_owned()).filter(|path| path.starts_with('/'));
    Ok(named.unwrap_or_else(|| state_folders::ETCD.to_owned()))
}

/// What kubeadm's etcd is started with, also while a restore has stopped it.
fn of_static_pod(machine: &Machine) -> Result<Option<String>, OpError> {
    for folder in ["/etc/kubernetes/manifests", "/etc/kubernetes/kubexm-stopped"] {
        let text = fsio::read_text(&machine.path(format!("{folder}/etcd.yaml")))?.unwrap_or_default();
        if let Some(data) = text.lines().find_map(|line| line.trim().strip_prefix("- --data-dir=")) {
            return Ok(Some(data.to_owned()));
        }
    }
    Ok(None)
}

/// Refuses the restart of a member that works, if the others would be left without a majority. Before it was healthy for the first
/// time there is nothing to lose. `patience`: how long they may take.
pub(crate) fn may_restart(machine: &Machine, patience: Duration) -> Result<(), OpError> {
    let files = [etcd::CA, etcd::ADMIN_CERT, etcd::ADMIN_KEY].map(str::to_owned);
    let client = Client::of_files(machine, &files)?;
    let Some(client) = client.filter(|_| machine.path(etcd::FORMED).is_file()) else { return Ok(()) };
    // One that does not answer serves nobody.
    let Ok(members) = client.list(machine, LOCAL) else { return Ok(()) };
    let own = own_name(machine)?;
    let voters: Vec<&Member> = members.iter().filter(|member| !member.learner).collect();
    let begun = Instant::now();
    let down = loop {
        let others = voters.iter().filter(|member| member.name != own);
        let down: Vec<String> =
            others.filter(|member| !is_healthy(machine, &client, member)).map(|member| title(member)).collect();
        // Without this one: more than half of all.
        if down.is_empty() || voters.len().saturating_sub(1 + down.len()) * 2 > voters.len() {
            return Ok(());
        }
        if begun.elapsed() >= patience || !machine.is_real() {
            break down;
        }
        std::thread::sleep(PAUSE);
    };
    Err(OpError::other(format!(
        "a restart of this member of etcd ({own}) would leave the cluster without a majority, since these are not healthy: {}. Mend them \
         first (`kubexm-install status`, `journalctl -u {}` there), then run again; it was not restarted",
        down.join(", "),
        etcd::UNIT
    )))
}

fn own_name(machine: &Machine) -> Result<String, OpError> {
    let config = fsio::read_text(&machine.path(etcd::CONFIG))?.unwrap_or_default();
    let name = config.lines().find_map(|line| line.strip_prefix("name:"));
    Ok(name.unwrap_or_default().trim().trim_matches('"').to_owned())
}

fn is_healthy(machine: &Machine, client: &Client, member: &Member) -> bool {
    let answers = |url: &String| client.status(machine, url).is_ok_and(|status| status.trouble.is_none());
    member.clients.iter().any(answers)
}

fn title(member: &Member) -> String {
    if member.name.is_empty() { member.id.clone() } else { member.name.clone() }
}
