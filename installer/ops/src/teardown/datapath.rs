//! A network's switch in the kernel, which outlives its programs and which no `ip link delete` removes.
//!
//! A host may have an Open vSwitch of its own, whose datapath, links and folders have the same names: nothing here is done on a host
//! without the mark of the network's own pods.

use std::path::PathBuf;

use kubexm_plan::network::{self, Datapath};

use super::{mounts, routes};
use crate::{Machine, OpError};

const LINKS: &str = "/sys/class/net";

/// The switches whose mark is on the host.
fn marked(machine: &Machine) -> impl Iterator<Item = &'static Datapath> + '_ {
    let is_marked = |datapath: &&Datapath| routes::places(machine, datapath.mark).iter().any(|mark| mark.exists());
    network::any().filter_map(|network| network.datapath).filter(is_marked)
}

fn has_link(machine: &Machine, name: &str) -> bool {
    machine.path(format!("{LINKS}/{name}")).exists()
}

/// Those that the kernel has.
pub(super) fn all(machine: &Machine) -> Vec<&'static str> {
    marked(machine).map(|datapath| datapath.name).filter(|name| has_link(machine, name)).collect()
}

/// Rules that a switch's programs have put into chains of others without a comment.
pub(super) fn rules(machine: &Machine) -> Vec<&'static str> {
    marked(machine).flat_map(|datapath| datapath.rules).copied().collect()
}

/// Links that are ports of a switch and stay without it: tunnels, and those of pods.
pub(super) fn links(machine: &Machine) -> Result<Vec<String>, OpError> {
    let mut found = Vec::new();
    for datapath in marked(machine) {
        let tunnels = datapath.tunnels.iter().filter(|name| has_link(machine, name));
        found.extend(tunnels.map(|name| (*name).to_owned()));
        found.extend(attached(machine, datapath)?.into_iter().filter(|name| is_of_a_pod(datapath, name)));
    }
    Ok(found)
}

/// Links whose master is the switch. (Those that it has made itself, `br-int` and `ovn0`, have none, and go with it.)
fn attached(machine: &Machine, datapath: &Datapath) -> Result<Vec<String>, OpError> {
    let is_attached = |path: &PathBuf| {
        std::fs::read_link(path.join("master"))
            .is_ok_and(|master| master.file_name().is_some_and(|name| name == datapath.name))
    };
    let all = mounts::entries(&machine.path(LINKS))?.into_iter();
    Ok(all.filter(is_attached).filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
}

/// `4f2a91b03c7d_h`.
fn is_of_a_pod(datapath: &Datapath, name: &str) -> bool {
    let digits = name.strip_suffix(datapath.pods);
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Refuses a switch with a link of the host: its addresses are on a port of the switch, and would be gone with that.
pub fn refuse(machine: &Machine) -> Result<(), OpError> {
    for datapath in marked(machine) {
        let is_foreign = |name: &String| !datapath.tunnels.contains(&name.as_str()) && !is_of_a_pod(datapath, name);
        let foreign: Vec<String> = attached(machine, datapath)?.into_iter().filter(is_foreign).collect();
        if !foreign.is_empty() {
            return Err(OpError::other(format!(
                "{} of the host is a port of the pod network's switch ({}): its addresses are on a bridge of that, and would be gone with it; \
                 delete what has put it there (`kubectl get provider-networks`), wait until the link has its addresses again, and run again",
                foreign.join(", "),
                datapath.name
            )));
        }
    }
    Ok(())
}

/// Removes the switches with their own ports. Pods must have been stopped, and the programs of the switch with them.
pub(super) fn remove(machine: &Machine) -> Result<(), OpError> {
    refuse(machine)?;
    all(machine).into_iter().try_for_each(|name| machine.system().delete_datapath(name))
}
