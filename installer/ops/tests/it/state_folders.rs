//! What lay in folders before the cluster filled them is never removed, whoever removes what came.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::common::{Host, same};
use kubexm_ops::{OpError, Wave, dispatch, facts, step};
use kubexm_plan::op::{KubeadmInit, KubeadmReset, MoveAside, StateDir};
use kubexm_plan::state_folders::{ETCD, KUBELET};
use kubexm_plan::{ObservedState, Op, Reset, Step, Undo};

const SOCKET: &str = "unix:///run/containerd/containerd.sock";

fn aside(paths: &[&str]) -> Op {
    MoveAside { paths: paths.iter().map(|path| (*path).to_owned()).collect() }.into()
}

fn look(host: &Host, op: &Op) -> ObservedState {
    dispatch::observe(op, &host.machine).expect("a look")
}

fn back(host: &Host, op: &Op, before: &ObservedState) -> Result<(), OpError> {
    Wave::ALL.into_iter().try_for_each(|wave| dispatch::restore(op, &host.machine, before, wave))
}

fn there(host: &Host, path: &str) -> bool {
    host.machine.path(path).symlink_metadata().is_ok()
}

fn mounted(host: &Host, point: &str) {
    fs::create_dir_all(host.machine.path(point)).expect("folders");
    let text = host.read("/proc/self/mountinfo");
    host.put("/proc/self/mountinfo", format!("{text}40 25 8:16 / {point} rw - ext4 /dev/sdb rw\n"));
}

