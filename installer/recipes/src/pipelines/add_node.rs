//! `add-node`: adds hosts to a cluster. It is `create` without the steps that do not concern the new hosts.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use kubexm_plan::cluster_facts::{AppliedCluster, EtcdMember};
use kubexm_plan::facts::Stamp;
use kubexm_plan::{ClusterFacts, Facts, Op, Pipeline, Plan, Probe, Step, StepId};
use kubexm_spec::cluster::{Cluster, EtcdKind, Host, document};
use kubexm_spec::{KubernetesVersion, depot, one_line};
use serde_json::Value;

use crate::balancer::external;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Drafted;
use crate::error::RecipeError;
use crate::identity::Identity;
use crate::modules::{etcd_listed, record, time};
use crate::pipelines::{create, subset};
use crate::{balancer, charts, network, paths, registries};

/// Of kubeadm's etcd.
const PEER_PORT: u16 = 2380;
/// Of static pods.
const MANIFESTS: &str = "/etc/kubernetes/manifests/";

/// Hosts of cluster.yaml that are not in the cluster yet, in its order; or that have joined it in a run that did not get as far as its record,
/// and nobody can continue that run any more.
pub fn absent(cx: &PlanContext<'_>, running: &ClusterFacts) -> Result<Vec<String>, RecipeError> {
    let (nodes, known) = (cx.nodes()?, Known::of(running));
    let is_absent = |node: &&PlannedHost<'_>| match node.in_cluster() {
        true => !is_complete(cx, &known, node.name()),
        false => lacks_member(cx, node),
    };
    let absent = nodes.iter().filter(is_absent);
    Ok(absent.map(|node| node.name().to_owned()).collect())
}

