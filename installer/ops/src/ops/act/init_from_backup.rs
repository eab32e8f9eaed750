//! Before and after a `kubeadm init` that brings a backup's cluster back: its authorities and etcd's data are put where kubeadm finds them, and
//! the nodes that it had are deleted, since their hosts are gone or join again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubexm_plan::op::{InitFrom, SNAPSHOTS};
use serde_json::Value;

use crate::fsio::{self, Access};
use crate::kube::kubectl;
use crate::system::Program;
use crate::{Machine, OpError, backup, own_etcd, paths, snapshot};

const PKI: &str = "/etc/kubernetes/pki";
/// What signs for the cluster. kubeadm signs the rest with it.
const AUTHORITIES: [&str; 8] =
    ["ca.crt", "ca.key", "etcd/ca.crt", "etcd/ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key", "sa.pub"];
/// Far more than one has.
const MOST: u64 = 1 << 20;
/// As a restore onto the same hosts has it: clients that have seen later revisions must not take older data for newer.
const BUMP: &str = "1000000000";
const LIMIT_S: u64 = 3_600;
/// Fields of kubeadm's config that the data of etcd was made with, and that no init can change.
const FIXED: [&str; 3] = ["podSubnet", "serviceSubnet", "dnsDomain"];

/// Puts everything there. What is half there from an attempt before was removed.
pub(super) fn put(machine: &Machine, from: &InitFrom) -> Result<(), OpError> {
    let [slot] = from.slots.as_slice() else {
        return Err(OpError::other("an archive has one key; this is a fault of the plan"));
    };
    let (archive, key) = (machine.blob(&from.archive), machine.slot(slot)?);
    let inside = |name: &&str| format!("files{PKI}/{name}");
    let wanted: Vec<String> = AUTHORITIES.iter().map(inside).collect();
    let config = format!("files{}", paths::KUBEADM_CONFIG);
    let found = backup::files(&archive, key, wanted.iter().chain([&config]), MOST)?;
    same_networks(machine, found.get(&config).map(Vec::as_slice))?;
    put_authorities(machine, &found)?;
    put_data(machine, from, &archive, key)
}

/// Services keep their addresses, and pods theirs.
fn same_networks(machine: &Machine, of_backup: Option<&[u8]>) -> Result<(), OpError> {
    let Some(of_backup) = of_backup.map(fsio::to_text) else { return Ok(()) };
    let now = fsio::read_text(&machine.path(paths::KUBEADM_CONFIG))?.unwrap_or_default();
    let value = |text: &str, field: &str| {
        let line = text.lines().map(str::trim).find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.map(|value| value.trim().trim_matches('"').to_owned())
    };
    for field in FIXED {
        if let (Some(was), Some(now)) = (value(&of_backup, field), value(&now, field))
            && was != now
        {
            return Err(OpError::other(format!(
                "the cluster in the backup has {field} {was}, and cluster.yaml {now}: the objects in it have addresses and names of the former; \
                 correct spec.network (or spec.kubernetes.dnsDomain) in cluster.yaml"
            )));
        }
    }
    Ok(())
}

fn put_authorities(machine: &Machine, found: &BTreeMap<String, Vec<u8>>) -> Result<(), OpError> {
    let of = |name: &str| found.get(&format!("files{PKI}/{name}"));
    let missing: Vec<&str> = AUTHORITIES.into_iter().filter(|name| of(name).is_none()).collect();
    if !missing.is_empty() {
        return Err(OpError::other(format!(
            "the backup lacks {} of {PKI}: the control plane that it was made on did not have them; use a backup of another control plane",
            missing.join(", ")
        )));
    }
    for name in AUTHORITIES {
        let (path, Some(bytes)) = (format!("{PKI}/{name}"), of(name)) else { continue };
        match fsio::read(&machine.path(&path))? {
            // The site's own CA is put there before an init.
            Some(there) if there == *bytes => continue,
            Some(_) => {
                return Err(OpError::other(format!(
                    "{path} is another one than in the backup: spec.kubernetes.ca of cluster.yaml has to be the one that the cluster was made with, \
                     or has to be left out"
                )));
            }
            None => {}
        }
        let mode = if name.ends_with(".key") { 0o600 } else { 0o644 };
        machine.write_file(&path, bytes, Access::mode(mode))?;
    }
    Ok(())
}

/// etcd's folder with one member, of this host: the others join it as they join any cluster.
fn put_data(machine: &Machine, from: &InitFrom, archive: &std::path::Path, key: &[u8]) -> Result<(), OpError> {
    let data = own_etcd::data_dir(machine)?;
    let (member, scratch) = (machine.path(format!("{data}/member")), machine.path(format!("{data}/.kubexm-init")));
    let folder = machine.path(SNAPSHOTS);
    let database = folder.join("restore-init.db");
    fsio::private_folder(&folder)?;
    backup::sweep(machine)?;
    let restored = backup::extract(archive, key, &database).and_then(|()| {
        if !snapshot::is_sound(&database)? {
            let text = "the snapshot in the archive does not match its checksum; use another backup";
            return Err(OpError::other(text));
        }
        // As kubeadm does it: one that is there may be a disk of its own.
        if !machine.path(&data).is_dir() {
            fsio::private_folder(&machine.path(&data))?;
        }
        remove_all(&scratch)?;
        let text = |path: &PathBuf| path.display().to_string();
        let restore = Program::new("etcdutl")
            .args(["snapshot", "restore", &text(&database), "--data-dir", &text(&scratch)])
            .args(["--name", &from.name, "--initial-advertise-peer-urls", &from.peer])
            .args(["--initial-cluster", &format!("{}={}", from.name, from.peer)])
            .args(["--initial-cluster-token", &format!("kubexm-init-{}", from.archive.hex())])
            .args(["--bump-revision", BUMP, "--mark-compacted"])
            .within(LIMIT_S);
        machine.run(&restore).map(drop)
    });
    // It is not encrypted.
    let removed = fsio::remove(&database);
    fsio::remove_folder(&folder)?;
    restored?;
    removed?;
    remove_all(&member)?;
    fsio::rename(&scratch.join("member"), &member)?;
    remove_all(&scratch)
}

fn remove_all(path: &std::path::Path) -> Result<(), OpError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(OpError::path("remove", path)(error)),
        _ => Ok(()),
    }
}

/// kubeadm's check of etcd's folder, which has the data that was put there.
pub(super) fn check_to_ignore(machine: &Machine) -> Result<String, OpError> {
    Ok(format!("DirAvailable-{}", own_etcd::data_dir(machine)?.replace('/', "-")))
}

/// Deletes the nodes that the cluster had, but this one, before any host joins: kubeadm joins no host whose node is Ready, and a node is
/// that for a while after its host is gone. Pods that were bound to them are collected by Kubernetes.
pub(super) fn delete_other_nodes(machine: &Machine, own: &str) -> Result<(), OpError> {
    let get = kubectl(["get", "--raw", "/api/v1/nodes"]);
    let output = machine.run(&get)?;
    let list: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| OpError::other(format!("`{get}` did not return JSON: {error}")))?;
    let all = list["items"].as_array().into_iter().flatten();
    let names = all.filter_map(|node| node.pointer("/metadata/name")?.as_str()).filter(|name| *name != own);
    for name in names {
        machine.run(&kubectl(["delete", "node", name, "--ignore-not-found", "--wait=false"]))?;
    }
    Ok(())
}
