//! What lies in the cluster's folders before the first create.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use kubexm_spec::ExitCode;

use super::super::case::{Act, Case};
use super::super::site::Site;
use super::{REFUSED, RESET, ROLLED_BACK, cases};

fn snapshot(s: &mut Site) {
    s.put("/var/lib/etcd/snapshot-2025.db", "the only copy", 0o600, 998);
}

/// Names, modes, owners, links and attributes that a careless copy loses.
fn odd(s: &mut Site) {
    s.put("/var/lib/kubelet/mine/set-id", "x", 0o4755, 1001);
    s.put("/var/lib/kubelet/mine/nobody reads", "x", 0o000, 65_534);
    s.folder("/var/lib/kubelet/mine/sticky", 0o1777, 1001);
    s.link("/var/lib/kubelet/mine/dangling", OsStr::from_bytes(b"nowhere/\xff"));
    let mine = s.at("node1", "/var/lib/kubelet/mine");
    fs::write(mine.join(OsStr::from_bytes(b"latin1-\xe9")), "x").unwrap();
    fs::write(mine.join("two\nlines"), "x").unwrap();
    fs::hard_link(mine.join("set-id"), mine.join("the same")).unwrap();
    rustix::fs::setxattr(mine.join("set-id"), "user.note", b"mine", rustix::fs::XattrFlags::empty()).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, mine.join("pipe"), rustix::fs::FileType::Fifo, 0o640.into(), 0).unwrap();
}

/// Nothing that preflight counts as content.
fn empty(s: &mut Site) {
    s.folder("/var/lib/etcd", 0o700, 998);
    s.folder("/var/lib/kubelet/plugins/mine", 0o2750, 1001);
    s.put("/etc/cni/net.d/.kubernetes-cni-keep", "", 0o644, 0);
    s.put("/etc/kubernetes/manifests/.keep", "", 0o600, 1001);
    s.folder("/var/lib/containerd", 0o711, 0);
    s.folder("/opt/cni/bin", 0o775, 1001);
    s.folder("/var/log/pods", 0o750, 4);
}

fn odd_empty_folders(s: &mut Site) {
    let folder = s.at("node1", "/var/lib/kubelet");
    fs::create_dir_all(folder.join(OsStr::from_bytes(b"latin1-\xe9"))).unwrap();
    fs::create_dir_all(folder.join("two\nlines")).unwrap();
}

fn many_empty_folders(s: &mut Site) {
    (0..400).for_each(|number| s.folder(&format!("/var/lib/kubelet/{number:03}"), 0o700, number));
}

fn kubelet_is_a_link(s: &mut Site) {
    s.put("/srv/kubelet/mine/x", "on another disk", 0o640, 1001);
    s.link("/var/lib/kubelet", "../../srv/kubelet");
}

fn containerd_is_a_link(s: &mut Site) {
    s.put("/srv/containerd/lost+found/x", "of the file system", 0o600, 0);
    s.folder("/srv/containerd", 0o711, 0);
    s.link("/var/lib/containerd", "../../srv/containerd");
}

fn etcds_own_disk(s: &mut Site) {
    s.put("/var/lib/etcd/lost+found/x", "of the file system", 0o600, 0);
    s.mount("26 25 8:2 / /var/lib/etcd rw,noatime - ext4 /dev/sdb1 rw");
}

fn certificates(s: &mut Site) {
    s.put("/etc/kubernetes/pki/ca.crt", "a certificate", 0o644, 0);
    s.put("/etc/kubernetes/pki/ca.key", "its key", 0o600, 0);
}

fn plugins(s: &mut Site) {
    s.put("/opt/cni/bin/mine", "a plugin", 0o755, 1001);
}

fn in_our_folders(s: &mut Site) {
    s.put("/etc/kubexm/notes.txt", "mine", 0o640, 1001);
    s.put("/etc/systemd/system/containerd.service.d/10-proxy.conf", "[Service]\n", 0o644, 0);
    s.put("/etc/systemd/system/kubelet.service.d/90-mine.conf", "[Service]\n", 0o600, 0);
}

