//! kubeadm's own opinion of an upgrade, before it begins: `kubeadm config validate` of the configuration that becomes the
//! cluster's, and `kubeadm upgrade apply --dry-run` against the cluster as it is. Neither changes anything.

use std::io::ErrorKind;
use std::path::Path;

use kubexm_plan::ProbeAnswer;
use kubexm_plan::op::{KubeadmUpgrade, UpgradeOf};

use super::answer::{no, yes};
use crate::ops::act::kubeadm_upgrade::{has_begun, program};
use crate::system::{Output, Program};
use crate::{Machine, OpError, fsio};

/// Where kubeadm writes what it would write; otherwise it would leave another folder below /etc/kubernetes each time.
const FOLDER: &str = "/run/kubexm/kubeadm-dry-run";
const FOLDER_VARIABLE: &str = "KUBEADM_UPGRADE_DRYRUN_DIR";
const LIMIT_S: u64 = 240;

pub(super) fn look(machine: &Machine, upgrade: &KubeadmUpgrade) -> Result<ProbeAnswer, OpError> {
    let version = &upgrade.version;
    // kubeadm would judge a cluster that has two versions.
    if has_begun(upgrade, machine)? {
        return Ok(yes(format!("the upgrade to {version} has begun already")));
    }
    if let UpgradeOf::Cluster { config } = &upgrade.of {
        let output = machine.try_run(&Program::new("kubeadm").args(["config", "validate", "--config", config]))?;
        if output.code != 0 {
            return Ok(no(format!("kubeadm {version} does not take {config}: {}", reason(&output))));
        }
    }
    let folder = machine.path(FOLDER);
    remove(&folder)?;
    fsio::private_folder(&folder)?;
    let dry_run = program(upgrade).arg("--dry-run").env(FOLDER_VARIABLE, folder.display().to_string()).within(LIMIT_S);
    let output = machine.try_run(&dry_run);
    remove(&folder)?;
    let output = output?;
    Ok(match output.code {
        0 => yes(format!("kubeadm would upgrade the cluster to {version}")),
        _ => no(format!("kubeadm would not upgrade the cluster to {version}: {}", reason(&output))),
    })
}

fn remove(folder: &Path) -> Result<(), OpError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(OpError::path("remove", folder)(error)),
        _ => Ok(()),
    }
}

/// kubeadm's lines about errors: it prints everything that it would write, too.
fn reason(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let error = |line: &&str| line.contains("[ERROR") || line.starts_with("error:") || line.contains("FATAL:");
    let errors: Vec<&str> = said.lines().map(str::trim).filter(error).collect();
    if errors.is_empty() { output.tail() } else { errors.join("; ") }
}