/// Whether a host has no member of the cluster's own etcd, though cluster.yaml says so.
fn lacks_member(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> bool {
    cx.cluster.etcd.kind == EtcdKind::Kubexm && node.roles.etcd && node.facts.etcd_formed.is_none()
}

/// The cluster with those members of its own etcd that run, and those that are added: others of cluster.yaml are none of it yet.
fn with_members<'a>(cx: &PlanContext<'a>, nodes: &[PlannedHost<'_>], new: &[String]) -> Cow<'a, Cluster> {
    let later = |node: &&PlannedHost<'_>| lacks_member(cx, node) && !new.iter().any(|host| host == node.name());
    let later: Vec<&str> = nodes.iter().filter(later).map(PlannedHost::name).collect();
    let mut cluster = Cow::Borrowed(cx.cluster);
    if !later.is_empty() {
        cluster.to_mut().role_groups.etcd.retain(|name| !later.contains(&name.as_str()));
    }
    cluster
}

/// What a cluster says of its hosts, gone over once: a control plane may say any number of them.
struct Known<'r> {
    /// Those of the record, if it has any.
    recorded: Option<BTreeSet<&'r str>>,
    /// Nodes that are not cordoned.
    nodes: BTreeSet<&'r str>,
}

impl<'r> Known<'r> {
    fn of(running: &'r ClusterFacts) -> Self {
        let recorded = running.applied.as_ref().map(recorded_hosts).filter(|hosts| !hosts.is_empty());
        let nodes = running.nodes.iter().filter(|node| !node.unschedulable);
        Self { recorded, nodes: nodes.map(|node| node.name.as_str()).collect() }
    }
}

/// Whether nothing is left to add of a host. One that is being deleted is no node any more, or cordoned.
fn is_complete(cx: &PlanContext<'_>, known: &Known<'_>, host: &str) -> bool {
    let unrecorded = known.recorded.as_ref().is_some_and(|hosts| !hosts.contains(host));
    let is_first = cx.cluster.first_control_plane().is_some_and(|first| first.name == host);
    is_joined(cx, host) && (!unrecorded || !known.nodes.contains(host) || is_first)
}

fn recorded_hosts(applied: &AppliedCluster) -> BTreeSet<&str> {
    let hosts = applied.cluster.pointer("/spec/hosts").and_then(Value::as_array);
    hosts.into_iter().flatten().filter_map(|host| host["name"].as_str()).collect()
}

fn is_joined(cx: &PlanContext<'_>, host: &str) -> bool {
    let identity = Identity::of(cx.cluster, cx.facts);
    cx.facts.get(host).is_some_and(|facts| identity.has_joined(cx.cluster, host, facts))
}

/// The plan that adds the hosts `new` to a cluster: every step of `create` on them and for them, the names of all hosts
/// on every host, and the final check of the whole cluster. `running` is the cluster as it is now.
pub fn add_node(cx: &PlanContext<'_>, running: &ClusterFacts, new: &[String]) -> Result<Plan, RecipeError> {
    let first = cx.cluster.first_control_plane().ok_or(RecipeError::NoHosts { what: "control plane" })?;
    if !is_joined(cx, &first.name) {
        return Err(match other_plane(cx, &first.name) {
            Some(other) => RecipeError::FirstLost { first: first.name.clone(), other: other.to_owned() },
            None => RecipeError::NoClusterYet { first: first.name.clone() },
        });
    }
    let nodes = cx.nodes()?;
    check_compatible(cx, running, &nodes, new)?;
    for host in new {
        let cannot = |reason: &str| Err(RecipeError::CannotJoin { host: host.clone(), reason: reason.to_owned() });
        match nodes.iter().find(|n| n.name() == host) {
            None => return cannot("it is not a host of cluster.yaml; add it there, with its role"),
            Some(node) if lacks_member(cx, node) && is_joined(cx, host) => {
                return cannot(
                    "it has the role etcd and no member, and is a node already, which gets none; `kubexm-install delete-node` it and add it again, \
                     or leave it out of roleGroups.etcd",
                );
            }
            Some(node) if !node.in_cluster() && lacks_member(cx, node) => {}
            Some(node) if !node.in_cluster() && node.roles.load_balancer => {
                return cannot(
                    "it has the load balancer and is no node; `kubexm-install create` with this cluster.yaml makes it one of its hosts",
                );
            }
            Some(node) if !node.in_cluster() => {
                return cannot("it is neither control plane nor worker in cluster.yaml; give it a role");
            }
            Some(node) if node.name() == first.name => {
                return cannot(
                    "it is the first control plane, on which the cluster was initialised; use `create` for it",
                );
            }
            Some(_) => {}
        }
    }
    let lacks_chrony = |node: &&PlannedHost<'_>| {
        node.serves_time && !new.iter().any(|host| host == node.name()) && !time::has_chrony(node.facts, None)
    };
    if let Some(node) = nodes.iter().find(lacks_chrony) {
        let why = "spec.system.ntpServers names it, and it has no chrony yet, which a join installs on new hosts \
                   only; run `create` first";
        return Err(RecipeError::Packages { host: node.name().to_owned(), why: why.to_owned() });
    }
    check_balancer(cx, running, new)?;
    check_members(cx, running, new)?;
    etcd_listed::check(cx, running)?;
    check_registries(cx, running, new)?;
    network::same(cx.cluster, running)?;
    let cluster = with_members(cx, &nodes, new);
    let planned = PlanContext { cluster: &cluster, ..*cx };
    let Drafted { mut plan, depends_on_all } = create::plan_cluster(&planned, Pipeline::AddNode, &[])?;
    let is_new = |host: &str| new.iter().any(|name| name == host);
    if let Some(proxy) = balancer::of(cx.cluster) {
        // Proxies that run get the new back-ends. Their image is the business of an upgrade: this bundle may have another one,
        // which these hosts have not been given.
        let pod = paths::static_pod(proxy.pod);
        for step in plan.steps.iter_mut().filter(|step| !is_new(step.domain())) {
            step.ops.retain(|op| !matches!(op, Op::File(file) if file.path == pod));
        }
    }
    // A manifest or chart of the pod network replaces the pods of all nodes where another bundle has another version, whose images they
    // have not been given: that is the business of an upgrade as well.
    let other_bundle = running.applied.as_ref().is_some_and(|applied| applied.bundle.manifest != cx.manifest_digest);
    let chart = charts::network(cx);
    let of_network = |op: &Op| match op {
        Op::Manifests(manifests) => manifests.in_plan,
        Op::HelmRelease(release) => {
            chart.as_ref().is_some_and(|chart| (&chart.name, &chart.namespace) == (&release.name, &release.namespace))
        }
        _ => false,
    };
    let replaces = |step: &Step| other_bundle && step.ops.iter().any(of_network);
    // What such a step takes from its host's store (a network's chart) is brought there first: an earlier bundle may have had another.
    let takes = |step: &&Step| {
        depends_on_all.contains(&step.id) && !replaces(step) && step.ops.iter().any(|op| !op.blobs().is_empty())
    };
    let stores: BTreeSet<StepId> =
        plan.steps.iter().filter(takes).map(|step| StepId(format!("{}/store.fill", step.host))).collect();
    let is_wanted = |step: &Step| {
        let for_all = depends_on_all.contains(&step.id) || stores.contains(&step.id);
        !replaces(step) && (for_all || is_new(step.domain()))
    };
    let mut plan = subset::only(plan, is_wanted);
    let carried: BTreeSet<&str> = cx.manifest.artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    if other_bundle || running.components.iter().any(|one| !carried.contains(one.image.as_str())) {
        // Between two versions a new node has DaemonSets of before, and the others have what they had.
        for step in &mut plan.steps {
            if let Some(Probe::PodsRunning { new_nodes, .. }) = step.probe.as_mut().map(|timed| &mut timed.probe) {
                new_nodes.extend(new.iter().cloned());
            }
        }
    }
    record::keep_addons(&mut plan, running.applied.as_ref())?;
    // Those that this run does not add would count as hosts of the cluster.
    let known = Known::of(running);
    let later = |node: &&PlannedHost<'_>| {
        // A load balancer is one without having joined.
        node.in_cluster() && !node.roles.load_balancer && !is_new(node.name()) && !is_complete(cx, &known, node.name())
    };
    record::leave_out(&mut plan, &nodes.iter().filter(later).map(PlannedHost::name).collect())?;
    Ok(plan)
}

