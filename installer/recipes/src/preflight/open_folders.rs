//! Folders that cluster.yaml names for data are root's alone, and so is every folder that they are in: who can put another folder in
//! their place gives containerd his programs, etcd his database or Harbor his passwords.

use kubexm_plan::facts::PROGRAMS;

use super::input::PreflightInput;
use super::report::{Report, word};

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        for open in &host.facts.open_folders {
            let how = match open.owner {
                Some(uid) => format!("{} belongs to the user with the id {uid}", open.at),
                None => format!("others than root may write to {} (mode {:04o})", open.at, open.mode),
            };
            if open.folder == PROGRAMS {
                report.fail(
                    host.name(),
                    format!("{PROGRAMS}: {how}"),
                    "programs that are root's alone: from such a folder keepalived runs no check, and the address would stay where nothing answers",
                    format!("`chown root:root {at} && chmod go-w {at}`", at = word(&open.at)),
                );
                continue;
            }
            report.fail(
                host.name(),
                format!("{}: {how}", open.folder),
                "folders of data that are root's alone, as is every folder that they are in",
                format!(
                    "`chown root: {at} && chmod go-w {at}` if nobody else needs it, or name another folder in cluster.yaml",
                    at = word(&open.at)
                ),
            );
        }
    }
}
