//! Hosts whose stamp has the cluster's name belong to this very cluster, and every stamp can be read.

use kubexm_plan::facts::Stamp;

use super::report::Report;
use super::site::{Seen, Site};
use crate::identity::{Identity, Stranger};

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    let (name, first) = (&site.cx.cluster.name, site.cx.cluster.first_control_plane());
    let first = first.map_or("the first control plane", |host| host.name.as_str());
    let identity = Identity::of(site.cx.cluster, site.cx.facts);
    for seen in &site.hosts {
        if let Some(why) = &seen.facts.unreadable_stamp {
            report.fail(
                seen.name(),
                "a stamp that cannot be read, so that nobody knows whose node this is",
                format!("no stamp, or a readable one of {name:?}"),
                why.clone(),
            );
        }
        let Some(stranger) = identity.strangers.get(seen.name()) else { continue };
        let (found, needed) = match stranger {
            Stranger::OtherId { found, cluster } => (
                format!("the stamp of another cluster of the name {name:?}, id {found} ({})", run_of(seen)),
                format!("a host that is free, or belongs to the cluster {name:?} with id {cluster}"),
            ),
            Stranger::OtherCa => (
                format!(
                    "a node of another cluster of the name {name:?}: its CA is not that of {first} ({})",
                    run_of(seen)
                ),
                format!("a host that is free, or belongs to the cluster of {first}"),
            ),
            Stranger::NoCluster => (
                format!(
                    "a node of a cluster of the name {name:?}{}, and {first} is free ({})",
                    id_of(seen),
                    run_of(seen)
                ),
                format!("{first} to be that cluster's first control plane, or this host to be free"),
            ),
        };
        report.fail(
            seen.name(),
            found,
            needed,
            format!(
                "use another host, or, if nobody needs what is on it, free it alone: \
                 `kubexm-install reset -f cluster.yaml --only {}`",
                seen.name()
            ),
        );
    }
}

fn stamp<'a>(seen: &'a Seen<'_>) -> Option<&'a Stamp> {
    seen.facts.stamp.as_ref()
}

fn run_of(seen: &Seen<'_>) -> String {
    stamp(seen).map(|stamp| format!("run {}", stamp.run)).unwrap_or_default()
}

fn id_of(seen: &Seen<'_>) -> String {
    stamp(seen).and_then(|stamp| stamp.id).map(|id| format!(" with id {id}")).unwrap_or_default()
}
