//! The host has no other Kubernetes, container runtime or etcd, and no files where kubexm's would be.

use kubexm_plan::facts::StateFolder;
use kubexm_plan::state_folders::{self, is_below};
use kubexm_spec::counted;

use super::report::Report;
use super::site::{Seen, Site};

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    let own = &site.cx.cluster.name;
    // Of a host whose stamp cannot be read nobody knows what is ours: that is a finding of its own.
    for seen in site.hosts.iter().filter(|seen| seen.facts.unreadable_stamp.is_none()) {
        let other = seen.facts.stamp.as_ref().filter(|stamp| stamp.cluster != *own);
        // `kubeadm reset` alone would leave services, files and kubexm's ledger, which the next cluster would find.
        let reset = other.map(|stamp| {
            format!(
                "remove that cluster with `kubexm-install reset -f <cluster.yaml of {:?}>` if nobody needs it",
                stamp.cluster
            )
        });
        if let (Some(stamp), Some(reset)) = (other, &reset) {
            report.fail(
                seen.name(),
                format!("the stamp of cluster {:?} (run {})", stamp.cluster, stamp.run),
                format!("a host that is free, or belongs to {own:?}"),
                format!("use another host, or {reset}"),
            );
        }
        folders(site, seen, report);
        // What is in a folder that is moved aside moves with it.
        let moves = |what: &str| {
            site.cx.set_aside && seen.facts.state_folders.iter().any(|folder| is_below(what, &folder.path))
        };
        for leftover in seen.facts.leftovers.iter().filter(|l| !l.ours && !seen.ours && !moves(&l.what)) {
            let away = reset.as_deref().unwrap_or(
                "remove it if nobody needs it (`kubeadm reset`, the packages, their folders): kubexm's would replace \
                 it",
            );
            report.fail(
                seen.name(),
                leftover.what.clone(),
                "a host without Kubernetes, container runtime or etcd of its own",
                format!("use another host, or {away}"),
            );
        }
    }
}

/// All of these folders are made on nodes, etcd's own on its other members, and none on hosts that only serve others.
fn folders(site: &Site<'_>, seen: &Seen<'_>, report: &mut Report) {
    if seen.ours {
        return;
    }
    let made = |path: &str| seen.roles.in_cluster() || (seen.roles.etcd && path == state_folders::ETCD);
    // Traces that only a cluster leaves are reported as a separate finding.
    let named = |folder: &StateFolder| {
        let mut leftovers = seen.facts.leftovers.iter().filter(|leftover| !leftover.ours);
        leftovers.any(|leftover| is_below(&leftover.what, &folder.path))
    };
    for folder in seen.facts.state_folders.iter().filter(|folder| made(&folder.path)) {
        if let Some(moved) = &folder.moved {
            report.fail(
                seen.name(),
                format!("{moved}, which an earlier --set-aside made and nothing has moved back"),
                "no trace of an earlier cluster",
                format!("move it back to {} by hand, or elsewhere", folder.path),
            );
        } else if !site.cx.set_aside && !named(folder) {
            report.fail(
                seen.name(),
                in_words(folder),
                format!("{} to be empty: the cluster makes and fills it", folder.path),
                "move that elsewhere, or give --set-aside, which moves it out of the way until a rollback or reset \
                 moves it back",
            );
        }
    }
    for mount in seen.facts.foreign_mounts.iter().filter(|mount| made(&mount.folder)) {
        report.fail(
            seen.name(),
            format!("{mount} mounted below {}", mount.folder),
            format!("{} to be empty: the cluster makes and fills it", mount.folder),
            format!("unmount it; a disk for {0} is mounted at {0} itself", mount.folder),
        );
    }
}

fn in_words(folder: &StateFolder) -> String {
    let more = if folder.files > folder.first.len() as u64 { ", \u{2026}" } else { "" };
    let least = if folder.files >= StateFolder::MOST { "at least " } else { "" };
    format!("{least}{} in {} ({}{more})", counted(folder.files, "file"), folder.path, folder.first.join(", "))
}
