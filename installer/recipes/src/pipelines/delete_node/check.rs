//! Which hosts leave, and whether the cluster can do without them: refused before anything is changed.

use kubexm_plan::cluster_facts::{ETCD, EtcdMember, NODES, SERVER_VERSION};
use kubexm_plan::op::MemberRemove;
use kubexm_spec::cluster::EtcdKind;
use kubexm_spec::one_line;

use super::context::DeleteContext;
use crate::error::RecipeError;
use crate::pipelines::host_removal::{self, Owned, ResetHost};
use crate::registries;
use crate::time_servers::is_server;

/// A host that leaves.
pub(super) struct Leaving<'a> {
    pub name: &'a str,
    pub control_plane: bool,
    /// Whether cluster.yaml makes it a node; one of etcd alone is none.
    pub is_node: bool,
    /// The host and what is on it; none if it is clean or was not reached.
    pub here: Option<(&'a ResetHost<'a>, Owned)>,
    /// Whether the cluster has a node of its name.
    pub node: bool,
    /// Its member of etcd, if there is one.
    pub member: Option<MemberRemove>,
}

impl Leaving<'_> {
    /// Whether pods are evicted from it. Those of a host that is gone for good are collected once its node is deleted.
    pub fn is_drained(&self) -> bool {
        self.here.is_some() && self.node
    }
}

/// The hosts that leave, workers first, and the control plane that does what the cluster has to do for them.
pub(super) fn leaving<'a>(cx: &'a DeleteContext<'a>) -> Result<(Vec<Leaving<'a>>, &'a str), RecipeError> {
    let unknown = cx.deleted.iter().find(|name| cx.cluster.host(name).is_none());
    if let Some(host) = unknown {
        let known: Vec<&str> = cx.cluster.hosts.iter().map(|host| host.name.as_str()).collect();
        let (host, cluster, known) = (host.clone(), cx.cluster.name.clone(), known.join(", "));
        return Err(RecipeError::UnknownHost { host, cluster, known });
    }
    let unreached: Vec<String> = cx.missing.iter().filter(|name| !cx.deleted.contains(name)).cloned().collect();
    if !unreached.is_empty() {
        return Err(RecipeError::Unreached { hosts: unreached });
    }
    cx.deleted.iter().try_for_each(|host| refuse_needed(cx, host))?;
    observed(cx)?;
    let on = stays(cx)?;
    let mut leaving = Vec::new();
    for host in cx.cluster.hosts.iter().filter(|host| cx.deleted.contains(&host.name)) {
        leaving.push(leaves(cx, &host.name, on)?);
    }
    let here = leaving.iter().filter_map(|host| host.here.as_ref());
    host_removal::refuse_mounts(here.clone())?;
    host_removal::refuse_switched(here)?;
    refuse_without_quorum(cx, &leaving)?;
    leaving.sort_by_key(|host| host.control_plane);
    Ok((leaving, on))
}

/// Control planes may have said a part of the reason.
fn cannot<T>(host: &str, reason: impl AsRef<str>) -> Result<T, RecipeError> {
    Err(RecipeError::CannotDelete { host: host.to_owned(), reason: one_line(reason.as_ref()) })
}

/// Refuses a host on which the others depend.
fn refuse_needed(cx: &DeleteContext<'_>, name: &str) -> Result<(), RecipeError> {
    let planes = &cx.cluster.role_groups.control_plane;
    if planes.iter().any(|plane| plane == name) && planes.iter().all(|plane| cx.deleted.contains(plane)) {
        return cannot(name, "no control plane would be left; `kubexm-install reset` removes the whole cluster");
    }
    let balancers = cx.cluster.hosts.iter().map(|host| &host.name).filter(|host| cx.cluster.roles(host).load_balancer);
    if cx.cluster.roles(name).load_balancer && balancers.clone().all(|host| cx.deleted.contains(host)) {
        return cannot(name, "no host of the load balancer would be left, and nodes reach the API servers through it");
    }
    // It serves nothing any more, and the same host is to come back.
    let is_lost = is_lost(cx, name);
    if cx.cluster.roles(name).registry && !is_lost {
        return cannot(name, "it serves the registry, from which nodes pull their images");
    }
    let is_recorded = registries::recorded(cx.running).is_some_and(|recorded| recorded.iter().any(|host| host == name));
    if is_recorded && !is_lost {
        return cannot(
            name,
            "nodes still pull from it: run `kubexm-install create` first, which brings them the registry hosts of cluster.yaml",
        );
    }
    if cx.cluster.host(name).is_some_and(|host| is_server(cx.cluster, host)) && !is_lost {
        return cannot(
            name,
            "spec.system.ntpServers names it: the other hosts take the time from it; name another server there and run \
             `kubexm-install create` first",
        );
    }
    let own = cx.cluster.etcd.kind == EtcdKind::Kubexm;
    let members = &cx.cluster.role_groups.etcd;
    if own && members.iter().any(|member| member == name) && members.iter().all(|member| cx.deleted.contains(member)) {
        return cannot(name, "no member of etcd would be left; `kubexm-install reset` removes the whole cluster");
    }
    let is_member = own && cx.cluster.roles(name).etcd;
    if !cx.cluster.roles(name).in_cluster() && !is_member {
        return cannot(name, "it is neither control plane nor worker of the cluster");
    }
    Ok(())
}

