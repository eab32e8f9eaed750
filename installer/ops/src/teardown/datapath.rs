//! A network's switch in the kernel, which outlives its programs and which no `ip link delete` removes.
//!
//! A host may have an Open vSwitch of its own, whose datapath, links and folders have the same names: nothing here is done on a host
//! without the mark of the network.

use std::path::Path;

use kubexm_plan::network::{self, Datapath};

use super::{aside, mounts};
use crate::{Machine, OpError};

const LINKS: &str = "/sys/class/net";

/// The switches of networks whose mark is on the host.
fn marked(machine: &Machine) -> impl Iterator<Item = &'static Datapath> {
    aside::own_networks(machine).into_iter().filter_map(|network| network.datapath)
}

/// Those that the kernel has.
pub(super) fn all(machine: &Machine) -> Vec<&'static str> {
    let is_there = |name: &&str| machine.path(format!("{LINKS}/{name}")).exists();
    marked(machine).map(|datapath| datapath.name).filter(is_there).collect()
}

/// Names of the processes of any such switch.
pub(crate) fn daemons() -> impl Iterator<Item = &'static str> {
    network::any().filter_map(|network| network.datapath).flat_map(|datapath| datapath.daemons).copied()
}

/// Rules that a switch's programs have put into chains of others without a comment.
pub(super) fn rules(machine: &Machine) -> Vec<&'static str> {
    marked(machine).flat_map(|datapath| datapath.rules).copied().collect()
}

/// Links that are ports of a switch and stay without it: tunnels, and those of pods. Without it they have no master that would tell.
pub(super) fn links(machine: &Machine) -> Result<Vec<String>, OpError> {
    let all = names(machine)?;
    let of = |datapath: &'static Datapath| {
        all.iter().filter(|(name, _)| is_of(datapath, name)).map(|(name, _)| name.clone())
    };
    Ok(marked(machine).flat_map(of).collect())
}

/// Every link, and its master.
fn names(machine: &Machine) -> Result<Vec<(String, Option<String>)>, OpError> {
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let master = |path: &Path| name(&std::fs::read_link(path.join("master")).ok()?);
    let all = mounts::entries(&machine.path(LINKS))?;
    Ok(all.iter().filter_map(|path| Some((name(path)?, master(path)))).collect())
}

/// A tunnel, or a link of a pod: `4f2a91b03c7d_h`, `4f2a91b0_net1_h`.
fn is_of(datapath: &Datapath, name: &str) -> bool {
    let digits = name.strip_suffix(datapath.pods).map(|rest| rest.split('_').next().unwrap_or_default());
    let of_a_pod = digits.is_some_and(|digits| digits.len() > 1 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    of_a_pod || datapath.tunnels.contains(&name)
}

/// Links of the host that are ports of a switch. (Those that the switch has made itself, `br-int` and `ovn0`, have no master.)
pub(crate) fn of_the_host(machine: &Machine) -> Result<Vec<String>, OpError> {
    let all = names(machine)?;
    let of = |datapath: &'static Datapath| {
        let is_port = |(name, master): &&(String, Option<String>)| {
            master.as_deref() == Some(datapath.name) && !is_of(datapath, name)
        };
        all.iter().filter(is_port).map(|(name, _)| name.clone())
    };
    Ok(marked(machine).flat_map(of).collect())
}

/// Refuses a switch with a link of the host: its addresses are on a port of the switch, and would be gone with that.
pub fn refuse(machine: &Machine) -> Result<(), OpError> {
    let foreign = of_the_host(machine)?;
    if foreign.is_empty() {
        return Ok(());
    }
    Err(OpError::other(format!(
        "{} of the host is a port of the pod network's switch: its addresses are on a bridge of that, and would be gone with it; delete what \
         has put it there (`kubectl get provider-networks`), wait until the link has its addresses again, and run again",
        foreign.join(", ")
    )))
}

/// Removes the switches with their own ports. Pods must have been stopped, and the programs of the switch with them.
pub(super) fn remove(machine: &Machine) -> Result<(), OpError> {
    refuse(machine)?;
    all(machine).into_iter().try_for_each(|name| machine.system().delete_datapath(name))
}
