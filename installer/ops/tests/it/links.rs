//! A user of the host puts links where root is about to write: nothing outside that user's folder changes.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::Host;
use kubexm_ops::drift::drift;
use kubexm_ops::{Converge, Wave, dispatch};
use kubexm_plan::op::{Dir, Kubeconfig, MoveAside, Op, RegistryLayout, StateDir};
use kubexm_plan::{Step, Undo};
use kubexm_spec::Digest;
use kubexm_spec::depot::Repository;

const USER: u32 = 54_321;
const ADMIN: &str = "apiVersion: v1\nkind: Config\n";

/// A host with admin.conf, the user alice with a home of her own, and a file of root's that must stay as it is.
fn host() -> Host {
    let host = Host::fresh();
    host.put("/etc/kubernetes/admin.conf", ADMIN);
    host.put("/etc/passwd", format!("root:x:0:0::/root:/bin/sh\nalice:x:{USER}:{USER}::/home/alice:/bin/sh\n"));
    host.put("/etc/victim/config", "of root\n");
    fs::create_dir_all(host.machine.path("/home/alice")).expect("a home");
    give(&host.machine.path("/home/alice"));
    host
}

/// Another owner needs root, as on a node; who is not root tests the same with folders of everybody's.
fn give(path: &Path) {
    if rustix::process::geteuid().is_root() {
        chown(path, Some(USER), Some(USER)).expect("an owner");
    } else {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("a mode");
    }
}

fn op() -> Op {
    Kubeconfig { user: "alice".into(), replaces: None }.into()
}

/// Content, owner and mode of root's file and its folder.
fn victim(host: &Host) -> (String, [(u32, u32); 2], Vec<PathBuf>) {
    let folder = host.machine.path("/etc/victim");
    let access = |path: &Path| fs::metadata(path).map(|found| (found.uid(), found.mode())).expect("the victim");
    let names = fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    (host.read("/etc/victim/config"), [access(&folder), access(&folder.join("config"))], names)
}

fn refused(host: &Host, link: &str) {
    let before = victim(host);
    let error = dispatch::converge(&op(), &host.machine).expect_err(link).full();
    assert!(error.contains(link) && error.contains("symbolic link"), "{error}");
    assert_eq!(victim(host), before, "{link}");
}

#[test]
fn a_link_in_place_of_the_folder_is_refused_by_name() {
    let host = host();
    symlink(host.machine.path("/etc/victim"), host.machine.path("/home/alice/.kube")).expect("a link");
    refused(&host, "/home/alice/.kube");
}

#[test]
fn a_link_in_place_of_a_parent_is_refused_by_name() {
    let host = host();
    host.put("/etc/passwd", format!("alice:x:{USER}:{USER}::/home/alice/inner/home:/bin/sh\n"));
    fs::create_dir_all(host.machine.path("/etc/victim/home")).expect("a folder");
    symlink(host.machine.path("/etc/victim"), host.machine.path("/home/alice/inner")).expect("a link");
    refused(&host, "/home/alice/inner");
}

#[test]
fn what_a_link_of_a_user_leads_to_is_neither_observed_nor_kept() {
    let host = host();
    let victim = host.machine.path("/etc/victim");
    symlink(&victim, host.machine.path("/home/alice/.kube")).expect("a link");
    let error = dispatch::observe(&op(), &host.machine).expect_err("a link").full();
    assert!(error.contains("/home/alice/.kube") && error.contains("symbolic link"), "{error}");
    let error = dispatch::keep(&op(), &host.machine).expect_err("a link").full();
    assert!(error.contains("symbolic link"), "{error}");
    let ledger = host.machine.path("/var/lib/kubexm/ledger/content");
    assert!(!ledger.exists(), "root's file is in the ledger");
}

#[test]
fn the_time_of_a_folder_that_comes_back_is_not_set_where_a_link_of_a_user_leads_to() {
    let host = host();
    host.put("/home/alice/state/x", "hers");
    let (victim, state) = (host.machine.path("/etc/victim"), host.machine.path("/home/alice/state"));
    let op = MoveAside { paths: vec!["/home/alice/state".into()] };
    let before = op.observe(&host.machine).expect("a look");
    fs::remove_dir_all(&state).expect("removed");
    symlink(&victim, &state).expect("a link");
    let modified = || fs::metadata(&victim).and_then(|found| found.modified()).expect("a time");
    let hour = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(3600);
    fs::File::open(&victim).and_then(|folder| folder.set_modified(hour)).expect("an old folder");
    let error = op.restore(&host.machine, &before, Wave::Data).expect_err("a link").full();
    assert!(error.contains("/home/alice/state") && error.contains("symbolic link"), "{error}");
    assert_eq!(modified(), hour);
}