/// Owner, mode, time and content of everything below a path.
fn exact(host: &Host, path: &str) -> BTreeMap<String, String> {
    fn walk(path: &Path, below: &str, all: &mut BTreeMap<String, String>) {
        let found = fs::symlink_metadata(path).expect("metadata");
        let (mode, owner) = (found.mode(), (found.uid(), found.gid()));
        let content = if found.is_file() { fs::read_to_string(path).expect("content") } else { String::new() };
        all.insert(below.to_owned(), format!("{mode:o} {owner:?} {}.{} {content}", found.mtime(), found.mtime_nsec()));
        if found.is_dir() {
            for entry in fs::read_dir(path).expect("a folder").flatten() {
                walk(&entry.path(), &format!("{below}/{}", entry.file_name().display()), all);
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(&host.machine.path(path), "", &mut all);
    all
}

fn old(host: &Host, path: &str, mode: u32) {
    let real = host.machine.path(path);
    let _ = chown(&real, Some(1000), Some(1001));
    fs::set_permissions(&real, Permissions::from_mode(mode)).expect("a mode");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789);
    fs::File::open(&real).and_then(|file| file.set_modified(long_ago)).expect("a time");
}

fn snapshot_in(host: &Host, folder: &str) {
    host.put(&format!("{folder}/mine/snapshot-2025.db"), "theirs");
    for (path, mode) in [("mine/snapshot-2025.db", 0o640), ("mine", 0o750), ("", 0o701)] {
        old(host, format!("{folder}/{path}").trim_end_matches('/'), mode);
    }
}

#[test]
fn what_is_moved_aside_comes_back_with_its_owners_modes_and_times() {
    let host = Host::fresh();
    snapshot_in(&host, ETCD);
    let (op, before) = (aside(&[ETCD, "/var/lib/cni"]), exact(&host, ETCD));
    let found = look(&host, &op);
    assert!(!found.satisfied);
    dispatch::converge(&op, &host.machine).expect("moved");
    assert!(!there(&host, ETCD) && there(&host, "/var/lib/.kubexm-before-etcd/mine/snapshot-2025.db"));
    host.put("/var/lib/etcd/member/snap/db", "the cluster's");
    assert!(look(&host, &op).satisfied, "what came since is not to be moved");
    dispatch::converge(&op, &host.machine).expect("nothing to do");
    assert_eq!(host.read("/var/lib/etcd/member/snap/db"), "the cluster's");

    let error = {
        host.put("/var/lib/etcd/mine", "a file of that name");
        back(&host, &op, &found).expect_err("both are kept").full()
    };
    assert!(error.contains("/var/lib/etcd/mine") && error.contains(".kubexm-before-etcd/mine"), "{error}");
    fs::remove_dir_all(host.machine.path(ETCD)).expect("the cluster goes");
    back(&host, &op, &found).expect("back");
    assert_eq!(exact(&host, ETCD), before);
    assert!(!there(&host, "/var/lib/.kubexm-before-etcd"));
    back(&host, &op, &found).expect("twice is once");
    assert_eq!(exact(&host, ETCD), before);
}

#[test]
fn a_folder_that_came_since_gets_the_old_content_and_access_back() {
    let host = Host::fresh();
    snapshot_in(&host, KUBELET);
    let (op, before) = (aside(&[KUBELET]), exact(&host, KUBELET));
    let found = look(&host, &op);
    dispatch::converge(&op, &host.machine).expect("moved");
    fs::create_dir_all(host.machine.path("/var/lib/kubelet/pods")).expect("a folder");
    fs::remove_dir(host.machine.path("/var/lib/kubelet/pods")).expect("it went");
    back(&host, &op, &found).expect("back");
    assert_eq!(exact(&host, KUBELET), before);
}

#[test]
fn the_content_of_a_disk_is_moved_inside_it_and_a_move_that_was_interrupted_is_resumed() {
    for rest in [&["mine", "b"][..], &["b"], &[]] {
        let host = Host::fresh();
        mounted(&host, ETCD);
        host.put("/var/lib/etcd/lost+found/#12", "of the file system");
        host.put("/var/lib/etcd/b", "theirs");
        snapshot_in(&host, ETCD);
        let (op, before) = (aside(&[ETCD]), exact(&host, ETCD));
        let found = look(&host, &op);
        // Killed after some renames.
        let half = host.machine.path("/var/lib/etcd/.kubexm-before.unfinished");
        fs::create_dir(&half).expect("a folder");
        for name in ["mine", "b"].into_iter().filter(|name| !rest.contains(name)) {
            fs::rename(host.machine.path(format!("{ETCD}/{name}")), half.join(name)).expect("renamed");
        }
        assert!(!look(&host, &op).satisfied, "{rest:?}");
        dispatch::converge(&op, &host.machine).expect("moved");
        assert!(look(&host, &op).satisfied);
        assert_eq!(host.read("/var/lib/etcd/.kubexm-before/mine/snapshot-2025.db"), "theirs");
        assert_eq!(host.read("/var/lib/etcd/lost+found/#12"), "of the file system");
        back(&host, &op, &found).expect("back");
        assert_eq!(exact(&host, ETCD), before, "{rest:?}");
    }
}

#[test]
fn a_move_that_was_interrupted_comes_back_too() {
    let host = Host::fresh();
    fs::create_dir_all(host.machine.path("/data/kubelet")).expect("a folder");
    symlink(host.machine.path("/data/kubelet"), host.machine.path(KUBELET)).expect("a link");
    snapshot_in(&host, "/data/kubelet");
    let (op, before) = (aside(&[KUBELET]), exact(&host, "/data/kubelet"));
    let found = look(&host, &op);
    let half = host.machine.path("/data/kubelet/.kubexm-before.unfinished");
    fs::create_dir(&half).expect("a folder");
    fs::rename(host.machine.path("/data/kubelet/mine"), half.join("mine")).expect("renamed");
    back(&host, &op, &found).expect("back");
    assert_eq!(exact(&host, "/data/kubelet"), before);
    assert!(host.machine.path(KUBELET).is_symlink(), "an administrator's link stays");
}

#[test]
fn a_folder_with_a_mount_below_it_is_not_moved() {
    let host = Host::fresh();
    host.put("/var/lib/kubelet/mine/data", "theirs");
    mounted(&host, "/var/lib/kubelet/mine");
    let error = dispatch::converge(&aside(&[KUBELET]), &host.machine).expect_err("a mount").full();
    assert!(error.contains("/var/lib/kubelet/mine (ext4 of /dev/sdb)"), "{error}");
    assert_eq!(host.read("/var/lib/kubelet/mine/data"), "theirs");
}

#[test]
fn in_an_existing_folder_only_new_entries_are_removed() {
    for files in [3, 300, 66_000] {
        let host = Host::fresh();
        let folder = "/var/lib/containerd";
        (0..files).for_each(|number| host.put(&format!("{folder}/{number}"), ""));
        host.put(&format!("{folder}/deep/theirs"), "theirs");
        host.put(&format!("{folder}/lost+found/x"), "of the file system");
        mounted(&host, folder);
        old(&host, folder, 0o710);
        let before = host.tree();
        let op = Op::from(StateDir::at(folder));
        let found = look(&host, &op);
        host.put(&format!("{folder}/io.containerd.content.v1.content/blobs/a"), "700 MB");
        host.put(&format!("{folder}/deep/new"), "came too");
        fs::set_permissions(host.machine.path(folder), Permissions::from_mode(0o700)).expect("a mode");
        back(&host, &op, &found).expect("back");
        let mut after = host.tree();
        let left: Vec<String> = after.keys().filter(|path| !before.contains_key(*path)).cloned().collect();
        match files {
            3 => assert!(left.is_empty(), "{left:?}"),
            // A folder that was there whole stays whole: what is in it was not listed.
            300 => assert!(left.iter().all(|path| path.ends_with("deep/new")), "{left:?}"),
            _ => assert!(!left.is_empty(), "what cannot be listed is not removed"),
        }
        after.retain(|path, _| before.contains_key(path));
        same(&before, &after, "what was there");
    }
}

#[test]
fn new_files_on_an_empty_disk_are_removed_and_it_stays_mounted() {
    let host = Host::fresh();
    mounted(&host, ETCD);
    let before = host.tree();
    let op = Op::from(StateDir::at(ETCD));
    let found = look(&host, &op);
    host.put("/var/lib/etcd/member/snap/db", "the cluster's");
    back(&host, &op, &found).expect("back");
    same(&before, &host.tree(), "an empty disk");
}

#[test]
fn what_is_mounted_in_a_folder_since_is_left_with_its_data() {
    for point in [KUBELET, "/var/lib/kubelet/pods"] {
        let host = Host::fresh();
        let op = Op::from(StateDir::at(KUBELET));
        let empty = look(&host, &op);
        fs::create_dir_all(host.machine.path(KUBELET)).expect("a folder");
        let existed = look(&host, &op);
        host.put("/var/lib/kubelet/pods/data", "theirs");
        mounted(&host, point);
        for found in [&empty, &existed].into_iter().filter(|found| point != KUBELET || *found == &empty) {
            let error = back(&host, &op, found).expect_err("a mount").full();
            assert!(error.contains(point) && error.contains("left with its data"), "{error}");
            assert_eq!(host.read("/var/lib/kubelet/pods/data"), "theirs");
        }
    }
}

#[test]
fn a_later_run_that_is_rolled_back_removes_nothing_that_the_cluster_wrote_meanwhile() {
    let host = Host::fresh();
    let ops = [Op::from(StateDir::at(ETCD))];
    let step = Step::on("node1", "init", "Init").ensure_all([StateDir::at(ETCD)]).undo(Undo::RestoreBefore).build();
    fs::create_dir_all(host.machine.path(ETCD)).expect("a folder");
    let before = step::observe(&step, &host.machine).expect("a look");
    assert_eq!(before[0].raw()["held"], serde_json::json!([]));
    step::converge(&step, &host.machine, "first", 1, &before).expect("done");
    host.put("/var/lib/etcd/member/wal/0.wal", "");
    let later = look(&host, &ops[0]);
    host.put("/var/lib/etcd/member/wal/1.wal", "written meanwhile");
    back(&host, &ops[0], &later).expect("back");
    assert!(there(&host, "/var/lib/etcd/member/wal/1.wal"));
    // The first run itself, rolled back: what it found is what comes back, and the next one looks anew.
    for wave in Wave::ALL {
        step::undo(&step, &host.machine, "first", 1, &before, wave).expect("back");
    }
    assert!(!there(&host, "/var/lib/etcd/member"));
    assert_eq!(look(&host, &ops[0]).raw()["held"], serde_json::json!([]));
}

fn act(host: &Host, init: bool) -> Result<(), OpError> {
    let socket = || SOCKET.to_owned();
    let act: Op = if init {
        KubeadmInit {
            config: "/etc/kubexm/kubeadm.yaml".into(),
            cri_socket: socket(),
            ignore: Vec::new(),
            backup: None,
        }
        .into()
    } else {
        KubeadmReset { cri_socket: socket() }.into()
    };
    dispatch::converge(&act, &host.machine)
}

#[test]
fn files_that_appeared_before_an_init_outlive_its_reset_and_all_that_kubeadm_made_goes() {
    let host = Host::fresh();
    host.ready_for_init();
    for path in [
        "/etc/kubernetes/audit-policy.yaml",
        "/etc/kubernetes/pki/theirs.crt",
        "/etc/cni/net.d/my-flannel.conf",
        "/var/lib/cni/theirs",
        "/var/lib/kubelet/mine/x",
    ] {
        host.put(path, "theirs");
    }
    (0..400).for_each(|number| host.put(&format!("/var/lib/kubelet/mine/{number}"), "theirs"));
    let before = host.tree();
    act(&host, true).expect("init");
    host.put("/etc/cni/net.d/10-flannel.conflist", "the cluster's");
    host.put("/var/lib/cni/networks/cbr0/10.244.0.2", "the cluster's");
    act(&host, false).expect("reset");
    let mut after = host.tree();
    // An op of the plan rolls back the empty folder itself.
    after.remove("var/lib/etcd");
    same(&before, &after, "a reset");
}

#[test]
fn a_half_done_init_is_cleaned_up_and_repeated_and_foreign_files_stay() {
    let host = Host::fresh();
    host.ready_for_init();
    host.put("/var/lib/kubelet/mine/x", "theirs");
    host.put("/run/kubexm-double/kill-kubeadm-init", "");
    act(&host, true).expect_err("killed");
    act(&host, true).expect("cleared, and done anew");
    assert_eq!(host.read("/var/lib/kubelet/mine/x"), "theirs");
    act(&host, false).expect("reset");
    assert_eq!(host.read("/var/lib/kubelet/mine/x"), "theirs");
    assert!(!there(&host, "/etc/kubernetes/admin.conf") && !there(&host, "/var/lib/kubelet/config.yaml"));
}

#[test]
fn a_disk_for_etcd_with_lost_and_found_is_used_and_restored() {
    let host = Host::fresh();
    host.ready_for_init();
    mounted(&host, ETCD);
    host.put("/var/lib/etcd/lost+found/#7", "of the file system");
    let before = host.tree();
    act(&host, true).expect("kubeadm takes the disk");
    assert!(there(&host, "/var/lib/etcd/member"));
    act(&host, false).expect("reset");
    let mut after = host.tree();
    after.retain(|path, _| before.contains_key(path));
    same(&before, &after, "a reset");
    assert!(!there(&host, "/var/lib/etcd/member"));
}

#[test]
fn kubeadm_still_refuses_a_folder_of_etcd_with_anything_else_in_it() {
    let host = Host::fresh();
    host.ready_for_init();
    host.put("/var/lib/etcd/lost+found/#7", "of the file system");
    host.put("/var/lib/etcd/snapshot-2025.db", "theirs");
    let error = act(&host, true).expect_err("not empty").full();
    assert!(error.contains("DirAvailable--var-lib-etcd"), "{error}");
    assert_eq!(host.read("/var/lib/etcd/snapshot-2025.db"), "theirs");
}

#[test]
fn a_foreign_mount_stops_a_reset_of_kubeadm_before_kubelet_is_stopped() {
    let host = Host::fresh();
    host.ready_for_init();
    act(&host, true).expect("init");
    host.put("/var/lib/kubelet/pods/1/volumes/kubernetes.io~nfs/a/data", "a user's");
    mounted(&host, "/var/lib/kubelet/pods/1/volumes/kubernetes.io~nfs/a");
    host.put("/var/lib/kubelet/pods/data", "theirs");
    mounted(&host, "/var/lib/kubelet/pods");
    let error = act(&host, false).expect_err("a foreign mount").full();
    assert!(error.contains("/var/lib/kubelet/pods (ext4 of /dev/sdb)"), "{error}");
    assert!(!error.contains("kubernetes.io~nfs"), "a pod's own mount is none: {error}");
    assert!(host.read("/run/kubexm-double/state.json").contains("\"kubelet.service\":{\"active\":true"));
    assert!(host.read("/proc/self/mountinfo").contains("kubernetes.io~nfs"), "nothing was unmounted");
}

#[test]
fn a_pods_mount_that_a_process_of_the_host_uses_is_named_with_it_before_any_is_unmounted() {
    let host = Host::fresh();
    let points = ["a", "b"].map(|name| format!("/var/lib/kubelet/pods/1/volumes/kubernetes.io~nfs/{name}"));
    points.iter().for_each(|point| mounted(&host, point));
    host.put("/proc/512/comm", "bash\n");
    symlink(format!("{}/deeper", points[0]), host.machine.path("/proc/512/cwd")).expect("a link");
    // kubelet itself ends before anything is unmounted.
    host.put("/proc/513/comm", "kubelet\n");
    symlink(&points[1], host.machine.path("/proc/513/cwd")).expect("a link");
    let found = facts::collect(&host.machine, "node1").expect("facts").foreign_mounts;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].point.as_str(), found[0].used_by.as_deref()), (points[0].as_str(), Some("bash (pid 512)")));
    let error = kubexm_ops::teardown::unmount::unmount_below(&host.machine, KUBELET).expect_err("in use").full();
    assert!(error.contains("in use by bash (pid 512)"), "{error}");
    assert!(points.iter().all(|point| host.read("/proc/self/mountinfo").contains(point)), "both are still mounted");
}

