//! Nothing of another Kubernetes, container runtime or etcd is there.

use super::{Report, Site};

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    let own = &site.cx.cluster.name;
    for seen in &site.hosts {
        if let Some(stamp) = seen.facts.stamp.as_ref().filter(|stamp| stamp.cluster != *own) {
            report.fail(
                seen.name(),
                format!("the stamp of cluster {:?} (run {})", stamp.cluster, stamp.run),
                format!("a host that is free, or belongs to {own:?}"),
                "take it out of that cluster first: run `kubexm-install reset` for it, or use another host",
            );
        }
        for leftover in seen.facts.leftovers.iter().filter(|l| !l.ours && !seen.ours) {
            report.fail(
                seen.name(),
                leftover.what.clone(),
                "a host without Kubernetes, container runtime or etcd of its own",
                "run `kubexm-install reset` first if it was ours, else remove it",
            );
        }
    }
}
