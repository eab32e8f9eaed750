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
                "use another host; if nobody needs that cluster, run `kubeadm reset` there and remove \
                 /var/lib/kubexm/stamp.json and what preflight names then",
            );
        }
        for leftover in seen.facts.leftovers.iter().filter(|l| !l.ours && !seen.ours) {
            report.fail(
                seen.name(),
                leftover.what.clone(),
                "a host without Kubernetes, container runtime or etcd of its own",
                "use another host, or take it away if nobody needs it (`kubeadm reset`, the packages, their folders): \
                 ours would stand in its place",
            );
        }
    }
}