#[test]
fn a_link_of_an_administrator_to_the_home_folders_is_followed() {
    let host = host();
    fs::create_dir_all(host.machine.path("/data")).expect("a folder");
    fs::rename(host.machine.path("/home"), host.machine.path("/data/home")).expect("another disk");
    symlink("data/home", host.machine.path("/home")).expect("a link");
    dispatch::converge(&op(), &host.machine).expect("a kubeconfig");
    assert_eq!(host.read("/data/home/alice/.kube/config"), ADMIN);
}

#[test]
fn a_link_or_a_second_name_in_place_of_the_file_is_replaced_and_what_it_leads_to_stays() {
    for hard in [false, true] {
        let host = host();
        let kube = host.machine.path("/home/alice/.kube");
        fs::create_dir_all(&kube).expect("a folder");
        give(&kube);
        let (target, config) = (host.machine.path("/etc/victim/config"), kube.join("config"));
        if hard { fs::hard_link(&target, &config) } else { symlink(&target, &config) }.expect("a link");
        let before = victim(&host);
        let found = Kubeconfig { user: "alice".into(), replaces: None }.observe(&host.machine).expect("a look");
        dispatch::keep(&op(), &host.machine).expect("kept");
        dispatch::converge(&op(), &host.machine).expect("a kubeconfig");
        assert_eq!(victim(&host), before, "hard: {hard}");
        assert_eq!(host.read("/home/alice/.kube/config"), ADMIN);
        assert!(!config.is_symlink());
        for wave in Wave::ALL {
            Kubeconfig { user: "alice".into(), replaces: None }.restore(&host.machine, &found, wave).expect("restored");
        }
        assert_eq!(victim(&host), before, "hard: {hard}");
        assert_eq!(host.read("/home/alice/.kube/config"), "of root\n");
    }
}

#[test]
fn a_restored_file_gets_the_owner_of_the_file_that_was_read() {
    let host = host();
    let config = host.machine.path("/home/alice/.kube/config");
    host.put("/home/alice/.kube/config", "hers\n");
    give(&config);
    let found = Kubeconfig { user: "alice".into(), replaces: None }.observe(&host.machine).expect("a look");
    dispatch::keep(&op(), &host.machine).expect("kept");
    dispatch::converge(&op(), &host.machine).expect("a kubeconfig");
    let kube = host.machine.path("/home/alice/.kube");
    fs::rename(&kube, host.machine.path("/home/alice/old")).expect("moved away");
    symlink(host.machine.path("/etc/victim"), &kube).expect("a link");
    give(&host.machine.path("/home/alice"));
    let before = victim(&host);
    let op = Kubeconfig { user: "alice".into(), replaces: None };
    let error = op.restore(&host.machine, &found, Wave::Data).expect_err("a link").full();
    assert!(error.contains("/home/alice/.kube is a symbolic link"), "{error}");
    assert_eq!(victim(&host), before);
}

#[test]
fn a_folder_below_one_of_a_user_is_not_made_through_a_link() {
    let host = host();
    symlink(host.machine.path("/etc/victim"), host.machine.path("/home/alice/data")).expect("a link");
    let before = victim(&host);
    let op: Op = Dir { path: "/home/alice/data/etcd".into(), mode: 0o777 }.into();
    let error = dispatch::converge(&op, &host.machine).expect_err("a link").full();
    assert!(error.contains("/home/alice/data is a symbolic link"), "{error}");
    assert_eq!(victim(&host), before);
}

/// Set when dropped: what fails ends the exchange too, which would go on without an end.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Exchanges a folder for a link to root's folder, as fast as it goes, by the user's own uid, while something is done.
fn while_exchanged(host: &Host, folder: &Path, act: impl FnOnce()) {
    // The user must come into the folder of the test.
    fs::set_permissions(host.machine.root(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let (aside, target) = (host.machine.path("/home/alice/aside"), host.machine.path("/etc/victim"));
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                // Of this thread alone.
                let (user, group) = (rustix::process::Uid::from_raw(USER), rustix::process::Gid::from_raw(USER));
                rustix::thread::set_thread_groups(&[]).expect("no groups");
                rustix::thread::set_thread_res_gid(group, group, group).expect("a group");
                rustix::thread::set_thread_res_uid(user, user, user).expect("a user");
            }
            while !end.load(Ordering::Relaxed) {
                let _ = fs::create_dir_all(folder);
                let _ = fs::write(folder.join("config"), "hers");
                let _ = fs::rename(folder, &aside);
                let _ = symlink(&target, folder);
                let _ = fs::remove_file(folder);
                let _ = fs::rename(&aside, folder);
                let _ = fs::remove_dir_all(&aside);
            }
        });
        let _ends = Ends(&end);
        act();
    });
}

