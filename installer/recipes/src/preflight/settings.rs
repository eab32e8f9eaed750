//! SELinux, fapolicyd, FIPS, firewall and swap: what will be changed, or must be right because it is not changed.

use kubexm_plan::facts::SelinuxState;
use kubexm_spec::cluster::{Firewall, Selinux};

use super::report::Report;
use super::site::Site;

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    let system = &site.cx.cluster.system;
    for host in &site.hosts {
        let facts = host.facts;
        if facts.selinux == SelinuxState::Enforcing {
            let fix = match system.selinux {
                Selinux::Permissive => "it will be made permissive, now and at boot",
                Selinux::Keep => "it is kept: set `system.selinux: permissive` if it stops containers from working",
            };
            report.warn(host.name(), "SELinux enforcing", "a policy that supports containers, or permissive", fix);
        }
        if facts.fapolicyd {
            let fix = "trust them with `fapolicyd-cli --file add /usr/local/bin` (and /opt/cni/bin), or stop fapolicyd";
            report.warn(
                host.name(),
                "fapolicyd active",
                "rules that allow programs which were not installed from packages",
                fix,
            );
        }
        if facts.fips {
            let fix =
                "no installed component is FIPS-validated: turn the mode off if your rules allow it, or test it first";
            report.warn(host.name(), "FIPS mode", "FIPS mode off, or your own test that every component runs", fix);
        }
        if !facts.firewalls.is_empty() {
            let fix = match system.firewall {
                Firewall::Off => "firewalld and ufw will be stopped and disabled",
                Firewall::Keep => {
                    "it is kept: open the ports of the roles and trust pod and service networks, or set \
                     `system.firewall: off`"
                }
            };
            let found = format!("{} active", facts.firewalls.join(", "));
            report.warn(host.name(), found, "the cluster's ports open between nodes", fix);
        }
        let swaps: Vec<&str> = facts.swaps.iter().chain(&facts.fstab_swaps).map(String::as_str).collect();
        if host.roles.in_cluster() && !swaps.is_empty() {
            let found = format!("swap ({})", swaps.join(", "));
            report.warn(host.name(), found, "none", "it will be turned off, now and at boot");
        }
    }
}
