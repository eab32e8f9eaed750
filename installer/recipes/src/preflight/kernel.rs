//! Kernel version, cgroups and modules, by the support matrix of the Kubernetes minor version.

use kubexm_manifests::CgroupV1;
use kubexm_plan::facts::ModuleState;
use kubexm_spec::cluster::{Keyword as _, ProxyMode};

use super::input::{ObservedHost, PreflightInput};
use super::report::{Report, Severity, Words};
use crate::modules::os::{kernel_modules, uses_ipvs};
use crate::{network, support};

/// Older kernels miss features that containers need.
const OLDEST: (u32, u32) = (3, 10);
/// The oldest kernel whose nftables kube-proxy can use (its own documented requirement).
const NFTABLES: (u32, u32) = (5, 13);

/// The first minor version of Kubernetes in which kube-proxy's mode ipvs is deprecated (KEP-5495).
const IPVS_DEPRECATED: (u32, u32) = (1, 35);

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let kubernetes = parse(input.kubernetes.trim_start_matches('v'));
    if uses_ipvs(input.cx.cluster) && kubernetes.is_some_and(|minor| minor >= IPVS_DEPRECATED) {
        let words = Words {
            found: format!("`proxyMode: ipvs` with Kubernetes {}", input.kubernetes),
            needed: "a mode that upstream keeps: iptables or nftables".to_owned(),
            fix: "it still works and is deprecated since 1.35: choose `proxyMode: nftables` (kernel 5.13 or newer) or `iptables` for a new \
                  cluster"
                .to_owned(),
        };
        report.add(Severity::Warn, None, words);
    }
    for host in input.nodes() {
        version(input, host, report);
        cgroups(input, host, report);
        programs_in_kernel(input, host, report);
        for module in kernel_modules(input.cx.cluster) {
            if matches!(host.facts.modules.get(module), None | Some(ModuleState::Missing)) {
                report.fail(
                    host.name(),
                    format!("no kernel module {module}"),
                    format!("{module} loaded, built in or loadable"),
                    format!(
                        "install the modules of the running kernel (linux-modules-extra, kernel-modules), or {}",
                        instead(module)
                    ),
                );
            }
        }
        if host.facts.page_size > 4096 {
            report.warn(
                host.name(),
                format!("memory pages of {} bytes", host.facts.page_size),
                "4096 bytes",
                "some images (those with jemalloc) crash on larger pages: boot a kernel with 4K pages if one does",
            );
        }
    }
}

/// What else can be done where a module is missing.
fn instead(module: &str) -> &'static str {
    match module {
        "wireguard" => "set another `spec.network.options.backend`",
        "ipip" => "set another `spec.network.options.encapsulation`",
        module if kubexm_plan::network::MODULES.contains(&module) => "name another `spec.network.plugin`",
        module if kubexm_plan::runtime::MODULES.contains(&module) => {
            "take the add-on that needs it out of `spec.addons`"
        }
        module if module.starts_with("ip_vs") => "set `proxyMode: iptables` or `nftables`",
        _ => "boot the kernel whose modules are installed",
    }
}

