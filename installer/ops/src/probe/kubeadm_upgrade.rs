//! kubeadm's own opinion of an upgrade, before it begins: `kubeadm config validate` of the configuration that becomes the
//! cluster's, and `kubeadm upgrade apply --dry-run` against the cluster as it is. Neither changes anything.

use std::io::ErrorKind;
use std::path::Path;

use kubexm_plan::ProbeAnswer;
use kubexm_plan::op::{KubeadmUpgrade, UpgradeOf};

use super::answer::{no, yes};
use crate::ops::act::kubeadm_upgrade::{has_begun, program};
use crate::ops::image_loaded;
use crate::system::{Output, Program};
use crate::{Machine, OpError, fsio};

/// Where kubeadm writes what it would write; otherwise it would leave another folder below /etc/kubernetes each time.
const FOLDER: &str = "/run/kubexm/kubeadm-dry-run";
const FOLDER_VARIABLE: &str = "KUBEADM_UPGRADE_DRYRUN_DIR";
/// Where kubeadm 1.34 writes kubelet's configuration all the same (fixed upstream in pull request 134007).
const TEMPORARY: &str = "/etc/kubernetes/tmp";
const DRY_RUNS: &str = "kubeadm-upgrade-dryrun";
const LIMIT_S: u64 = 240;
const API_SERVER: &str = "kube-apiserver";

pub(super) fn look(machine: &Machine, upgrade: &KubeadmUpgrade) -> Result<ProbeAnswer, OpError> {
    let version = &upgrade.version;
    // kubeadm would judge a cluster that has two versions.
    if has_begun(upgrade, machine)? {
        return Ok(yes(format!("the upgrade to {version} has begun already")));
    }
    match &upgrade.of {
        UpgradeOf::Cluster { config: Some(config) } => {
            let output = machine.try_run(&Program::new("kubeadm").args(["config", "validate", "--config", config]))?;
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
    let was_there = temporary.exists();
    let output = machine.try_run(&dry_run);
    remove(&folder)?;
    clean(&temporary, was_there)?;
    let output = output?;
    Ok(match output.code {
        0 => yes(format!("kubeadm would upgrade the cluster to {version}")),
        _ => no(format!("kubeadm would not upgrade the cluster to {version}: {}", reason(&output))),
    })
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
    let mut lacking = Vec::new();
    let text = output.stdout();
    for image in text.lines().map(str::trim).filter(|line| line.contains('/') && !line.contains(' ')) {
        if image_loaded::list(machine, image)?.is_none() {
            lacking.push(image);
        }
    }
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

/// Removes what dry runs have left below kubeadm's folder, and the folder with it if a dry run made that.
fn clean(folder: &Path, was_there: bool) -> Result<(), OpError> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(OpError::path("list", folder))?,
    };
    for entry in entries {
        let entry = entry.map_err(OpError::path("list", folder))?;
        if entry.file_name().to_string_lossy().starts_with(DRY_RUNS) {
            remove(&entry.path())?;
        }
    }
    if was_there { Ok(()) } else { fsio::remove_folder(folder).map(drop) }
}

/// kubeadm's lines about errors: it prints everything that it would write, too.
fn reason(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let error = |line: &&str| line.contains("[ERROR") || line.starts_with("error:") || line.contains("FATAL:");
    let errors: Vec<&str> = said.lines().map(str::trim).filter(error).collect();
    if errors.is_empty() { output.tail() } else { errors.join("; ") }
}
