//! What `create` would set on hosts, where `system.skipConfigureOS` says that somebody else sets it: name, swap, kernel modules and
//! parameters must be right now and after a boot.

use kubexm_plan::facts::ModuleState;
use kubexm_spec::Cluster;

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;
use crate::modules::os::{kernel_modules, sysctls_of};

const SKIPPED: &str = "since `system.skipConfigureOS` leaves it to you";

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let cluster = input.cx.cluster;
    if !cluster.system.skip_configure_os {
        return;
    }
    for host in &input.hosts {
        // The name of another host is refused by the check of names.
        let is_others = input.hosts.iter().any(|other| other.name() == host.facts.hostname);
        if !is_others {
            report.fail(
                host.name(),
                format!("the hostname {:?}", host.facts.hostname),
                format!("{:?}, its name in cluster.yaml, {SKIPPED}", host.name()),
                format!("`hostnamectl set-hostname {}` there, or rename the host in cluster.yaml", host.name()),
            );
        }
    }
    for host in input.nodes() {
        if !swap_is_allowed(cluster) {
            swap(host, report);
        }
        kernel_modules(cluster).into_iter().for_each(|module| loaded(host, module, report));
        sysctls_of(cluster).for_each(|key| is_set(host, key, report));
    }
}

/// Whether cluster.yaml tells kubelet to run beside swap.
pub(super) fn swap_is_allowed(cluster: &Cluster) -> bool {
    let setting = cluster.kubernetes.as_ref().and_then(|kubernetes| kubernetes.kubelet.get("failSwapOn"));
    setting.and_then(serde_json::Value::as_bool) == Some(false)
}

fn swap(host: &ObservedHost<'_>, report: &mut Report) {
    let swaps: Vec<&str> = host.facts.swaps.iter().chain(&host.facts.fstab_swaps).map(String::as_str).collect();
    if !swaps.is_empty() {
        report.fail(
            host.name(),
            format!("swap ({})", swaps.join(", ")),
            format!("none, now and at boot, {SKIPPED}"),
            "`swapoff -a` and no entry in /etc/fstab, or `kubelet: {failSwapOn: false}` in cluster.yaml",
        );
    }
}

fn loaded(host: &ObservedHost<'_>, module: &str, report: &mut Report) {
    let fix = format!("`modprobe {module} && echo {module} > /etc/modules-load.d/{module}.conf`");
    match host.facts.modules.get(module) {
        Some(ModuleState::Present) if host.facts.boot_modules.contains(module) => {}
        Some(ModuleState::Present) => report.fail(
            host.name(),
            format!("no file that loads the kernel module {module} at boot"),
            format!("{module} loaded now and at boot, {SKIPPED}"),
            fix,
        ),
        Some(ModuleState::Loadable) => report.fail(
            host.name(),
            format!("the kernel module {module} not loaded"),
            format!("{module} loaded now and at boot, {SKIPPED}"),
            fix,
        ),
        // The check of the kernel refuses it.
        Some(ModuleState::Missing) | None => {}
    }
}

fn is_set(host: &ObservedHost<'_>, key: &str, report: &mut Report) {
    let needed = format!("{key} = 1 now and at boot, {SKIPPED}");
    let set = format!("`echo '{key} = 1' > /etc/sysctl.d/99-{}.conf && sysctl --system`", key.replace('.', "-"));
    let boot = host.facts.boot_sysctls.get(key);
    match host.facts.sysctls.get(key).map(String::as_str) {
        // It comes with a module, which is another finding.
        None if key.starts_with("net.bridge.") && boot.is_some_and(|boot| boot.value == "1") => {}
        Some("1") => match boot {
            Some(boot) if boot.value == "1" => {}
            Some(boot) => {
                let found = format!("{} sets {key} = {} at boot", boot.line, boot.value);
                report.fail(host.name(), found, needed, "set it to 1 there");
            }
            None => report.fail(host.name(), format!("no file that sets {key} at boot"), needed, set),
        },
        found => report.fail(host.name(), format!("{key} = {}", found.unwrap_or("(not there)")), needed, set),
    }
}
