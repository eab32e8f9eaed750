//! Packages of the operating system that a host lacks: whether they can come from the bundle, and what they change.

use super::{Report, Site};
use crate::packages::{HostPackages, NodePackages};

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    for seen in &site.hosts {
        let name = seen.name();
        match &seen.packages {
            HostPackages::Nothing => {}
            HostPackages::NoSet { os, lacks } => report.fail(
                name,
                format!(
                    "{os} without {}, and a bundle with packages of {} only",
                    lacks.join(", "),
                    site.cx.packages.told()
                ),
                format!("packages of {os}"),
                "add the system to `spec.bundle.os` (and its platform to `spec.bundle.platforms`) and build the bundle \
                 again, or install them yourself",
            ),
            HostPackages::Unreadable { lacks, why } => report.fail(
                name,
                format!("no {}, and no word of what is installed: {why}", lacks.join(", ")),
                "a list of what is installed, since nothing of it may be broken",
                "mend it (`dpkg --configure -a`, `rpm --rebuilddb`), or say `system.osPackages: none` and install them \
                 yourself",
            ),
            HostPackages::Planned(planned) => told(name, planned, report),
        }
    }
}

fn told(name: &str, planned: &NodePackages<'_>, report: &mut Report) {
    for conflict in &planned.conflicts {
        let held = planned.held.iter().filter(|held| conflict.why.contains(held.as_str())).cloned().collect::<Vec<_>>();
        let mend = match held.as_slice() {
            [] => "install it yourself as the host allows it, or take the other away: nothing that is there is removed or \
                   made older"
                .to_owned(),
            held => format!("release what is held where you can spare it: `apt-mark unhold {}`", held.join(" ")),
        };
        report.fail(
            name,
            format!("{} cannot be installed: {}", conflict.root.name, conflict.why),
            "all of its packages",
            mend,
        );
    }
    if !planned.upgrades.is_empty() {
        let each = planned.upgrades.iter().map(|one| format!("{} {} to {}", one.name, one.from, one.to));
        report.warn(
            name,
            format!("what lacks upgrades {}", each.collect::<Vec<_>>().join(", ")),
            "packages that come and change no other",
            "there is no way back from an upgrade, since the bundle does not have the older packages: install what lacks \
             yourself where that matters",
        );
    }
    for (gone, package) in planned.replaced() {
        let version = planned.leaves_for_good.iter().find(|(one, _)| one == gone).map(|(_, version)| version);
        let mend = match version {
            None => "it is put back when the run is taken back or the cluster is reset".to_owned(),
            Some(version) => format!(
                "it leaves as {version}, and is put back as {} when the run is taken back or the cluster is reset",
                package.version
            ),
        };
        report.warn(name, format!("{gone}, in whose place another comes"), "one of them", mend);
    }
    if !planned.cut_off.is_empty() && planned.packages().next().is_some() {
        report.warn(
            name,
            format!("an installation that was cut off ({})", planned.cut_off.join(", ")),
            "packages that are there or not",
            "it is finished first, as `dpkg --configure -a` does",
        );
    }
}
