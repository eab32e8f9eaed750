//! Every stamp and every record of kubeadm's init, join or upgrade can be read, and hosts whose stamp has the cluster's name belong to this cluster and not to another one of the same name.

use kubexm_plan::facts::Stamp;

use super::input::{ObservedHost, PreflightInput};
use super::report::Report;
use crate::identity::{Identity, NonMember};

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let (name, first) = (&input.cx.cluster.name, input.cx.cluster.first_control_plane());
    let first = first.map_or("the first control plane", |host| host.name.as_str());
    let identity = Identity::of(input.cx.cluster, input.cx.facts);
    for host in &input.hosts {
        if let Some(why) = &host.facts.unreadable_stamp {
            report.fail(
                host.name(),
                "a stamp that cannot be read, so it is unknown which cluster this node belongs to",
                format!("no stamp, or a readable one of {name:?}"),
                why.clone(),
            );
        }
        if let Some(why) = &host.facts.unreadable_mark {
            report.fail(
                host.name(),
                "a record of kubexm's own that cannot be read, of what it did here with kubeadm",
                "no record, or a readable one",
                why.clone(),
            );
        }
        let Some(non_member) = identity.non_members.get(host.name()) else { continue };
        let (found, needed) = match non_member {
            NonMember::OtherId { found, cluster } => (
                format!("the stamp of another cluster named {name:?}, id {found} ({})", run_of(host)),
                format!("a host without a kubexm stamp, or one that belongs to the cluster {name:?} with id {cluster}"),
            ),
            NonMember::OtherCa => (
                format!("a node of another cluster named {name:?}: its CA is not that of {first} ({})", run_of(host)),
                format!("a host without a kubexm stamp, or one that belongs to the cluster of {first}"),
            ),
            NonMember::NoCluster => (
                format!(
                    "a node of a cluster named {name:?}{}, and {first} belongs to none ({})",
                    id_of(host),
                    run_of(host)
                ),
                format!("{first} to be that cluster's first control plane, or this host to be without a stamp"),
            ),
        };
        if matches!(non_member, NonMember::NoCluster) && host.facts.joined && is_plane(input, host) {
            // Its data is all that is left of that cluster.
            let fix = format!(
                "if {first} was lost and the cluster runs on {0}: put {0} first in spec.roleGroups, and see \"A control plane that was lost\" \
                 in docs/operations/nodes.md; only if nobody needs what is on {0}: `kubexm-install reset -f cluster.yaml --only {0}`",
                host.name()
            );
            report.fail(host.name(), found, needed, fix);
            continue;
        }
        report.fail(
            host.name(),
            found,
            needed,
            format!(
                "use another host, or, if nobody needs what is on it, reset it alone: \
                 `kubexm-install reset -f cluster.yaml --only {}`",
                host.name()
            ),
        );
    }
}

fn is_plane(input: &PreflightInput<'_>, host: &ObservedHost<'_>) -> bool {
    input.cx.cluster.role_groups.control_plane.iter().any(|name| name == host.name())
}

fn stamp<'a>(host: &'a ObservedHost<'_>) -> Option<&'a Stamp> {
    host.facts.stamp.as_ref()
}

fn run_of(host: &ObservedHost<'_>) -> String {
    stamp(host).map(|stamp| format!("run {}", stamp.run)).unwrap_or_default()
}

fn id_of(host: &ObservedHost<'_>) -> String {
    stamp(host).and_then(|stamp| stamp.id).map(|id| format!(" with id {id}")).unwrap_or_default()
}
