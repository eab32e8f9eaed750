//! Disk space for what will be put on the host, by mount point, computed from the manifest.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::facts::Disk;
use kubexm_spec::cluster::RegistryKind;
use kubexm_spec::manifest::{Artifact, Blob};
use kubexm_spec::{ArtifactKey, Kind, Program};

use super::input::{ObservedHost, PreflightInput, gib};
use super::report::{Report, Words, word};
use crate::modules::images;
use crate::packages::NodePackages;
use crate::preflight::Severity;
use crate::{paths, runtime};

/// Factor from a gzip archive's or layer's size to archive plus unpacked content.
const UNPACKED: u64 = 3;
/// etcd's default quota: it refuses writes to a larger database. cluster.yaml can set another one.
const ETCD: u64 = 2 << 30;
/// Folder where packages install their files.
const USR: &str = "/usr";
/// Files of the images of a cluster's own pods, unpacked, with room to spare.
const IMAGE_FILES: u64 = 20_000;
/// Logs and volumes of the system pods.
const KUBELET: u64 = 1 << 30;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for seen in &input.hosts {
        read_only(input, seen, report);
        if seen.roles.in_cluster() {
            xfs(input, seen, report);
            inodes(input, seen, report);
        }
        let mut needed: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
        for (path, bytes) in wanted(input, seen) {
            if let Some(disk) = disk_of(&seen.facts.disks, path) {
                let entry = needed.entry(&disk.mount).or_default();
                entry.0 += bytes;
                entry.1.push(path);
            }
        }
        // A host of this cluster already has most of it; the run reports if space runs out.
        let severity = if seen.ours { Severity::Warn } else { Severity::Fail };
        for disk in &seen.facts.disks {
            if let Some((bytes, places)) = needed.get(disk.mount.as_str()).filter(|(bytes, _)| *bytes > disk.free) {
                let words = Words {
                    found: format!("{} free on {}", gib(disk.free), disk.mount),
                    needed: format!("{} for {}", gib(*bytes), places.join(", ")),
                    fix: "free some space there, or mount a larger disk".to_owned(),
                };
                report.add(severity, Some(seen.name()), words);
            }
        }
    }
}

/// overlayfs refuses an xfs that was made without ftype (`mkfs.xfs` before 2016, EL7's first releases).
fn xfs(input: &PreflightInput<'_>, seen: &ObservedHost<'_>, report: &mut Report) {
    let data = input.cx.cluster.runtime.data_folder();
    let disk = disk_of(&seen.facts.disks, data);
    if let Some(disk) = disk.filter(|d| d.filesystem.as_deref().is_some_and(|f| f.contains("ftype=0"))) {
        report.fail(
            seen.name(),
            format!("{} is xfs with ftype=0", disk.mount),
            format!("a file system for {data} that overlayfs supports: ext4, or xfs with ftype=1"),
            format!("mount another file system at {data}, or recreate this one with ftype=1"),
        );
    }
}

fn read_only(input: &PreflightInput<'_>, seen: &ObservedHost<'_>, report: &mut Report) {
    let mut own = input.cx.cluster.data_folders(seen.roles);
    own.extend(input.cx.cluster.volumes_folder(seen.roles));
    let on = |disk: &Disk| {
        let own =
            own.iter().filter(|folder| disk_of(&seen.facts.disks, folder).is_some_and(|of| of.mount == disk.mount));
        disk.paths.iter().map(String::as_str).chain(own.copied()).map(str::to_owned).collect::<Vec<_>>()
    };
    let used = seen.facts.disks.iter().filter(|disk| disk.read_only).map(|disk| (disk, on(disk)));
    for (disk, paths) in used.filter(|(_, paths)| !paths.is_empty()) {
        report.fail(
            seen.name(),
            format!("{} mounted read-only", disk.mount),
            format!("a file system that can be written for {}", paths.join(", ")),
            format!(
                "`mount -o remount,rw {}`, and the same in /etc/fstab; if the kernel made it read-only after an error, \
                 `dmesg` shows why: check the disk first",
                word(&disk.mount)
            ),
        );
    }
}

/// Where images are unpacked. kubelet evicts pods where less than 5 % of the inodes are free (`imagefs.inodesFree`).
fn inodes(input: &PreflightInput<'_>, seen: &ObservedHost<'_>, report: &mut Report) {
    let data = input.cx.cluster.runtime.data_folder();
    let Some((disk, found)) = disk_of(&seen.facts.disks, data).and_then(|disk| Some((disk, disk.inodes?))) else {
        return;
    };
    let needed = found.total / 20 + IMAGE_FILES;
    if found.free < needed {
        let words = Words {
            found: format!("{} of {} inodes free on {}", found.free, found.total, disk.mount),
            needed: format!("{needed} for the files of images in {data}, and for kubelet to leave pods alone"),
            fix: "delete small files there, or recreate the file system with more inodes (`mkfs.ext4 -N`)".to_owned(),
        };
        report.add(if seen.ours { Severity::Warn } else { Severity::Fail }, Some(seen.name()), words);
    }
}