fn version(input: &PreflightInput<'_>, host: &ObservedHost<'_>, report: &mut Report) {
    let found = || format!("kernel {}", host.facts.kernel);
    let newer = "upgrade the kernel and reboot";
    let Some(kernel) = parse(&host.facts.kernel) else {
        report.fail(host.name(), found(), "a version that can be read, such as 6.1.0", "check `uname -r` there");
        return;
    };
    if kernel < OLDEST {
        report.fail(host.name(), found(), "3.10 or newer", newer);
        return;
    }
    if let Some(support) = input.support
        && parse(&support.minimum_kernel).is_some_and(|minimum| kernel < minimum)
    {
        let severity = match support.older_kernel {
            kubexm_manifests::Severity::Fail => Severity::Fail,
            kubexm_manifests::Severity::Warn => Severity::Warn,
        };
        let needed = format!("{} or newer for Kubernetes {}", support.minimum_kernel, input.kubernetes);
        report.add(severity, Some(host.name()), Words { found: found(), needed, fix: newer.to_owned() });
    }
    for (feature, version, minimum) in features(input) {
        if parse(minimum).is_some_and(|minimum| kernel < minimum) {
            report.warn(
                host.name(),
                found(),
                format!("{minimum} or newer for {feature} {version}"),
                "upgrade the kernel and reboot: upstream does not support an older one",
            );
        }
    }
    let nftables = input.cx.cluster.kubernetes.as_ref().is_some_and(|k| k.proxy_mode == ProxyMode::Nftables);
    if nftables && kernel < NFTABLES {
        report.fail(
            host.name(),
            found(),
            "5.13 or newer for `proxyMode: nftables`",
            "upgrade the kernel and reboot, or set `proxyMode: iptables`",
        );
    }
}

/// A network whose pods pin programs in the BPF file system needs both, whatever else the kernel has.
fn programs_in_kernel(input: &PreflightInput<'_>, host: &ObservedHost<'_>, report: &mut Report) {
    let networks = network::all_of(input.cx.cluster);
    if networks.iter().all(|network| network.pins.is_empty()) {
        return;
    }
    for (name, what, why) in [
        ("bpf", "BPF", "its programs carry and translate every packet (CONFIG_BPF_SYSCALL)"),
        (
            "cgroup2",
            "cgroup v2",
            "its programs translate services where a process connects (CONFIG_CGROUPS, from 4.5); hosts may boot with cgroup v1",
        ),
    ] {
        if !host.facts.filesystems.contains(name) {
            let plugin = input.cx.cluster.network.plugin.word();
            report.fail(
                host.name(),
                format!("a kernel without {what} (no {name} in /proc/filesystems)"),
                format!("{what} for the pod network {plugin}: {why}"),
                "boot a kernel of your distribution, which has it, or choose another spec.network.plugin",
            );
        }
    }
}

/// Features of the bundle for which upstream names a kernel: name, version, the oldest kernel. (A bundle's catalogue
/// has exactly one version of each.)
fn features<'a>(input: &PreflightInput<'a>) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
    input.cx.catalogue.features.values().flat_map(|feature| {
        let versions = feature.versions.iter();
        versions.filter_map(|(version, known)| Some((&*feature.name, &**version, known.minimum_kernel.as_deref()?)))
    })
}

fn cgroups(input: &PreflightInput<'_>, host: &ObservedHost<'_>, report: &mut Report) {
    let (Some(support), Some(kubernetes)) = (input.support, &input.cx.cluster.kubernetes) else { return };
    if host.facts.cgroup_version != 1 {
        return;
    }
    let wanted = support::cgroup_v1_wanted(kubernetes, host.facts);
    match support.cgroup_v1 {
        CgroupV1::Refused if !wanted => report.fail(
            host.name(),
            "cgroup v1",
            format!("cgroup v2 for Kubernetes {}", input.kubernetes),
            "boot with systemd.unified_cgroup_hierarchy=1, or set `kubelet: {failCgroupV1: false}` in cluster.yaml",
        ),
        CgroupV1::Refused | CgroupV1::Warned => report.warn(
            host.name(),
            "cgroup v1",
            "cgroup v2",
            "it still works with this Kubernetes version, but upstream is removing cgroup v1: boot with \
             systemd.unified_cgroup_hierarchy=1 when you can",
        ),
    }
}

/// Major and minor: `6.1.0-31-amd64` → (6, 1).
fn parse(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_distributions_are_read() {
        assert_eq!(parse("3.10.0-1160.el7.x86_64"), Some((3, 10)));
        assert_eq!(parse("6.12+deb13-amd64"), Some((6, 12)));
        assert_eq!(parse("4.19"), Some((4, 19)));
        assert_eq!(parse("generic"), None);
    }
}
