//! No sysctl file that is read after kubexm's at boot sets another value (a hardened `ip_forward = 0`).

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;
use crate::balancer::external::{self, NONLOCAL_BIND, SYSCTL};
use crate::modules::os::sysctls_of;
use crate::paths;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let cluster = input.cx.cluster;
    // Set on hosts of the load balancer in any case.
    if external::of(cluster).is_some() {
        for host in input.load_balancers() {
            stays(host, NONLOCAL_BIND, SYSCTL, report);
        }
    }
    // Nothing else of kubexm's is read at boot then, and other rules hold.
    if cluster.system.skip_configure_os {
        return;
    }
    for host in input.nodes() {
        sysctls_of(cluster).for_each(|key| stays(host, key, paths::SYSCTL, report));
    }
}

/// `ours`: the file that sets the parameter to 1.
fn stays(host: &ObservedHost<'_>, key: &str, ours: &str, report: &mut Report) {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let Some(boot) = host.facts.boot_sysctls.get(key).filter(|boot| boot.value != "1") else { return };
    // Files are read by name, whatever folder they are in (sysctl.d(5)).
    let file = boot.line.rsplit_once(':').map_or(boot.line.as_str(), |(file, _)| file);
    if name(file) > name(ours) {
        report.fail(
            host.name(),
            format!("{} sets {key} = {}", boot.line, boot.value),
            format!("no file read after {ours} that sets another value: it must be 1 after a reboot too"),
            "remove that line or set it to 1",
        );
    }
}