cases! {
    nothing_is_there_and_nothing_stays_after_a_rollback: ROLLED_BACK;
    nothing_is_there_and_nothing_stays_after_a_reset: RESET;
    a_snapshot_in_etcds_folder_is_refused: Case {
        start: snapshot, ends: (ExitCode::Preflight, "snapshot-2025.db"), ..REFUSED
    };
    a_snapshot_moved_aside_comes_back_with_a_rollback: Case { start: snapshot, act: Act::FailedCreateAside, ..ROLLED_BACK };
    a_snapshot_moved_aside_comes_back_with_a_reset: Case { start: snapshot, act: Act::ResetAside, ..RESET };
    a_snapshot_moved_aside_comes_back_though_the_rollback_crashes: Case {
        start: snapshot, act: Act::CrashInRollbackAside, ends: (ExitCode::Ok, "RolledBack"), ..ROLLED_BACK
    };
    odd_names_modes_links_and_attributes_come_back_with_a_rollback: Case { start: odd, act: Act::FailedCreateAside, ..ROLLED_BACK };
    odd_names_modes_links_and_attributes_come_back_with_a_reset: Case { start: odd, act: Act::ResetAside, ..RESET };
    empty_folders_and_placeholders_stay_after_a_rollback: Case { start: empty, ..ROLLED_BACK };
    empty_folders_and_placeholders_stay_after_a_reset: Case { start: empty, act: Act::Reset, ..RESET };
    empty_folders_stay_though_kubeadm_is_killed: Case { start: empty, act: Act::KilledInInit, ..ROLLED_BACK };
    empty_folders_of_odd_names_stay_after_a_rollback: Case { start: odd_empty_folders, ..ROLLED_BACK };
    empty_folders_of_odd_names_stay_after_a_reset: Case { start: odd_empty_folders, ..RESET };
    many_empty_folders_stay_after_a_rollback: Case { start: many_empty_folders, ..ROLLED_BACK };
    many_empty_folders_stay_after_a_reset: Case { start: many_empty_folders, ..RESET };
    a_linked_state_folder_with_files_is_refused: Case {
        start: kubelet_is_a_link, ends: (ExitCode::Preflight, "/var/lib/kubelet (mine/x)"), ..REFUSED
    };
    files_behind_a_link_come_back_with_a_rollback: Case { start: kubelet_is_a_link, act: Act::FailedCreateAside, ..ROLLED_BACK };
    files_behind_a_link_come_back_with_a_reset: Case { start: kubelet_is_a_link, act: Act::ResetAside, ..RESET };
    a_linked_state_folder_stays_a_link_after_a_reset: Case { start: containerd_is_a_link, ..RESET };
    a_disk_of_etcds_own_stays_mounted_after_a_reset: Case { start: etcds_own_disk, ..RESET };
    a_disk_below_kubelets_folder_is_refused: Case {
        start: |s| {
            s.put("/var/lib/kubelet/pods/data", "on the disk", 0o640, 1001);
            s.mount("26 25 8:2 / /var/lib/kubelet/pods rw,noatime - ext4 /dev/sdb1 rw");
        },
        ends: (ExitCode::Preflight, "/var/lib/kubelet/pods (ext4 of /dev/sdb1)"), ..REFUSED
    };
    certificates_are_refused: Case {
        start: certificates, ends: (ExitCode::Preflight, "/etc/kubernetes/pki/ca.crt"), ..REFUSED
    };
    certificates_come_back_with_a_rollback: Case { start: certificates, act: Act::FailedCreateAside, ..ROLLED_BACK };
    network_plugins_come_back_with_a_reset: Case { start: plugins, act: Act::ResetAside, ..RESET };
    another_pod_network_is_refused: Case {
        start: |s| s.put("/etc/cni/net.d/10-calico.conflist", "{}", 0o600, 0),
        ends: (ExitCode::Preflight, "10-calico.conflist"), ..REFUSED
    };
    a_containerd_with_its_configuration_is_refused: Case {
        start: |s| s.put("/etc/containerd/config.toml", "version = 2\r\n", 0o640, 0),
        ends: (ExitCode::Preflight, "/etc/containerd/config.toml"), ..REFUSED
    };
    a_kubelet_unit_is_refused: Case {
        start: |s| s.put("/etc/systemd/system/kubelet.service", "[Service]\n", 0o644, 0),
        ends: (ExitCode::Preflight, "kubelet.service"), ..REFUSED
    };
    drop_ins_and_notes_stay_after_a_rollback: Case { start: in_our_folders, ..ROLLED_BACK };
    drop_ins_and_notes_stay_after_a_reset: Case { start: in_our_folders, ..RESET };
    files_in_kubexms_own_folder_are_refused: Case {
        start: |s| s.put("/var/lib/kubexm/site.tar.zst", "the operator's bundle", 0o600, 1001),
        ends: (ExitCode::Preflight, "/var/lib/kubexm (site.tar.zst)"), ..REFUSED
    };
    a_stamp_of_another_cluster_is_refused: Case {
        start: |s| s.put("/var/lib/kubexm/stamp.json", "{\"cluster\":\"other\",\"run\":\"r\"}", 0o600, 0),
        ends: (ExitCode::Preflight, "the stamp of cluster \"other\""), ..REFUSED
    };
    a_damaged_stamp_is_refused: Case {
        start: |s| s.put("/var/lib/kubexm/stamp.json", "{\"cluster\":", 0o600, 0),
        ends: (ExitCode::Preflight, "stamp.json"), ..REFUSED
    };
    a_read_only_etc_is_refused: Case {
        start: |s| s.mount("26 25 8:2 / /etc ro,noatime - ext4 /dev/sdb1 ro"),
        ends: (ExitCode::Preflight, "/etc"), ..REFUSED
    };
    a_full_disk_is_refused: Case {
        start: |s| s.host("node1").fake("space.json", "{\"/\": [1048576, 4294967296]}"),
        ends: (ExitCode::Preflight, "free on /"), ..REFUSED
    };
}
