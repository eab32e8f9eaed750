//! kubeadm's own opinion of an upgrade, before it begins: `kubeadm config validate` of the configuration that becomes the
//! cluster's (before 1.28 `config images list`), and `kubeadm upgrade apply --dry-run` against the cluster as it is. Neither
//! changes anything.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;

use kubexm_plan::ProbeAnswer;
use kubexm_plan::op::{KubeadmUpgrade, UpgradeOf};
use kubexm_spec::KubernetesVersion;

use super::answer::{no, yes};
use crate::ctr::ctr;
use crate::ops::act::kubeadm_upgrade::{has_begun, program};
use crate::system::{Output, Program};
use crate::{Machine, OpError, fsio};

/// Where kubeadm writes what it would write; otherwise it would leave another folder below /etc/kubernetes each time.
const FOLDER: &str = "/run/kubexm/kubeadm-dry-run";
const FOLDER_VARIABLE: &str = "KUBEADM_UPGRADE_DRYRUN_DIR";
/// Where kubeadm 1.34 writes kubelet's configuration all the same (fixed upstream in pull request 134007).
const TEMPORARY: &str = "/etc/kubernetes/tmp";
const DRY_RUNS: &str = "kubeadm-upgrade-dryrun";
/// The first minor version whose kubeadm has `config validate`.
const VALIDATES: u32 = 28;
const LIMIT_S: u64 = 240;
const API_SERVER: &str = "kube-apiserver";
const ETCD: &str = "etcd";

pub(super) fn look(machine: &Machine, upgrade: &KubeadmUpgrade) -> Result<ProbeAnswer, OpError> {
    let version = &upgrade.version;
    // kubeadm would judge a cluster that has two versions.
    if has_begun(upgrade, machine)? {
        return Ok(yes(format!("the upgrade to {version} has begun already")));
    }
    match &upgrade.of {
        UpgradeOf::Cluster { config: Some(config) } => {
            let output =
                machine.try_run(&Program::new("kubeadm").args(reads(version)).args(["--config", config.as_str()]))?;
            if output.code != 0 {
                return Ok(no(format!("kubeadm {version} does not take {config}: {}", reason(&output))));
            }
        }
        UpgradeOf::Cluster { config: None } => {
            if let Some(why) = lacks_images(machine, upgrade)? {
                return Ok(no(why));
            }
        }
        UpgradeOf::ControlPlane | UpgradeOf::Worker => {}
    }
    let folder = machine.path(FOLDER);
    remove(&folder)?;
    fsio::private_folder(&folder)?;
    let dry_run = program(upgrade).arg("--dry-run").env(FOLDER_VARIABLE, folder.display().to_string()).within(LIMIT_S);
    let temporary = machine.path(TEMPORARY);
    let before = names(&temporary)?;
    let output = machine.try_run(&dry_run);
    remove(&folder)?;
    clean(&temporary, before.as_ref())?;
    let output = output?;
    Ok(match output.code {
        0 => yes(format!("kubeadm would upgrade the cluster to {version}")),
        _ => no(format!("kubeadm would not upgrade the cluster to {version}: {}", reason(&output))),
    })
}

/// The command that reads a configuration and changes nothing. `validate` came with 1.28 (kubernetes/kubernetes#118013); the other one does
/// not refuse fields that it does not know.
fn reads(version: &str) -> Vec<&'static str> {
    let has_validate = version.parse::<KubernetesVersion>().is_ok_and(|version| version.minor() >= VALIDATES);
    if has_validate { vec!["config", "validate"] } else { vec!["config", "images", "list"] }
}

/// What kubeadm would pull, which it decides itself where the cluster keeps its own configuration: with a registry that it cannot reach it
/// would stop in the middle of an act that cannot be rolled back. A dry run does not look.
fn lacks_images(machine: &Machine, upgrade: &KubeadmUpgrade) -> Result<Option<String>, OpError> {
    let version = upgrade.version.as_str();
    let server = upgrade.images.get(API_SERVER).and_then(|image| image.split_once(&format!("/{API_SERVER}:")));
    let Some((repository, _)) = server else { return Ok(None) };
    let list = ["config", "images", "list", "--kubernetes-version", version, "--image-repository", repository];
    let output = machine.try_run(&Program::new("kubeadm").args(list).within(60))?;
    if output.code != 0 {
        return Ok(Some(format!("kubeadm {version} does not say which images it needs: {}", reason(&output))));
    }
    // A runtime that does not answer does not lack images.
    let listed = machine.run(&ctr(["images", "list"]))?.stdout();
    let loaded: BTreeSet<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let text = output.stdout();
    let asked = text.lines().map(str::trim).filter(|line| line.contains('/') && !line.contains(' '));
    // It is asked without the cluster's configuration, and lists an etcd of its own that a cluster with another one does not run.
    let of_etcd = format!("{repository}/{ETCD}:");
    let unused = |image: &&str| image.starts_with(&of_etcd) && !upgrade.images.contains_key(ETCD);
    let lacking: Vec<&str> = asked.filter(|image| !loaded.contains(image) && !unused(image)).collect();
    Ok((!lacking.is_empty()).then(|| {
        format!(
            "kubeadm {version} would pull {}, which the bundle does not have: build the bundle with these tags (an overlay of the \
             catalogue, `--catalogue`)",
            lacking.join(", ")
        )
    }))
}

fn remove(folder: &Path) -> Result<(), OpError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(OpError::path("remove", folder)(error)),
        _ => Ok(()),
    }
}

/// What is in a folder; none if that is not there.
fn names(folder: &Path) -> Result<Option<BTreeSet<OsString>>, OpError> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(OpError::path("list", folder))?,
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(OpError::path("list", folder)));
    names.collect::<Result<_, _>>().map(Some)
}

/// Removes what this dry run has left below kubeadm's folder, and the folder with it if it made that. Those of others stay.
fn clean(folder: &Path, before: Option<&BTreeSet<OsString>>) -> Result<(), OpError> {
    let Some(now) = names(folder)? else { return Ok(()) };
    let is_new = |name: &&OsString| before.is_none_or(|before| !before.contains(*name));
    for name in now.iter().filter(is_new).filter(|name| name.to_string_lossy().starts_with(DRY_RUNS)) {
        remove(&folder.join(name))?;
    }
    if before.is_some() { Ok(()) } else { fsio::remove_folder(folder).map(drop) }
}

/// kubeadm's lines about errors: it prints everything that it would write, too.
fn reason(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let error = |line: &&str| line.contains("[ERROR") || line.starts_with("error:") || line.contains("FATAL:");
    let errors: Vec<&str> = said.lines().map(str::trim).filter(error).collect();
    if errors.is_empty() { output.tail() } else { errors.join("; ") }
}