#[test]
fn a_container_that_is_being_created_is_no_process_of_the_host() {
    let host = Host::fresh();
    let rootfs = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/c1/rootfs";
    mounted(&host, rootfs);
    // `runc init` before it has its own mounts: its program is a descriptor of runc, its working directory the rootfs.
    host.put("/proc/600/comm", "6\n");
    host.put("/proc/600/status", "Name:\t6\nPPid:\t601\n");
    symlink(rootfs, host.machine.path("/proc/600/cwd")).expect("a link");
    let blocks = || facts::collect(&host.machine, "node1").expect("facts").foreign_mounts.len();
    assert_eq!(blocks(), 1, "nothing shows yet that it belongs to a container");
    host.put("/proc/1/cgroup", "0::/init.scope\n");
    host.put("/proc/600/cgroup", "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-c1.scope\n");
    assert_eq!(blocks(), 0, "in its pod's control group");
    host.put("/proc/600/cgroup", "0::/system.slice/containerd.service\n");
    host.put("/proc/601/comm", "runc\n");
    host.put("/proc/601/status", "Name:\trunc\nPPid:\t602\n");
    assert_eq!(blocks(), 1);
    host.put("/proc/602/comm", "containerd-shim\n");
    assert_eq!(blocks(), 0, "started by the shim, before it is moved into its group");
}