/// Whether a host is not reached, or is there again with nothing on it, and the cluster knows that it does not work.
fn is_lost(cx: &DeleteContext<'_>, name: &str) -> bool {
    let ready = cx.running.nodes.iter().any(|node| node.name == name && node.ready);
    let healthy = cx.running.etcd.iter().any(|member| is_of(member, cx, name) && member.healthy);
    !ready && !healthy && cx.hosts.iter().find(|host| host.name == name).is_none_or(ResetHost::is_clean)
}

/// Refuses to decide about a cluster that does not answer.
fn observed(cx: &DeleteContext<'_>) -> Result<(), RecipeError> {
    let facts = cx.running;
    let planes = &cx.cluster.role_groups.control_plane;
    let member_leaves = match cx.cluster.etcd.kind {
        EtcdKind::Kubeadm => cx.deleted.iter().any(|host| planes.contains(host)),
        EtcdKind::Kubexm => cx.deleted.iter().any(|host| cx.cluster.role_groups.etcd.contains(host)),
        EtcdKind::External => false,
    };
    let (what, gap) = match () {
        () if facts.nodes.is_empty() => ("the nodes of the cluster", [SERVER_VERSION, NODES]),
        () if facts.etcd.is_empty() && member_leaves => ("the members of etcd", [ETCD, ETCD]),
        () => return Ok(()),
    };
    let gaps = facts.gaps.iter().filter(|found| gap.contains(&found.what.as_str()));
    let gaps = gaps.map(|gap| format!("{}: {}: {}", gap.host, gap.what, gap.why)).collect();
    Err(RecipeError::Unobserved { what, gaps })
}

/// The first control plane that stays, was reached, and works.
fn stays<'a>(cx: &'a DeleteContext<'_>) -> Result<&'a str, RecipeError> {
    let works = |name: &&String| {
        let reached = cx.hosts.iter().any(|host| host.name == **name);
        let ready = cx.running.nodes.iter().any(|node| node.name == **name && node.ready);
        let member = cx.running.etcd.iter().find(|member| is_of(member, cx, name));
        reached && ready && member.is_none_or(|member| member.healthy)
    };
    let planes = cx.cluster.role_groups.control_plane.iter().filter(|name| !cx.deleted.contains(name));
    let names: Vec<&str> = planes.clone().map(String::as_str).collect();
    planes.into_iter().find(works).map(String::as_str).ok_or_else(|| RecipeError::CannotDelete {
        host: cx.deleted.join(", "),
        reason: format!(
            "none of the control planes that stay is Ready with a healthy etcd member ({}); `kubexm-install status -f \
             cluster.yaml` shows why",
            names.join(", ")
        ),
    })
}

/// Whether a member of the cluster's etcd is on a host. One of the user's is nothing that leaves with a node, whatever its name.
fn is_of(member: &EtcdMember, cx: &DeleteContext<'_>, host: &str) -> bool {
    cx.cluster.etcd.kind != EtcdKind::External && is_named(member, cx, host)
}

/// Or has its address: one that has not started has no name, and one of before may have another.
pub(super) fn is_named(member: &EtcdMember, cx: &DeleteContext<'_>, host: &str) -> bool {
    let peer = |ip: std::net::IpAddr| match ip.is_ipv6() {
        true => format!("https://[{ip}]:2380"),
        false => format!("https://{ip}:2380"),
    };
    let host_of = cx.cluster.host(host);
    let mut peers = host_of.into_iter().flat_map(|host| host.addresses()).map(peer);
    member.name == host || peers.any(|peer| member.peer_urls.contains(&peer))
}

