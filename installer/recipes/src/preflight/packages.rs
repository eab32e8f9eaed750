//! Operating system packages that a host is missing: whether they can be installed from the bundle, and what they
//! change.

use kubexm_spec::Family;

use super::input::PreflightInput;
use super::report::Report;
use crate::packages::{CannotInstall, NodePackages};

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        let name = host.name();
        match &host.packages {
            Ok(None) => {}
            Ok(Some(planned)) => check_host(input, name, planned, report),
            Err(CannotInstall::NoSet { os, missing }) => report.fail(
                name,
                format!(
                    "{os} without {}, and a bundle with packages of {} only",
                    missing.join(", "),
                    input.cx.packages.describe()
                ),
                format!("packages of {os}"),
                "add the system to `spec.bundle.os` (and its platform to `spec.bundle.platforms`) and build the bundle \
                 again, or install them yourself",
            ),
            Err(CannotInstall::Unreadable { missing, why }) => report.fail(
                name,
                format!("no {}, and the list of installed packages cannot be read: {why}", missing.join(", ")),
                "a list of installed packages that can be read, so that none of them is broken",
                "repair it (a broken list: `dpkg --configure -a`, `rpm --rebuilddb`), or set `system.osPackages: none` and install them \
                 yourself",
            ),
        }
    }
}

/// Whether a text contains a package's name (`socat`, `socat:amd64`), but not as part of a longer name.
fn names(sentence: &str, package: &str) -> bool {
    let of_name = |letter: char| letter.is_ascii_alphanumeric() || "+-._".contains(letter);
    sentence.split(|letter| !of_name(letter)).any(|word| word.trim_end_matches('.') == package)
}

fn check_host(input: &PreflightInput<'_>, name: &str, planned: &NodePackages<'_>, report: &mut Report) {
    for conflict in &planned.conflicts {
        let held = planned.held.iter().filter(|held| names(&conflict.why, held)).cloned().collect::<Vec<_>>();
        let fix = match held.as_slice() {
            [] => "install it yourself in a way the host allows, or remove the other package: no installed package is removed or \
                   downgraded"
                .to_owned(),
            held if planned.carried.profile.family == Family::Deb => {
                format!("release the hold if you can: `apt-mark unhold {}`", held.join(" "))
            }
            held => format!(
                "this host keeps {} as it is: see `exclude` in /etc/dnf/dnf.conf (or /etc/yum.conf) and `dnf versionlock list`, and \
                 release it if you can",
                held.join(", ")
            ),
        };
        report.fail(
            name,
            format!("{} cannot be installed: {}", conflict.root.name, conflict.why),
            "all of its packages",
            fix,
        );
    }
    if !planned.upgrades.is_empty() {
        let each = planned.upgrades.iter().map(|one| format!("{} {} to {}", one.name, one.from, one.to));
        report.warn(
            name,
            format!("missing packages whose installation upgrades {}", each.collect::<Vec<_>>().join(", ")),
            "packages that change no installed one",
            "an upgrade cannot be rolled back, since the bundle does not have the older packages: install what is missing \
             yourself where that matters",
        );
    }
    for (gone, package) in planned.replaced() {
        let version = planned.restored_differently.iter().find(|(one, _)| one == gone).map(|(_, version)| version);
        // kubexm configures only chrony, and only with `ntpServers`.
        let started = match input.cx.cluster.system.ntp_servers.is_empty() {
            true => "the new service is not started: set it up (chrony: add servers to `spec.system.ntpServers`). ",
            false => "",
        };
        let back = "when the run is rolled back or the cluster is reset";
        let stays_away = planned.irreversible.as_ref().is_some_and(|part| part.replaced.contains_key(gone));
        let fix = match version {
            _ if stays_away => format!(
                "{started}What is installed with it cannot be rolled back, so it stays removed: install it yourself where that matters"
            ),
            None => format!("{started}It is restored {back}"),
            Some(version) => {
                format!("{started}It is removed as {version}, and restored as {} {back}", package.version)
            }
        };
        report.warn(name, format!("{gone}, which another package replaces"), "only one of the two", fix);
    }
    let chrony = planned.to_install.iter().any(|root| root.packages.iter().any(|name| name == "chrony"));
    if chrony && input.cx.cluster.system.ntp_servers.is_empty() && planned.replaced().next().is_none() {
        report.warn(
            name,
            "chrony to be installed and no `spec.system.ntpServers`",
            "time servers, with which it is set up and started",
            "services installed with `debs` or `rpms` are not started: add servers to `spec.system.ntpServers`, or \
             set it up yourself",
        );
    }
    if !planned.cut_off.is_empty() && planned.packages().next().is_some() {
        report.warn(
            name,
            format!("an installation that was interrupted ({})", planned.cut_off.join(", ")),
            "packages that are either installed or not",
            "it is finished first, as `dpkg --configure -a` does",
        );
    }
}