#[test]
fn facts_name_what_is_in_state_folders_until_the_host_is_ours() {
    let host = Host::fresh();
    host.put("/var/lib/etcd/lost+found/x", "");
    host.put("/opt/cni/bin/x", "");
    fs::remove_file(host.machine.path("/opt/cni/bin/x")).expect("removed");
    let folders = || facts::collect(&host.machine, "node1").expect("facts").state_folders;
    assert_eq!(folders(), [], "empty folders and lost+found are nobody's data");
    (0..20_000).for_each(|number| host.put(&format!("/var/lib/containerd/blobs/{number:05}"), ""));
    let found = folders();
    assert_eq!((found.len(), found[0].files), (1, 10_000), "{found:?}");
    assert_eq!(found[0].first[..2], ["blobs/00000", "blobs/00001"]);
    host.put("/var/lib/kubexm/stamp.json", "{\"cluster\":\"demo\",\"run\":\"r\"}");
    assert_eq!(folders(), []);
}

#[test]
fn a_reset_resumed_after_files_were_moved_back_leaves_them_alone() {
    let host = Host::fresh();
    snapshot_in(&host, ETCD);
    let (op, before) = (aside(&[ETCD]), exact(&host, ETCD));
    let found = look(&host, &op);
    dispatch::converge(&op, &host.machine).expect("moved");
    host.put("/var/lib/etcd/member/snap/db", "the cluster's");
    let paths = vec![ETCD.to_owned()];
    let (spared, moved) = (BTreeMap::new(), BTreeSet::from([ETCD.to_owned()]));
    let set = Op::from(Reset::MoveStateAside { paths: paths.clone(), spared, moved });
    assert!(!look(&host, &set).satisfied);
    dispatch::converge(&set, &host.machine).expect("set aside");
    back(&host, &op, &found).expect("back");
    assert_eq!(exact(&host, ETCD), before);
    assert!(look(&host, &set).satisfied, "what is there now is not the cluster's");
    dispatch::converge(&set, &host.machine).expect("nothing to do");
    let forgotten = Op::from(Reset::Purge { paths, parents: Vec::new() });
    dispatch::converge(&forgotten, &host.machine).expect("deleted");
    assert_eq!(exact(&host, ETCD), before);
    assert!(!there(&host, "/var/lib/.kubexm-reset-etcd"));
}

