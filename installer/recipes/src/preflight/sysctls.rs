//! No sysctl file that is read after kubexm's at boot sets another value (a hardened `ip_forward = 0`).

use super::input::PreflightInput;
use super::report::Report;
use crate::modules::os::sysctls_of;
use crate::paths;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    // Nothing of kubexm's is read at boot then, and other rules hold.
    if input.cx.cluster.system.skip_configure_os {
        return;
    }
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    for host in input.nodes() {
        for key in sysctls_of(input.cx.cluster) {
            let Some(boot) = host.facts.boot_sysctls.get(key).filter(|boot| boot.value != "1") else { continue };
            // Files are read by name, whatever folder they are in (sysctl.d(5)).
            let file = boot.line.rsplit_once(':').map_or(boot.line.as_str(), |(file, _)| file);
            if name(file) > name(paths::SYSCTL) {
                report.fail(
                    host.name(),
                    format!("{} sets {key} = {}", boot.line, boot.value),
                    format!(
                        "no file read after {} that sets another value: it must be 1 after a reboot too",
                        paths::SYSCTL
                    ),
                    "remove that line or set it to 1",
                );
            }
        }
    }
}