/// Whether a host belongs to another cluster of the same name: by its id, or for one without ids by its CA.
fn is_of_another(cx: &DeleteContext<'_>, host: &ResetHost<'_>, on: &str) -> bool {
    let stamped = host.facts.stamp.as_ref().and_then(|stamp| stamp.id);
    let ca = cx.hosts.iter().find(|host| host.name == on).and_then(|host| host.facts.cluster_ca_key);
    stamped.zip(cx.running.id).is_some_and(|(one, other)| one != other)
        || host.facts.cluster_ca_key.zip(ca).is_some_and(|(one, other)| one != other)
}

fn leaves<'a>(cx: &'a DeleteContext<'a>, name: &'a str, on: &str) -> Result<Leaving<'a>, RecipeError> {
    let node = cx.running.nodes.iter().find(|node| node.name == name);
    let member = cx.running.etcd.iter().find(|member| is_of(member, cx, name));
    let reached = cx.hosts.iter().find(|host| host.name == name);
    if reached.is_none() && (node.is_some_and(|node| node.ready) || member.is_some_and(|member| member.healthy)) {
        return cannot(
            name,
            "it cannot be reached from here, but it works as a member of the cluster, and would come back at once; fix \
             the connection to it, or switch it off",
        );
    }
    if reached.is_some_and(ResetHost::is_clean) && member.is_some_and(|member| member.healthy) {
        return cannot(
            name,
            "nothing on it says that kubexm has set it up (/var/lib/kubexm), but its member of etcd works: the member would be removed, and \
             nothing on the host stopped; bring that folder back, or stop kubelet and etcd there (or switch it off) first",
        );
    }
    let here = match reached.filter(|host| !host.is_clean()) {
        None => None,
        Some(host) => {
            let owned = host_removal::of_host(&cx.cluster.name, host)?;
            if is_of_another(cx, host, on) {
                return cannot(
                    name,
                    format!(
                        "it belongs to another cluster of the name {}; `kubexm-install reset --only {name}` resets it",
                        cx.cluster.name
                    ),
                );
            }
            Some((host, owned))
        }
    };
    let member = member.map(|member| MemberRemove { name: name.to_owned(), peers: member.peer_urls.clone() });
    let control_plane = cx.cluster.role_groups.control_plane.iter().any(|plane| plane == name);
    let is_node = cx.cluster.roles(name).in_cluster();
    Ok(Leaving { name, control_plane, is_node, here, node: node.is_some(), member })
}

/// The removal itself needs a quorum of the members, and so does everything afterwards.
fn refuse_without_quorum(cx: &DeleteContext<'_>, leaving: &[Leaving<'_>]) -> Result<(), RecipeError> {
    let goes: Vec<&Leaving<'_>> = leaving.iter().filter(|host| host.member.is_some()).collect();
    let Some(first) = goes.first() else { return Ok(()) };
    let voters: Vec<&EtcdMember> = cx.running.etcd.iter().filter(|member| !member.learner).collect();
    let down = |members: &[&EtcdMember]| -> Vec<String> {
        let down = members.iter().filter(|member| !member.healthy);
        down.map(|member| if member.name.is_empty() { member.id.clone() } else { member.name.clone() }).collect()
    };
    let lost = |members: &[&EtcdMember]| (members.len() - down(members).len()) * 2 <= members.len();
    if lost(&voters) {
        let reason =
            format!("etcd has no quorum, so no member can be removed (not healthy: {})", down(&voters).join(", "));
        return cannot(first.name, reason);
    }
    let stay: Vec<&EtcdMember> =
        voters.into_iter().filter(|member| !goes.iter().any(|host| is_of(member, cx, host.name))).collect();
    if lost(&stay) {
        let names: Vec<&str> = goes.iter().map(|host| host.name).collect();
        let reason = format!(
            "etcd would lose its quorum: of the {} members that stay, these are not healthy: {}; start them first, or \
             delete the dead ones first",
            stay.len(),
            down(&stay).join(", ")
        );
        return cannot(&names.join(", "), reason);
    }
    Ok(())
}
