//! The disk of a member of etcd keeps writes fast enough.

use super::input::PreflightInput;
use super::report::Report;

/// etcd.io, "FAQ" ("What does the etcd warning … mean"): beyond it members lose their leader under load.
const LIMIT_US: u64 = 10_000;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        let folder = input.cx.cluster.etcd_folder(host.roles);
        if let (Some(folder), Some(us)) = (folder, host.facts.etcd_write_us)
            && us > LIMIT_US
        {
            report.warn(
                host.name(),
                format!("the disk of {folder} takes {} ms to keep a small write (99 of 100; fdatasync)", us.div_ceil(1000)),
                format!("{} ms for a member of etcd: on slower disks it loses its leader under load, and the API with it", LIMIT_US / 1000),
                "give etcd a disk of its own, best an SSD or NVMe (spec.etcd.dataDir names its folder); a busy host may be slow only now: run preflight again",
            );
        }
    }
}
