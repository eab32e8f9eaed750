//! On a cluster that others have made only copies of the earlier admin.conf are replaced.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use kubexm_ops::{Wave, dispatch};
use kubexm_plan::Op;
use kubexm_plan::op::Kubeconfig;
use kubexm_spec::Digest;

use crate::common::Host;

const ADMIN: &str = "/etc/kubernetes/admin.conf";
const CONFIG: &str = "/root/.kube/config";
const EARLIER: &str = "the earlier one\n";

fn op() -> Op {
    Kubeconfig { user: "root".to_owned(), replaces: Some(Digest::of(EARLIER)) }.into()
}

/// A host whose admin.conf was renewed.
fn renewed() -> Host {
    let host = Host::fresh();
    host.put(ADMIN, "the renewed one\n");
    host
}

#[test]
fn a_copy_is_replaced_and_keeps_its_mode_and_its_owner() {
    let host = renewed();
    host.put(CONFIG, EARLIER);
    let real = host.machine.path(CONFIG);
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let owner = |found: fs::Metadata| (found.uid(), found.gid(), found.mode() & 0o7777);
    let was = owner(real.metadata().unwrap());
    let before = dispatch::observe(&op(), &host.machine).unwrap();
    assert!(!before.satisfied);
    dispatch::keep(&op(), &host.machine).unwrap();
    dispatch::converge(&op(), &host.machine).unwrap();
    assert_eq!(host.read(CONFIG), host.read(ADMIN));
    assert_eq!(owner(real.metadata().unwrap()), was);
    assert!(dispatch::observe(&op(), &host.machine).unwrap().satisfied, "it is replaced once");
    for wave in Wave::ALL {
        dispatch::restore(&op(), &host.machine, &before, wave).unwrap();
    }
    assert_eq!((host.read(CONFIG).as_str(), owner(real.metadata().unwrap())), (EARLIER, was));
}

#[test]
fn before_the_renewal_a_copy_is_as_it_should_be() {
    let host = renewed();
    host.put(ADMIN, EARLIER);
    host.put(CONFIG, EARLIER);
    assert!(dispatch::observe(&op(), &host.machine).unwrap().satisfied);
}

#[test]
fn a_file_of_the_users_own_stays_and_so_does_what_becomes_of_it() {
    let host = renewed();
    host.put(CONFIG, "written by somebody\n");
    let tree = host.traces();
    let before = dispatch::observe(&op(), &host.machine).unwrap();
    assert!(before.satisfied);
    dispatch::converge(&op(), &host.machine).unwrap();
    assert_eq!(host.traces(), tree);
    host.put(CONFIG, "and written again\n");
    for wave in Wave::ALL {
        dispatch::restore(&op(), &host.machine, &before, wave).unwrap();
    }
    assert_eq!(host.read(CONFIG), "and written again\n");
}

#[test]
fn where_there_is_none_none_is_written_and_a_link_stays_a_link() {
    let host = renewed();
    let tree = host.traces();
    assert!(dispatch::observe(&op(), &host.machine).unwrap().satisfied);
    dispatch::converge(&op(), &host.machine).unwrap();
    assert_eq!(host.traces(), tree);

    let folder = host.machine.path("/root/.kube");
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(ADMIN, folder.join("config")).unwrap();
    assert!(dispatch::observe(&op(), &host.machine).unwrap().satisfied, "it leads to the renewed one by itself");
    dispatch::converge(&op(), &host.machine).unwrap();
    assert!(folder.join("config").is_symlink());
}

#[test]
fn what_a_link_of_the_user_leads_to_is_left_alone() {
    let host = renewed();
    host.put("/etc/passwd", "alice:x:54321:54321::/home/alice:/bin/sh\n");
    host.put("/srv/kube/config", EARLIER);
    fs::create_dir_all(host.machine.path("/home/alice")).unwrap();
    fs::set_permissions(host.machine.path("/home/alice"), fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::symlink(host.machine.path("/srv/kube"), host.machine.path("/home/alice/.kube")).unwrap();
    let op: Op = Kubeconfig { user: "alice".to_owned(), replaces: Some(Digest::of(EARLIER)) }.into();
    let before = dispatch::observe(&op, &host.machine).unwrap();
    assert!(before.satisfied);
    for wave in Wave::ALL {
        dispatch::restore(&op, &host.machine, &before, wave).unwrap();
    }
    assert_eq!(host.read("/srv/kube/config"), EARLIER);
}
