//! Space and mount options of the paths that kubexm writes to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kubexm_plan::facts::Disk;
use kubexm_plan::{runtime, state_folders};

use crate::system::Program;
use crate::{Machine, OpError, fsio};

/// Paths that kubexm writes to on a node.
const PATHS: [&str; 8] = [
    "/etc",
    "/usr/local/bin",
    "/opt/cni/bin",
    "/var/lib/kubexm",
    state_folders::KUBELET,
    state_folders::ETCD,
    "/var/log",
    "/mnt/registry",
];
/// Paths of programs: kubexm's, those of images, and those in pods' volumes.
const PROGRAM_PATHS: [&str; 3] = ["/usr/local/bin", "/opt/cni/bin", state_folders::KUBELET];

/// Folders with images and containers of the runtimes that kubexm installs.
fn runtimes() -> impl Iterator<Item = &'static str> {
    runtime::INSTALLED.into_iter().map(|runtime| runtime.kind.data_dir())
}

/// File systems on local disks: cluster.yaml may name a folder on any of them. Others (nfs) are examined only if one of
/// kubexm's paths is there, since a server that is down would block.
const LOCAL: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs"];

/// Mounts below these belong to pods and sessions.
const OF_OTHERS: [&str; 2] = ["/var/lib/kubelet/", "/run/"];

struct Mount {
    point: String,
    options: String,
    filesystem: String,
}

/// By mount point; a path that does not exist yet counts for the mount point on which it will be created.
pub(super) fn look(machine: &Machine) -> Result<Vec<Disk>, OpError> {
    let mounts = mounts(machine)?;
    let mut by_mount: BTreeMap<&str, Disk> = BTreeMap::new();
    for path in PATHS.into_iter().chain(runtimes()) {
        let mount = of(&mounts, path);
        let point = mount.map_or("/", |mount| mount.point.as_str());
        if !by_mount.contains_key(point) {
            by_mount.insert(point, disk(machine, point, mount)?);
        }
        if let Some(disk) = by_mount.get_mut(point) {
            disk.paths.push(path.to_owned());
        }
    }
    let place = |mount: &&Mount| {
        LOCAL.contains(&mount.filesystem.as_str()) && !OF_OTHERS.iter().any(|folder| mount.point.starts_with(folder))
    };
    for mount in mounts.iter().filter(place) {
        // A mounted file cannot contain data.
        if !by_mount.contains_key(mount.point.as_str())
            && machine.path(&mount.point).is_dir()
            && let Ok(disk) = disk(machine, &mount.point, Some(mount))
        {
            by_mount.insert(&mount.point, disk);
        }
    }
    Ok(by_mount.into_values().collect())
}

fn disk(machine: &Machine, point: &str, mount: Option<&Mount>) -> Result<Disk, OpError> {
    let space = machine.system().space(point)?;
    Ok(Disk {
        mount: point.to_owned(),
        paths: Vec::new(),
        free: space.free,
        size: space.size,
        filesystem: mount.map(|mount| filesystem(machine, mount)),
        read_only: mount.is_some_and(|mount| has(mount, "ro")),
        noexec: mount.is_some_and(|mount| has(mount, "noexec")),
        inodes: space.inodes,
    })
}

fn has(mount: &Mount, wanted: &str) -> bool {
    mount.options.split(',').any(|option| option == wanted)
}

/// Mount points with `noexec` from which programs are run.
pub(super) fn noexec(machine: &Machine) -> Result<Vec<String>, OpError> {
    let mounts = mounts(machine)?;
    let found: BTreeSet<String> = PROGRAM_PATHS
        .into_iter()
        .chain(runtimes())
        .filter_map(|path| of(&mounts, path))
        .filter(|mount| has(mount, "noexec"))
        .map(|mount| mount.point.clone())
        .collect();
    Ok(found.into_iter().collect())
}

/// From proc_pid_mountinfo(5): the fifth field is the mount point, the sixth its options; the type follows ` - `.
fn mounts(machine: &Machine) -> Result<Vec<Mount>, OpError> {
    let text = fsio::read_text(&machine.path("/proc/self/mountinfo"))?.unwrap_or_default();
    let parse = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut fields = left.split(' ').skip(4);
        Some(Mount {
            point: fields.next()?.replace("\\040", " "),
            options: fields.next()?.to_owned(),
            filesystem: right.split(' ').next()?.to_owned(),
        })
    };
    Ok(text.lines().filter_map(parse).collect())
}

/// The longest mount point that contains the path; the last of several mounts on one point covers the others.
fn of<'a>(mounts: &'a [Mount], path: &str) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| Path::new(path).starts_with(&mount.point))
        .max_by_key(|mount| mount.point.trim_end_matches('/').len())
}

/// The type; for an xfs that overlayfs cannot use, `xfs ftype=0`.
fn filesystem(machine: &Machine, mount: &Mount) -> String {
    if mount.filesystem == "xfs" {
        let info = machine.try_run(&Program::new("xfs_info").arg(mount.point.as_str()).within(20));
        if info.is_ok_and(|output| output.stdout().contains("ftype=0")) {
            return "xfs ftype=0".to_owned();
        }
    }
    mount.filesystem.clone()
}
