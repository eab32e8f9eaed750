//! The host has no other Kubernetes, container runtime or etcd, and no files where kubexm's would be.

use kubexm_plan::facts::StateFolder;
use kubexm_plan::runtime::docker::FOLDERS;
use kubexm_plan::state_folders::is_below;
use kubexm_spec::cluster::{RegistryKind, RuntimeKind};
use kubexm_spec::counted;

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;
use crate::modules::os::is_filled;
use crate::paths;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    look(input, false, report);
}

/// The cluster is there, and hosts of another one are no reason to remove that.
pub(super) fn before_upgrade(input: &PreflightInput<'_>, report: &mut Report) {
    look(input, true, report);
}

fn look(input: &PreflightInput<'_>, upgrades: bool, report: &mut Report) {
    let own = &input.cx.cluster.name;
    // If a stamp cannot be read, it is unknown what belongs to this cluster; `membership` reports that.
    for host in input.hosts.iter().filter(|host| host.facts.unreadable_stamp.is_none()) {
        let other = host.facts.stamp.as_ref().filter(|stamp| stamp.cluster != *own);
        // `kubeadm reset` alone would leave services, files and kubexm's ledger, which the next cluster would find.
        let reset = other.map(|stamp| match upgrades {
            true => format!(
                "use a bundle that was built from the cluster.yaml of {:?} if that is the cluster to upgrade, or take this host out of \
                 cluster.yaml",
                stamp.cluster
            ),
            false => format!(
                "use another host, or remove that cluster with `kubexm-install reset -f <cluster.yaml of {:?}>` if nobody needs it",
                stamp.cluster
            ),
        });
        if let (Some(stamp), Some(reset)) = (other, &reset) {
            report.fail(
                host.name(),
                format!("the stamp of cluster {:?} (run {})", stamp.cluster, stamp.run),
                format!("a host that is free, or belongs to {own:?}"),
                reset.clone(),
            );
        }
        let other_docker = docker(input, host, report);
        folders(input, host, other_docker, report);
        // What is in a folder that is moved aside moves with it.
        let moves = |what: &str| {
            input.cx.set_aside && host.facts.state_folders.iter().any(|folder| is_below(what, &folder.path))
        };
        let named = |what: &str| other_docker && FOLDERS.iter().any(|folder| is_below(what, folder));
        let found = host.facts.leftovers.iter().filter(|l| !l.ours && !host.ours && !moves(&l.what) && !named(&l.what));
        for leftover in found {
            let fix = reset.as_deref().unwrap_or(
                "use another host, or remove it if nobody needs it (`kubeadm reset`, the packages, their folders): kubexm's would \
                 replace it",
            );
            report.fail(
                host.name(),
                leftover.what.clone(),
                "a host without Kubernetes, container runtime or etcd of its own",
                fix,
            );
        }
    }
}

/// Harbor's engine writes its key to /etc/docker as any other does, and so does that of a node; two of them on a host are taken for each
/// other. Returns whether there is another one.
fn docker(input: &PreflightInput<'_>, host: &ObservedHost<'_>, report: &mut Report) -> bool {
    let cluster = &input.cx.cluster;
    let for_harbor = host.roles.registry && cluster.registry.kind == RegistryKind::Harbor;
    let for_node = host.roles.in_cluster() && cluster.runtime.kind == RuntimeKind::Docker;
    let theirs: Vec<&str> =
        host.facts.docker.iter().filter(|found| !found.ours).map(|found| found.what.as_str()).collect();
    let found = (for_harbor || for_node) && !host.ours && !theirs.is_empty();
    if found {
        report.fail(
            host.name(),
            format!("another docker: {}", theirs.join(", ")),
            match for_harbor {
                true => "a host without docker: Harbor comes with an engine of its own",
                false => "a host without docker: kubexm-install brings its own",
            },
            "use another host, or remove it if nobody needs it (its packages, /etc/docker, /var/lib/docker)",
        );
    }
    found
}

/// Nodes need all of these folders, other members of etcd only etcd's, and hosts that only serve others none.
fn folders(input: &PreflightInput<'_>, host: &ObservedHost<'_>, other_docker: bool, report: &mut Report) {
    if host.ours {
        return;
    }
    // What another docker has is named with it.
    let named = |path: &str| other_docker && FOLDERS.contains(&path);
    let needed = |path: &str| path == paths::STATE || (is_filled(input.cx.cluster, host.roles, path) && !named(path));
    // What only a cluster leaves is reported as a leftover.
    let has_leftover = |folder: &StateFolder| {
        let mut leftovers = host.facts.leftovers.iter().filter(|leftover| !leftover.ours);
        leftovers.any(|leftover| is_below(&leftover.what, &folder.path))
    };
    for folder in host.facts.state_folders.iter().filter(|folder| needed(&folder.path)) {
        if folder.path == paths::STATE {
            report.fail(
                host.name(),
                in_words(folder),
                format!("{} to have nothing of anybody else's: it is kubexm's own", folder.path),
                "move that elsewhere",
            );
            continue;
        }
        if let Some(moved) = &folder.moved {
            report.fail(
                host.name(),
                format!("{moved}: files that an earlier run moved aside (--set-aside) and did not restore"),
                "no files that an earlier run moved aside",
                format!("move it back to {} by hand, or elsewhere", folder.path),
            );
        } else if !input.cx.set_aside && !has_leftover(folder) {
            report.fail(
                host.name(),
                in_words(folder),
                format!("{} to be empty: Kubernetes creates it and writes to it", folder.path),
                "move the files elsewhere, or use --set-aside: it moves them aside, and a rollback or reset restores them",
            );
        }
    }
    for mount in host.facts.foreign_mounts.iter().filter(|mount| needed(&mount.folder)) {
        report.fail(
            host.name(),
            format!("{mount} mounted below {}", mount.folder),
            format!("{} to be empty: Kubernetes creates it and writes to it", mount.folder),
            format!("unmount it; a disk for {0} is mounted at {0} itself", mount.folder),
        );
    }
}

fn in_words(folder: &StateFolder) -> String {
    let more = if folder.files > folder.first.len() as u64 { ", \u{2026}" } else { "" };
    let least = if folder.files >= StateFolder::MOST { "at least " } else { "" };
    format!("{least}{} in {} ({}{more})", counted(folder.files, "file"), folder.path, folder.first.join(", "))
}
