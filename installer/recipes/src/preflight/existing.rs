//! Nothing of another Kubernetes, container runtime or etcd is there.

use super::{Report, Site};

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    let own = &site.cx.cluster.name;
    for seen in &site.hosts {
        let other = seen.facts.stamp.as_ref().filter(|stamp| stamp.cluster != *own);
        // kubeadm alone would leave services, files and our ledger, and the next cluster would find them.
        let reset = other.map(|stamp| {
            format!(
                "take that cluster away with `kubexm-install reset -f <cluster.yaml of {:?}>` if nobody needs it",
                stamp.cluster
            )
        });
        if let (Some(stamp), Some(reset)) = (other, &reset) {
            report.fail(
                seen.name(),
                format!("the stamp of cluster {:?} (run {})", stamp.cluster, stamp.run),
                format!("a host that is free, or belongs to {own:?}"),
                format!("use another host, or {reset}"),
            );
        }
        for leftover in seen.facts.leftovers.iter().filter(|l| !l.ours && !seen.ours) {
            let away = reset.as_deref().unwrap_or(
                "take it away if nobody needs it (`kubeadm reset`, the packages, their folders): ours would stand in its place",
            );
            report.fail(
                seen.name(),
                leftover.what.clone(),
                "a host without Kubernetes, container runtime or etcd of its own",
                format!("use another host, or {away}"),
            );
        }
    }
}