/// Bytes by path.
fn wanted<'a>(input: &PreflightInput<'a>, seen: &ObservedHost<'_>) -> Vec<(&'a str, u64)> {
    let registry = &input.cx.cluster.registry;
    let all = &input.cx.manifest.artifacts;
    let own = || all.iter().filter(|a| a.platform.is_none() || a.platform == seen.platform);
    let imported = runtime::imports(input.cx.cluster);
    // Those of the pod network every node loads, whatever registry there is.
    let of_network: BTreeSet<&str> = seen
        .platform
        .into_iter()
        .flat_map(|platform| images::of_network(input.cx, platform))
        .map(|image| image.name.as_str())
        .collect();
    let images = own().filter(|_| seen.roles.in_cluster()).filter(|a| match a.key {
        ArtifactKey::Image(_) => true,
        ArtifactKey::ExtraImage(_) | ArtifactKey::FeatureImage(_) | ArtifactKey::ChartImage(_) => {
            imported || of_network.contains(a.name.as_str())
        }
        _ => false,
    });
    let images: Vec<&Artifact> = images.collect();
    let comes = |artifact: &&Artifact| match &artifact.key {
        // What the catalogue does not know is counted everywhere.
        ArtifactKey::Binary(program) => input.cx.catalogue.component(*program).is_none_or(|one| seen.gets(one.role)),
        _ => false,
    };
    let programs: Vec<&Artifact> = own().filter(comes).collect();
    let (images_size, programs_size) = (total(images), total(programs));
    let store = match (seen.roles.registry, imported) {
        // Images of the user's registry do not come here.
        (true, _) => {
            total(all.iter().filter(|a| registry.kind != RegistryKind::External || a.key.kind() != Kind::Image))
        }
        (false, true) => programs_size + images_size,
        (false, false) => programs_size,
    };
    let packages = || seen.planned_packages().into_iter().flat_map(NodePackages::carried_packages);
    // On the registry host they are in the store already, for the depot.
    let own_packages =
        if seen.roles.registry { 0 } else { packages().map(|package| package.size).fold(0, u64::saturating_add) };
    let mut wanted = vec![
        (paths::STORE, store.saturating_add(own_packages)),
        (USR, packages().map(|package| package.installed_size).fold(0, u64::saturating_add)),
        (paths::BIN, UNPACKED * programs_size),
    ];
    if seen.roles.in_cluster() {
        // The runtime keeps the layers as they came, and unpacked
        wanted.push((input.cx.cluster.runtime.data_folder(), (1 + UNPACKED) * images_size));
        wanted.push(("/var/lib/kubelet", KUBELET));
    }
    if seen.roles.etcd {
        let etcd = &input.cx.cluster.etcd;
        wanted.push((&etcd.data_dir, etcd.quota.unwrap_or(ETCD)));
    }
    let audit = input.cx.cluster.kubernetes.as_ref().and_then(|kubernetes| kubernetes.audit.as_ref());
    if let Some(audit) = audit.filter(|_| seen.roles.control_plane) {
        // The log that is written, and the old ones. kube-apiserver's megabytes are of 1024 × 1024 bytes (lumberjack).
        let logs = 1 + u64::from(audit.max_backups);
        wanted.push((paths::AUDIT_LOGS, (u64::from(audit.max_size) << 20).saturating_mul(logs)));
    }
    if seen.roles.registry && registry.kind == RegistryKind::Harbor {
        let installer = own().filter(|a| a.key == ArtifactKey::Binary(Program::Harbor));
        wanted.push((paths::HARBOR_STATE, UNPACKED * total(installer)));
        wanted.push((&registry.data_dir, total(all.iter().filter(|a| a.key.kind() == Kind::Image))));
    }
    if seen.roles.registry && registry.kind == RegistryKind::Registry {
        let mount = |path| disk_of(&seen.facts.disks, path).map(|disk| &disk.mount);
        let data = registry.data_dir.as_str();
        // On the store's own file system the blobs are hard links, so they count once.
        if mount(data) != mount(paths::STORE) {
            wanted.push((data, total(all.iter().filter(|a| a.key.kind() == Kind::Image))));
        }
    }
    wanted
}

/// Blobs that several artifacts share count once.
fn total<'m>(artifacts: impl IntoIterator<Item = &'m Artifact>) -> u64 {
    let blobs: BTreeSet<Blob> = artifacts.into_iter().flat_map(|a| a.blobs.iter().copied()).collect();
    blobs.iter().map(|b| b.size).sum()
}

/// The mount point of a path: the longest one above it.
pub(crate) fn disk_of<'f>(disks: &'f [Disk], path: &str) -> Option<&'f Disk> {
    let holds = |disk: &&Disk| std::path::Path::new(path).starts_with(&disk.mount);
    disks.iter().filter(holds).max_by_key(|disk| disk.mount.len())
}
