//! Files that kubeadm writes on a node: copied after its init or join has succeeded, so that later edits are found.
//!
//! Only files without secrets: manifests of static pods and kubelet's configuration name keys by their paths.

use kubexm_plan::{Difference, KubeadmFiles};

use super::files::MANIFESTS;
use crate::difference::{self, Contents};
use crate::fsio::{self, Access};
use crate::teardown::mounts;
use crate::{Machine, OpError, paths};

const OTHERS: [&str; 3] =
    ["/etc/kubernetes/manifests/etcd.yaml", "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env"];

fn all() -> impl Iterator<Item = &'static str> {
    MANIFESTS.into_iter().chain(OTHERS)
}

/// Where the copy of a file is.
pub(super) fn copy(path: &str) -> String {
    format!("{}{path}", paths::KUBEADM_FILES)
}

/// Copies the files. A crash in between leaves some of them, and the act's mark without its end: they are copied again.
pub(super) fn record(machine: &Machine) -> Result<(), OpError> {
    for path in all() {
        match fsio::read(&machine.path(path))? {
            Some(bytes) => machine.write_file(&copy(path), &bytes, Access::mode(0o600))?,
            None => fsio::remove(&machine.path(copy(path)))?,
        }
    }
    Ok(())
}

/// Changes the copy of a file as the file itself is changed by kubexm: edits of others are found as before.
pub(crate) fn rewrite(
    machine: &Machine,
    path: &str,
    change: impl FnOnce(&str) -> Option<String>,
) -> Result<(), OpError> {
    let Some(text) = fsio::read_text(&machine.path(copy(path)))? else { return Ok(()) };
    match change(&text).filter(|changed| *changed != text) {
        Some(changed) => machine.write_file(&copy(path), changed.as_bytes(), Access::mode(0o600)),
        None => Ok(()),
    }
}

/// The files as they are now, on a node whose init or join by kubexm has succeeded.
pub(crate) fn compared(machine: &Machine) -> Result<KubeadmFiles, OpError> {
    let mut files = KubeadmFiles { recorded: machine.path(paths::KUBEADM_FILES).is_dir(), changed: Vec::new() };
    for path in all() {
        let Some(old) = fsio::read(&machine.path(copy(path)))? else { continue };
        let change = match fsio::read(&machine.path(path)) {
            Ok(Some(new)) if new == old => continue,
            Ok(Some(new)) => difference::of_contents(
                path,
                &Contents { old: &old, old_name: "by kubeadm", new: &new, new_name: "now" },
            ),
            Ok(None) => Difference { what: path.to_owned(), how: "it is missing".to_owned(), diff: None },
            Err(error) => Difference { what: path.to_owned(), how: error.full(), diff: None },
        };
        files.changed.push(change);
    }
    Ok(files)
}

/// After a reset nothing is compared any more.
pub(super) fn forget(machine: &Machine) -> Result<(), OpError> {
    mounts::remove_tree(machine, paths::KUBEADM_FILES)
}