/// A control plane that is in a cluster of this name.
fn other_plane<'a>(cx: &PlanContext<'a>, first: &str) -> Option<&'a str> {
    let planes = cx.cluster.role_groups.control_plane.iter().map(String::as_str);
    let joined = |name: &&str| {
        let is_own = |stamp: &Stamp| {
            let same = stamp.id.zip(cx.cluster_id).is_none_or(|(id, own)| id == own);
            stamp.cluster == cx.cluster.name && same
        };
        let stamped = |facts: &Facts| facts.stamp.as_ref().is_some_and(is_own);
        cx.facts.get(*name).is_some_and(|facts| facts.joined && stamped(facts))
    };
    planes.filter(|name| *name != first).find(joined)
}

/// Characters of a member's name that are shown.
const MOST_OF_A_NAME: usize = 100;

/// A host that was lost and is there again, empty: its member would be taken for the new one, which has no data. One with this cluster's
/// stamp is in it, or was interrupted while it joined, which the join mends itself by what kubeadm has left: its manifests are there before
/// etcd knows it. Without them it was reset by hand, or comes from a snapshot of before.
fn check_members(cx: &PlanContext<'_>, running: &ClusterFacts, new: &[String]) -> Result<(), RecipeError> {
    let own = cx.cluster.etcd.kind == EtcdKind::Kubexm;
    let is_prepared = |host: &str| {
        let facts = cx.facts.get(host);
        let is_ours = |facts: &&Facts| facts.stamp.as_ref().is_some_and(|stamp| stamp.cluster == cx.cluster.name);
        let has_traces = |facts: &Facts| facts.leftovers.iter().any(|left| left.what.starts_with(MANIFESTS));
        facts.filter(is_ours).is_some_and(|facts| own || facts.joined || has_traces(facts))
    };
    let hosts = match cx.cluster.etcd.kind {
        EtcdKind::Kubeadm => &cx.cluster.role_groups.control_plane,
        EtcdKind::Kubexm => &cx.cluster.role_groups.etcd,
        EtcdKind::External => return Ok(()),
    };
    for host in new.iter().filter(|host| hosts.contains(host)) {
        let Some(member) = running.etcd.iter().find(|member| is_on(member, cx.cluster, host)) else { continue };
        // An empty member under the name of one with a vote would lose what that has agreed to. Of an etcd of kubexm's, a run that was
        // interrupted goes on with what it has added and nobody has started, and with what works and is not known as such on its host yet.
        let goes_on = match own {
            true if cx.facts.get(host).is_some_and(|facts| facts.etcd_formed.is_some()) => true,
            true => member.learner && member.name.is_empty() || member.healthy && is_prepared(host),
            false => is_prepared(host),
        };
        if goes_on {
            continue;
        }
        // A control plane says so: no part of a command.
        let name = if member.name.is_empty() { host } else { &member.name };
        let name: String = name.chars().take(MOST_OF_A_NAME).flat_map(char::escape_debug).collect();
        if member.healthy {
            return Err(RecipeError::CannotJoin {
                host: host.clone(),
                reason: format!(
                    "etcd has a member of that name or address that works ({name}), and nothing on the host says that kubexm has set it up \
                     (/var/lib/kubexm): bring that folder back; if another host has its name or address, give this one others"
                ),
            });
        }
        return Err(RecipeError::CannotJoin {
            host: host.clone(),
            reason: format!(
                "etcd has a member of that name or address already ({name}), and this host has no data of it: it was lost, installed anew, or reset by hand; \
                 `kubexm-install delete-node {host} -f cluster.yaml` removes what is left of it in the cluster, then run this again"
            ),
        });
    }
    Ok(())
}

