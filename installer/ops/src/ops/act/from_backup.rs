//! A cluster that is made from a backup: what its `kubeadm init` does before and after that of another one.
//!
//! Every request of this is to this host's own API server: at the cluster's address another machine may answer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kubexm_plan::backup::FROM_BACKUP;
use kubexm_plan::kubeadm_certificates::CLUSTER_CA;
use kubexm_plan::op::RestoredEtcd;
use kubexm_spec::cluster::API_PORT;
use serde_json::Value;

use crate::etcd_data::{self, MemberData};
use crate::kube::kubectl;
use crate::probe::authority;
use crate::{Machine, OpError, fsio, own_etcd};

/// How long the API server may take to let its new administrator in.
const LETS_IN: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(2);
/// Node objects that one request deletes.
const AT_ONCE: usize = 50;

/// An init without a backup on a host of a cluster that is made from one would make an empty cluster with its id.
pub(super) fn refuse_without(machine: &Machine, backup: Option<&RestoredEtcd>) -> Result<(), OpError> {
    match backup {
        None if machine.path(FROM_BACKUP).exists() => Err(OpError::other(format!(
            "this host belongs to a cluster that is made from its backup ({FROM_BACKUP}): an init without that would make an empty one; \
             continue with `kubexm-install create --from-backup`, or remove what is there with `kubexm-install reset`"
        ))),
        _ => Ok(()),
    }
}

/// kubeadm's check that nobody has put data into etcd's folder before it.
pub(super) fn ignored(machine: &Machine) -> Result<String, OpError> {
    Ok(format!("DirAvailable-{}", own_etcd::data_dir(machine)?.replace('/', "-")))
}

/// Gives etcd its data, right before the init: the member begins as the only one.
pub(super) fn restore(machine: &Machine, backup: &RestoredEtcd) -> Result<(), OpError> {
    refuse_old_cluster(machine, backup)?;
    etcd_data::can_restore(machine)?;
    let folder = machine.path(own_etcd::data_dir(machine)?);
    let (member, scratch) = (folder.join("member"), folder.join(".kubexm-restore"));
    // An attempt that was interrupted: no init has seen it.
    etcd_data::remove_all(&member)?;
    fsio::make_folders(&folder)?;
    let initial_cluster = format!("{}={}", backup.node, backup.peer);
    let data = MemberData {
        archive: &backup.archive,
        slots: &backup.slots,
        id: &backup.id,
        name: &backup.node,
        peer: &backup.peer,
        initial_cluster: &initial_cluster,
    };
    // Within etcd's folder, which a rollback clears: it is not encrypted.
    etcd_data::restore(machine, &data, (&folder.join(".kubexm-restore.db"), &scratch))?;
    fsio::rename(&scratch.join("member"), &member)?;
    etcd_data::remove_all(&scratch)
}

/// kubeadm and kubelet use the cluster's address: what they write must not reach the cluster of before.
fn refuse_old_cluster(machine: &Machine, backup: &RestoredEtcd) -> Result<(), OpError> {
    let Some(endpoint) = backup.endpoint.as_deref().filter(|_| machine.is_real()) else { return Ok(()) };
    let address: SocketAddr = endpoint
        .parse()
        .map_err(|_| OpError::other(format!("{endpoint:?} is no address; this is a fault of the plan")))?;
    let ca = fsio::read_text(&machine.path(CLUSTER_CA))?.unwrap_or_default();
    match authority::answers(address, &ca) {
        Some(_) => Ok(()),
        None => Err(OpError::other(format!(
            "an API server of the cluster of before answers at {endpoint}: shut it down, or take it from the load balancer, then run \
             again; nothing was sent to it"
        ))),
    }
}

/// Deletes the node objects of the backup, so that their pods are made anew on the nodes that there are: all but this host's, since no
/// other has joined yet.
pub(super) fn forget_nodes(machine: &Machine, backup: &RestoredEtcd) -> Result<(), OpError> {
    let others: Vec<String> = nodes(machine)?.into_iter().filter(|name| *name != backup.node).collect();
    for some in others.chunks(AT_ONCE) {
        let names = some.iter().map(String::as_str);
        let delete = ["delete", "node"].into_iter().chain(names).chain(["--ignore-not-found", "--wait=false"]);
        machine.run(&local(delete))?;
    }
    Ok(())
}

fn nodes(machine: &Machine) -> Result<Vec<String>, OpError> {
    let begun = Instant::now();
    let list = loop {
        match machine.run(&local(["get", "-o", "json", "nodes"])) {
            Ok(output) => break output,
            Err(error) if !machine.is_real() || begun.elapsed() > LETS_IN => return Err(error),
            Err(_) => std::thread::sleep(PAUSE),
        }
    };
    let list: Value = serde_json::from_slice(&list.stdout)
        .map_err(|error| OpError::other(format!("`kubectl get nodes` did not return JSON: {error}")))?;
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = items.iter().filter_map(|node| node.pointer("/metadata/name")?.as_str().map(str::to_owned));
    // A name that could be taken for an option is none.
    Ok(names.filter(|name| !name.starts_with('-')).collect())
}

fn local<'a>(args: impl IntoIterator<Item = &'a str>) -> crate::system::Program {
    let server = format!("https://127.0.0.1:{API_PORT}");
    kubectl(["--server".to_owned(), server].into_iter().chain(args.into_iter().map(str::to_owned)))
}
