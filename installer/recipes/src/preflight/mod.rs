//! Preflight: what must be fixed before a host is changed. All problems of all hosts are reported together.
//!
//! Pure, like the whole crate: it reads facts. Whether a host is reachable and its user may use sudo is checked by the
//! link.

mod address;
mod bundle_fit;
mod clones;
mod control_planes;
mod dns;
mod drift;
mod etcd_disk;
mod etcd_members;
mod existing;
mod glibc;
mod hardware;
mod hostname;
mod input;
mod kernel;
mod links;
mod load_balancers;
mod membership;
pub mod mesh;
mod mtu;
mod network_kept;
mod networks;
mod noexec;
mod one_link;
mod open_folders;
mod os;
mod os_settings;
mod packages;
mod ports;
mod programs;
mod proxies;
mod report;
mod resolv_conf;
mod runtime_settings;
mod settings;
mod space;
mod storage;
mod sysctls;
mod systemd;
mod time;
mod timezone;
mod unchanged;

pub use report::{Finding, Severity};
pub(crate) use space::disk_of;

use crate::adoption;
use crate::context::PlanContext;
use input::PreflightInput;
use report::Report;

/// The check of what an upgrade may change.
const UNCHANGED: &str = "unchanged";

/// The check of what is on a host already.
const EXISTING: &str = "existing";
/// The checks before the upgrade of a cluster that was adopted: its hosts are not prepared, so what cluster.yaml says of that decides
/// nothing.
const OF_ADOPTED: [&str; 9] =
    ["space", "kernel", "systemd", "time", "membership", EXISTING, "noexec", "open-folders", "bundle"];

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Its name in findings.
    pub name: &'static str,
    run: Run,
}

/// Every check, in the order of the report.
pub const CHECKS: &[Check] = &[
    Check { name: "os", run: os::run },
    Check { name: "hardware", run: hardware::run },
    Check { name: "space", run: space::run },
    Check { name: "etcd-disk", run: etcd_disk::run },
    Check { name: "kernel", run: kernel::run },
    Check { name: "glibc", run: glibc::run },
    Check { name: "systemd", run: systemd::run },
    Check { name: "hostname", run: hostname::run },
    Check { name: "address", run: address::run },
    Check { name: "time", run: time::run },
    Check { name: "timezone", run: timezone::run },
    Check { name: "programs", run: programs::run },
    Check { name: "packages", run: packages::run },
    Check { name: "storage", run: storage::run },
    Check { name: "membership", run: membership::run },
    Check { name: EXISTING, run: existing::run },
    Check { name: UNCHANGED, run: unchanged::run },
    Check { name: "drift", run: drift::run },
    Check { name: "runtime-settings", run: runtime_settings::run },
    Check { name: "ports", run: ports::run },
    Check { name: "resolv.conf", run: resolv_conf::run },
    Check { name: "dns", run: dns::run },
    Check { name: "settings", run: settings::run },
    Check { name: "proxies", run: proxies::run },
    Check { name: "sysctls", run: sysctls::run },
    Check { name: "os-settings", run: os_settings::run },
    Check { name: "noexec", run: noexec::run },
    Check { name: "open-folders", run: open_folders::run },
    Check { name: "clones", run: clones::run },
    Check { name: "networks", run: networks::run },
    Check { name: "links", run: links::run },
    Check { name: "mtu", run: mtu::run },
    Check { name: "one-link", run: one_link::run },
    Check { name: "control-planes", run: control_planes::run },
    Check { name: "load-balancers", run: load_balancers::run },
    Check { name: "bundle", run: bundle_fit::run },
];

/// Runs every check over every host with facts; a host without facts is reported by the link.
pub fn preflight(cx: &PlanContext<'_>) -> Vec<Finding> {
    run(cx, |check| Some(check.run))
}

/// The same before an upgrade, which changes versions, and kubelet's settings with them.
pub fn preflight_before_upgrade(cx: &PlanContext<'_>) -> Vec<Finding> {
    let adopted = adoption::is_adopted(cx.cluster, cx.facts);
    run(cx, |check| match check.name {
        name if adopted && !OF_ADOPTED.contains(&name) => None,
        UNCHANGED => Some(unchanged::before_upgrade),
        EXISTING => Some(existing::before_upgrade),
        _ => Some(check.run),
    })
}

/// The same before hosts are added, which may bring a running etcd of kubexm's further members.
pub fn preflight_before_join(cx: &PlanContext<'_>) -> Vec<Finding> {
    run(cx, |check| Some(if check.name == UNCHANGED { unchanged::before_join } else { check.run }))
}

type Run = fn(&PreflightInput<'_>, &mut Report);

fn run(cx: &PlanContext<'_>, of: impl Fn(&Check) -> Option<Run>) -> Vec<Finding> {
    let input = PreflightInput::of(cx);
    let mut report = Report::default();
    for (check, run) in CHECKS.iter().filter_map(|check| Some((check, of(check)?))) {
        report.check = check.name;
        run(&input, &mut report);
    }
    report.findings
}
