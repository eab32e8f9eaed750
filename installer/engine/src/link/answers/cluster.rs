//! What a host says of itself and of the cluster: nothing of other hosts, and no more than any cluster has, since all of it is gone over,
//! compared and shown.

use std::collections::HashSet;

use kubexm_plan::ClusterFacts;
use kubexm_plan::cluster_facts::{ApiServerEtcd, BUDGETS, EtcdAccess, Gap, KubeadmCluster, NodeFacts};
use serde_json::Value;

use super::{LONGEST_LINE, cut, shown, untrusted};
use crate::link::LinkError;

/// Nodes, and static pods of control planes: several times what Kubernetes supports.
const MOST_NODES: usize = 20_000;
const MOST_MEMBERS: usize = 1_000;
/// Files, timers and the like of one host.
const MOST_OF_A_HOST: usize = 1_000;
/// What users of the cluster make, and any number of.
const MOST_OF_USERS: usize = 10_000;
/// What could not be observed.
const MOST_GAPS: usize = 1_000;
/// Roles of a node, its addresses and conditions.
const MOST_IN_A_LIST: usize = 100;
/// Of the record in the cluster in bytes: a ConfigMap has 1 MiB.
const LONGEST_RECORD: usize = 2 << 20;
/// Programs of Kubernetes on a host, and images that a cluster has named for itself: there are a few.
const MOST_PROGRAMS: usize = 20;

/// What is of a host in its cluster facts must be of that host.
pub(crate) fn cluster_facts(host: &str, mut facts: ClusterFacts) -> Result<ClusterFacts, LinkError> {
    // Each list by its name: one that comes is looked at here, or it does not compile. What says something of the cluster is taken from
    // control planes alone.
    let ClusterFacts {
        certificates,
        balancers,
        timers,
        kubelets,
        kubeadm,
        gaps,
        schema: _,
        name,
        id: _,
        server_version,
        kube_proxy,
        nodes,
        etcd,
        components,
        tight_budgets,
        deprecated_apis,
        network,
        applied,
        settings,
    } = &mut facts;
    counted(
        host,
        [
            ("nodes", nodes.len(), MOST_NODES),
            ("members of etcd", etcd.len(), MOST_MEMBERS),
            ("static pods", components.len(), MOST_NODES),
            ("certificates", certificates.len(), MOST_OF_A_HOST),
            ("load balancers", balancers.len(), MOST_OF_A_HOST),
            ("timers", timers.len(), MOST_OF_A_HOST),
            ("kubelets", kubelets.len(), MOST_OF_A_HOST),
            ("nodes with other settings", settings.as_ref().map_or(0, |wanted| wanted.nodes.len()), MOST_NODES),
        ],
    )?;
    let mut names = HashSet::new();
    if let Some(twice) = nodes.iter().find(|node| !names.insert(&node.name)) {
        return Err(untrusted(host, format!("it reported the node {} twice", shown(&twice.name))));
    }
    if let Some(wanted) = settings {
        cut(&mut wanted.attempt, LONGEST_LINE);
        wanted.nodes.retain(|node| node.len() <= LONGEST_LINE);
    }
    if applied.as_ref().is_some_and(|applied| size_of(&applied.cluster) > LONGEST_RECORD) {
        return Err(untrusted(host, "the record of what was applied is longer than any".to_owned()));
    }
    // Users of the cluster make budgets and use APIs.
    if tight_budgets.len() > MOST_OF_USERS {
        let why = format!("there are {}, and {MOST_OF_USERS} are looked at", tight_budgets.len());
        gaps.insert(0, Gap { host: host.to_owned(), what: BUDGETS.to_owned(), why });
        tight_budgets.truncate(MOST_OF_USERS);
    }
    deprecated_apis.truncate(MOST_OF_A_HOST);
    gaps.truncate(MOST_GAPS);
    [name, server_version, kube_proxy, network].into_iter().flatten().for_each(|text| cut(text, LONGEST_LINE));
    nodes.iter_mut().for_each(node);
    for member in etcd.iter_mut() {
        member.peer_urls.truncate(MOST_IN_A_LIST);
        let texts = [&mut member.id, &mut member.name].into_iter().chain(&mut member.version);
        texts.chain(&mut member.peer_urls).for_each(|text| cut(text, LONGEST_LINE));
    }
    let texts = components.iter_mut().flat_map(|pod| [&mut pod.name, &mut pod.node, &mut pod.image]);
    texts.for_each(|text| cut(text, LONGEST_LINE));
    let texts = certificates.iter_mut().flat_map(|one| [&mut one.path, &mut one.subject]);
    texts.for_each(|text| cut(text, LONGEST_LINE));
    tight_budgets.iter_mut().for_each(|budget| cut(&mut budget.name, LONGEST_LINE));
    for api in deprecated_apis.iter_mut() {
        api.written_by.truncate(MOST_IN_A_LIST);
        let texts = [&mut api.group, &mut api.version, &mut api.resource, &mut api.removed_in];
        texts.into_iter().chain(&mut api.written_by).for_each(|text| cut(text, LONGEST_LINE));
    }
    for last in timers.iter_mut().filter_map(|timer| timer.last.as_mut()) {
        cut(&mut last.what, LONGEST_LINE);
    }
    let of_kubelets = kubelets.iter_mut().flat_map(|one| [&mut one.runtime, &mut one.certificates, &mut one.server]);
    of_kubelets.flatten().for_each(|text| cut(text, LONGEST_LINE));
    for one in kubelets.iter_mut() {
        if let Some(ApiServerEtcd { access, prefix, lacks }) = &mut one.etcd {
            etcd_access(access);
            lacks.truncate(MOST_IN_A_LIST);
            lacks.iter_mut().chain([prefix]).for_each(|text| cut(text, LONGEST_LINE));
        }
        one.programs.truncate(MOST_PROGRAMS);
        let texts =
            one.programs.iter_mut().flat_map(|one| [&mut one.name, &mut one.path].into_iter().chain(&mut one.package));
        texts.for_each(|text| cut(text, LONGEST_LINE));
    }
    if let Some(kubeadm) = kubeadm {
        let KubeadmCluster {
            name,
            version,
            endpoint,
            dns_domain,
            pod_networks,
            service_networks,
            image_repository,
            own_images,
            etcd_data,
            external_etcd,
        } = kubeadm;
        let texts = [name, version, endpoint, dns_domain, pod_networks, service_networks, image_repository];
        texts.into_iter().chain(etcd_data).chain(own_images.values_mut()).for_each(|text| cut(text, LONGEST_LINE));
        external_etcd.iter_mut().for_each(etcd_access);
        own_images.retain(|path, _| path.len() <= LONGEST_LINE);
        while own_images.len() > MOST_PROGRAMS {
            own_images.pop_last();
        }
    }
    for gap in gaps.iter_mut() {
        cut(&mut gap.what, LONGEST_LINE);
        cut(&mut gap.why, LONGEST_LINE);
    }
    let hosts = certificates.iter().map(|one| &one.host).chain(gaps.iter().map(|gap| &gap.host));
    let hosts = hosts.chain(balancers.iter().map(|one| &one.host)).chain(timers.iter().map(|one| &one.host));
    let hosts = hosts.chain(kubelets.iter().map(|one| &one.host));
    match hosts.into_iter().find(|named| *named != host).cloned() {
        None => Ok(facts),
        Some(other) => Err(untrusted(host, format!("it reported what is of {}", shown(&other)))),
    }
}