#[test]
fn a_user_who_races_folder_and_link_gets_nothing_written_or_chowned() {
    let host = host();
    let before = victim(&host);
    while_exchanged(&host, &host.machine.path("/home/alice/.kube"), || {
        for _ in 0..400 {
            // Refused, or written to her own folder.
            let _ = dispatch::converge(&op(), &host.machine);
        }
    });
    assert_eq!(victim(&host), before);
}

/// What differs is shown to whoever asks, and goes into reports.
#[test]
fn a_user_who_races_folder_and_link_gets_nothing_of_roots_shown_as_a_difference() {
    let mut host = host();
    let file = host.file("/home/alice/state/config", "planned\n");
    let steps = [Step::on("node1", "test.file", "Write").ensure(file).undo(Undo::RestoreBefore).build()];
    while_exchanged(&host, &host.machine.path("/home/alice/state"), || {
        for _ in 0..2_000 {
            let shown = format!("{:?}", drift(&steps, &host.machine));
            assert!(!shown.contains("of root"), "{shown}");
        }
    });
}

#[test]
fn a_user_who_races_folder_and_link_gets_nothing_deleted() {
    let host = host();
    let state = StateDir { path: "/home/alice/state".into() };
    let absent = state.observe(&host.machine).expect("a look");
    let inner = host.machine.path("/home/alice/state/inner");
    let before = victim(&host);
    while_exchanged(&host, &inner, || {
        for _ in 0..400 {
            // Removed, or refused because it is filled again.
            let _ = state.restore(&host.machine, &absent, Wave::Data);
            assert_eq!(victim(&host), before);
        }
    });
}

/// One blob of a registry's folder.
fn layout(data_dir: &str, blob: Digest) -> RegistryLayout {
    let repository = Repository { blobs: [blob].into(), ..Repository::default() };
    RegistryLayout { data_dir: data_dir.into(), repositories: [("a".to_owned(), repository)].into() }
}

#[test]
fn a_blob_is_not_put_into_a_registrys_folder_through_a_link() {
    let host = host();
    let blob = host.blob("a layer");
    symlink(host.machine.path("/etc/victim"), host.machine.path("/home/alice/registry")).expect("a link");
    let before = victim(&host);
    let op: Op = layout("/home/alice/registry", blob).into();
    let error = dispatch::converge(&op, &host.machine).expect_err("a link").full();
    assert!(error.contains("/home/alice/registry is a symbolic link"), "{error}");
    assert_eq!(victim(&host), before);
    assert_eq!(fs::metadata(host.machine.blob(&blob)).expect("the blob").nlink(), 1);
}

#[test]
fn a_blob_gets_its_name_in_the_folder_that_was_opened_though_its_path_is_another_by_then() {
    let host = host();
    let bytes = vec![7; 1 << 20];
    let blob = Digest::of(&bytes);
    // A pipe in place of the blob: it is read as far as the test lets it.
    let pipe = host.machine.blob(&blob);
    fs::create_dir_all(pipe.parent().expect("a parent")).expect("the store");
    let (at, mode) = (rustix::fs::CWD, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(at, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let hex = blob.hex();
    let folder = host.machine.path(format!("/mnt/registry/docker/registry/v2/blobs/sha256/{}/{hex}", &hex[..2]));
    let (aside, target) = (host.machine.path("/mnt/aside"), host.machine.path("/etc/victim"));
    let before = victim(&host);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pipe = fs::OpenOptions::new().write(true).open(&pipe).expect("a reader");
            // More than a pipe has room for: when all of it is written, it is being read, and the folder is open.
            let (first, rest) = bytes.split_at(bytes.len() / 2);
            pipe.write_all(first).expect("a reader");
            fs::rename(&folder, &aside).expect("the folder");
            symlink(&target, &folder).expect("a link");
            pipe.write_all(rest).expect("a reader");
        });
        layout("/mnt/registry", blob).converge(&host.machine).expect("laid out");
    });
    assert_eq!(victim(&host), before);
    assert!(fs::symlink_metadata(aside.join("data")).is_ok(), "it has no name in the folder that was opened");
}