#[test]
fn a_link_created_since_is_removed_and_its_target_stays() {
    for existed in [false, true] {
        let host = Host::fresh();
        host.put("/srv/data/file", "theirs");
        if existed {
            fs::create_dir_all(host.machine.path(KUBELET)).expect("a folder");
        }
        let before = host.tree();
        let op = Op::from(StateDir::at(KUBELET));
        let found = look(&host, &op);
        let link = if existed { "/var/lib/kubelet/link" } else { KUBELET };
        symlink(host.machine.path("/srv/data"), host.machine.path(link)).expect("a link");
        back(&host, &op, &found).expect("back");
        same(&before, &host.tree(), "a link");
    }
}

#[test]
fn what_lies_behind_an_administrators_link_is_moved_and_emptied_there() {
    let host = Host::fresh();
    fs::create_dir_all(host.machine.path("/data/kubelet")).expect("a folder");
    symlink(host.machine.path("/data/kubelet"), host.machine.path(KUBELET)).expect("a link");
    snapshot_in(&host, "/data/kubelet");
    let (op, state, before) = (aside(&[KUBELET]), Op::from(StateDir::at(KUBELET)), exact(&host, "/data/kubelet"));
    let found = look(&host, &op);
    dispatch::converge(&op, &host.machine).expect("moved");
    assert_eq!(host.read("/data/kubelet/.kubexm-before/mine/snapshot-2025.db"), "theirs");
    let empty = look(&host, &state);
    host.put("/var/lib/kubelet/config.yaml", "the cluster's");
    back(&host, &state, &empty).expect("back");
    back(&host, &op, &found).expect("back");
    assert_eq!(exact(&host, "/data/kubelet"), before);
    assert!(host.machine.path(KUBELET).is_symlink());
}

/// They are the operator's, and no reset removes them: the next create must not be refused for them.
#[test]
fn snapshots_of_an_earlier_clusters_upgrades_are_no_content_of_others() {
    let host = Host::fresh();
    let occupied = || facts::collect(&host.machine, "node1").expect("facts").state_folders;
    host.put("/var/lib/kubexm/snapshots/before-v1.34.5-1764000000.db", "a snapshot");
    assert!(occupied().is_empty(), "{:?}", occupied());
    host.put("/var/lib/kubexm/snapshots/of-mine.db", "another");
    assert!(occupied().iter().any(|folder| folder.first.iter().any(|name| name == "snapshots")), "{:?}", occupied());
}