fn etcd_access(access: &mut EtcdAccess) {
    let EtcdAccess { endpoints, ca, certificate, key } = access;
    endpoints.truncate(MOST_IN_A_LIST);
    endpoints.iter_mut().chain([ca, certificate, key]).for_each(|text| cut(text, LONGEST_LINE));
}

fn counted<const N: usize>(host: &str, counts: [(&str, usize, usize); N]) -> Result<(), LinkError> {
    match counts.into_iter().find(|(_, count, most)| count > most) {
        None => Ok(()),
        Some((what, count, most)) => {
            Err(untrusted(host, format!("it reported {count} {what}; {most} are more than any has")))
        }
    }
}

fn node(node: &mut NodeFacts) {
    let NodeFacts {
        name,
        roles,
        kubelet,
        runtime,
        runtime_version,
        os_image,
        kernel,
        addresses,
        ready: _,
        conditions,
        unschedulable: _,
        cordoned_by,
        settings,
    } = node;
    roles.truncate(MOST_IN_A_LIST);
    addresses.truncate(MOST_IN_A_LIST);
    conditions.truncate(MOST_IN_A_LIST);
    let of_conditions = conditions.iter_mut().flat_map(|one| [&mut one.kind, &mut one.status, &mut one.reason]);
    let texts = [name, kubelet, runtime, runtime_version, os_image, kernel].into_iter().chain(roles).chain(addresses);
    texts.chain(cordoned_by).chain(settings).chain(of_conditions).for_each(|text| cut(text, LONGEST_LINE));
}

/// Bytes of a document as JSON.
fn size_of(document: &Value) -> usize {
    let mut size = Size(0);
    // Counting does not fail.
    let _ = serde_json::to_writer(&mut size, document);
    size.0
}

struct Size(usize);

impl std::io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
