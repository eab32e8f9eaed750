//! SELinux, fapolicyd, FIPS, firewall and swap: what will be changed, or must be right because it is not changed.

use kubexm_plan::facts::SelinuxState;
use kubexm_spec::cluster::{Firewall, Selinux};

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;
use crate::selinux;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let system = &input.cx.cluster.system;
    for host in &input.hosts {
        let facts = host.facts;
        if selinux::confines(input.cx.cluster) && host.roles.in_cluster() {
            confined(host, selinux::has_policy(input.cx.cluster, facts), report);
        } else if facts.selinux == SelinuxState::Enforcing {
            let fix = match system.selinux {
                Selinux::Permissive => "it will be made permissive, now and at boot",
                Selinux::Keep | Selinux::Confine => {
                    "it is kept as it is: with container-selinux on the hosts, `system.selinux: confine` gives containers \
                     labels (in a new cluster); set `permissive` only if its policy stops containers from working"
                }
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
            let fix = "the mode is kept; kubexm's programs use ring and RustCrypto, which are not FIPS-validated, and upstream's \
                       builds of Kubernetes use Go's own cryptography: ask your auditor (docs/security.md, \"Hardened hosts\")";
            report.warn(host.name(), "FIPS mode", "your own test that every component runs in it", fix);
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
        if host.roles.in_cluster() && !swaps.is_empty() && !system.skip_configure_os {
            let found = format!("swap ({})", swaps.join(", "));
            report.warn(host.name(), found, "none", "it will be turned off, now and at boot");
        }
    }
}

/// Whether SELinux of a node can confine containers.
fn confined(host: &ObservedHost<'_>, has_policy: bool, report: &mut Report) {
    match host.facts.selinux {
        SelinuxState::Enforcing if has_policy => {}
        SelinuxState::Enforcing => report.fail(
            host.name(),
            "SELinux enforcing, without the policy for containers",
            "the package container-selinux, since `system.selinux: confine` is set",
            "install it, or name it in `system.rpms` and build the bundle again",
        ),
        SelinuxState::Permissive => {
            report.warn(host.name(), "SELinux permissive", "enforcing", "containers get labels, and nothing is denied");
        }
        SelinuxState::Absent => {
            report.warn(host.name(), "no SELinux", "enforcing", "containers of this host are not confined");
        }
    }
}
