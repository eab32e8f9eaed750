//! Whether each host can be adopted: reached, without a stamp of another cluster, a node that kubeadm has made.

use kubexm_plan::cluster_facts::HOST;
use kubexm_plan::facts::Stamp;

use super::input::{AdoptionInput, Origin};
use super::item::{Items, Verdict};
use super::node;
use crate::clocks;
use crate::identity::NonMember;

pub(super) fn compare(input: &AdoptionInput<'_>, items: &mut Items) {
    for host in &input.cluster.hosts {
        if !input.cluster.roles(&host.name).in_cluster() {
            items.unknown(
                Some(&host.name),
                "host",
                "no node by cluster.yaml: what it serves is not looked at, and it is not adopted",
            );
        } else if let Some(why) = input.unreached.get(&host.name) {
            let fix = "every node must be reached: fix the connection";
            items.in_the_way(Some(&host.name), "host", (why.clone(), None), fix);
        } else if stamp(input, &host.name, items) {
            node::compare(input, host, items);
        }
    }
    foreign_nodes(input, items);
}

/// What the host says of clusters of kubexm's; whether it may be looked at further.
fn stamp(input: &AdoptionInput<'_>, host: &str, items: &mut Items) -> bool {
    let Some(facts) = input.facts.get(host) else { return false };
    let at = Some(host);
    if let Some(why) = facts.unreadable_stamp.as_ref().or(facts.unreadable_mark.as_ref()) {
        items.in_the_way(at, "stamp", (why.clone(), None), "find out which cluster the host belongs to");
        return false;
    }
    if let Some(why) = input.running.gaps.iter().find(|gap| gap.host == host && gap.what == HOST) {
        items.in_the_way(at, "host", (why.why.clone(), None), "every node must answer: run again");
        return false;
    }
    if let Some(wrong) = clocks::of_host(facts, "what is recorded and renewed later would have a wrong time") {
        items.in_the_way(at, "clock", (wrong, None), "set it, and run again");
    }
    match facts.stamp.as_ref() {
        None => {
            items.add(Verdict::Known, at, "stamp", "none");
            true
        }
        Some(other) if other.cluster != input.cluster.name => {
            let found = format!("that of cluster {:?} (run {})", other.cluster, other.run);
            let fix = "the host belongs to that cluster: use its cluster.yaml, or free the host there";
            items.in_the_way(at, "stamp", (found, None), fix);
            false
        }
        Some(own) if own.adopted => adopted(input, host, own, items),
        Some(own) => {
            let found = format!("kubexm-install has made it a node of {:?} (run {})", own.cluster, own.run);
            let fix = "a cluster that kubexm-install has made is not adopted: nodes that others have added to it are removed with kubeadm, and \
                       added with `kubexm-install add-node`";
            items.in_the_way(at, "stamp", (found, None), fix);
            false
        }
    }
}

fn adopted(input: &AdoptionInput<'_>, host: &str, own: &Stamp, items: &mut Items) -> bool {
    let found = match input.identity().non_members.get(host) {
        None => {
            let id = own.id.map(|id| format!(" with id {id}")).unwrap_or_default();
            items.add(Verdict::Known, Some(host), "stamp", format!("adopted{id}"));
            return true;
        }
        Some(NonMember::OtherId { found, cluster }) => {
            format!("the id {found}, and the first control plane's is {cluster}")
        }
        Some(NonMember::OtherCa) => "a node of another cluster of this name, by its CA".to_owned(),
        Some(NonMember::NoCluster) => "adopted, and the first control plane is not".to_owned(),
    };
    let fix = "take that adoption back first: `kubexm-install adopt --roll-back RUN`, where it was run";
    items.in_the_way(Some(host), "stamp", (found, None), fix);
    false
}

/// Nodes that cluster.yaml does not have: an upgrade would leave them behind, and no certificate of theirs would be looked at.
fn foreign_nodes(input: &AdoptionInput<'_>, items: &mut Items) {
    let is_known = |name: &str| input.nodes().any(|host| host.name == name);
    let foreign = input.running.nodes.iter().filter(|node| !is_known(&node.name));
    for node in foreign {
        let found = format!("{} ({})", node.name, node.addresses.join(", "));
        let fix = "add it to spec.hosts and spec.roleGroups of cluster.yaml, or remove it from the cluster";
        items.in_the_way(None, "node that cluster.yaml does not have", (found, None), fix);
    }
    if input.origin() == Origin::Foreign
        && let Some(applied) = &input.running.applied
        && !input.nodes().any(|host| input.stamp(&host.name).is_some())
    {
        let id = applied.id.map(|id| format!(", id {id}")).unwrap_or_default();
        let found = format!("of cluster {:?}{id}, by {}", applied.name, applied.program);
        let fix = "kubexm-install has made this cluster, and its hosts have lost their stamps: it is not adopted; look at \
                   /var/lib/kubexm/stamp.json of each node";
        items.in_the_way(None, "record of kubexm-install in the cluster", (found, None), fix);
    }
}