fn is_on(member: &EtcdMember, cluster: &Cluster, host: &str) -> bool {
    let peer = |ip: IpAddr| format!("https://{}", SocketAddr::from((ip, PEER_PORT)));
    let mut peers = cluster.host(host).into_iter().flat_map(Host::addresses).map(peer);
    member.name == host || peers.any(|peer| member.peer_urls.contains(&peer))
}

/// Nodes that are in the cluster pull from the registry hosts that cluster.yaml names: a join adds none.
fn check_registries(cx: &PlanContext<'_>, running: &ClusterFacts, new: &[String]) -> Result<(), RecipeError> {
    match (new.first(), registries::other_than_recorded(cx.cluster, running)) {
        (Some(host), Some(recorded)) => Err(RecipeError::CannotJoin {
            host: host.clone(),
            reason: format!(
                "cluster.yaml has other hosts in roleGroups.registry than the cluster, which has {}; run `kubexm-install create` first, \
                 which brings every node the new list",
                one_line(&recorded.join(", "))
            ),
        }),
        _ => Ok(()),
    }
}

/// The load balancer that is there is the one that cluster.yaml names: a join changes only its back-ends.
fn check_balancer(cx: &PlanContext<'_>, running: &ClusterFacts, new: &[String]) -> Result<(), RecipeError> {
    const ON_WORKERS: [&str; 2] = ["/spec/loadBalancer/mode", "/spec/loadBalancer/internal/type"];
    const ON_HOSTS: [&str; 2] = ["/spec/loadBalancer", "/spec/roleGroups/loadbalancer"];
    let Some(applied) = &running.applied else { return Ok(()) };
    let wanted = document(cx.cluster);
    let differs =
        |fields: [&str; 2]| fields.iter().any(|field| applied.cluster.pointer(field) != wanted.pointer(field));
    let cannot = |reason: String| match new.first() {
        Some(host) => Err(RecipeError::CannotJoin { host: host.clone(), reason }),
        None => Ok(()),
    };
    if let Some(proxy) = balancer::of(cx.cluster).filter(|_| differs(ON_WORKERS)) {
        return cannot(format!(
            "cluster.yaml has {} on workers, and the cluster has been made without; run `kubexm-install create` first, which \
             gives it to the workers that are there",
            proxy.program
        ));
    }
    if external::of(cx.cluster).is_some_and(|_| differs(ON_HOSTS)) {
        return cannot(
            "cluster.yaml has another load balancer, or other hosts for it, than the cluster; run `kubexm-install create` first, which \
             applies that"
                .to_owned(),
        );
    }
    Ok(())
}

/// Checks that hosts can be added to the running cluster with this bundle: the cluster has the planned id, and its API
/// server has the bundle's minor version. kubelet must not be newer than the API server, and kubeadm joins only with
/// the same minor version. Between two versions, where an upgrade has stopped, a control plane joins with that of one of the API
/// servers, and a worker, which may ask any of them, with that of the oldest. What could not be observed is not checked.
fn check_compatible(
    cx: &PlanContext<'_>,
    running: &ClusterFacts,
    nodes: &[PlannedHost<'_>],
    new: &[String],
) -> Result<(), RecipeError> {
    if let (Some(planned), Some(found)) = (cx.cluster_id, running.id)
        && planned != found
    {
        return Err(RecipeError::IdentityMismatch { cluster: cx.cluster.name.clone(), planned, found });
    }
    // A worker may have a pod that says so, too.
    let is_of_plane = |node: &String| cx.cluster.role_groups.control_plane.contains(node);
    let servers = running.components.iter().filter(|one| one.name == "kube-apiserver" && is_of_plane(&one.node));
    let tags = servers.filter_map(|server| depot::split_reference(&server.image).1);
    let first = nodes.first().ok_or(RecipeError::NoHosts { what: "hosts" })?;
    let bundle = cx.kubernetes_version(first.platform)?;
    let mut servers: Vec<KubernetesVersion> = Vec::new();
    for version in tags.chain(running.server_version.as_deref()) {
        let other = |_| RecipeError::MinorMismatch {
            cluster: cx.cluster.name.clone(),
            server: one_line(version),
            bundle: bundle.clone(),
        };
        servers.push(version.parse().map_err(other)?);
    }
    servers.sort();
    let Ok(line) = bundle.parse::<KubernetesVersion>().map(|version| version.line()) else { return Ok(()) };
    let is_plane = |host: &String| nodes.iter().any(|node| node.name() == host && node.roles.control_plane);
    if !new.iter().all(is_plane) {
        servers.truncate(1);
    }
    match servers.first() {
        Some(server) if servers.iter().all(|server| server.line() != line) => {
            Err(RecipeError::MinorMismatch { cluster: cx.cluster.name.clone(), server: server.to_string(), bundle })
        }
        _ => Ok(()),
    }
}
