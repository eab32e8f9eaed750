//! An etcd that is not kubeadm's: whether cluster.yaml and every API server name the one that kubeadm has recorded.

use std::collections::BTreeSet;

use kubexm_plan::cluster_facts::{ApiServerEtcd, EtcdAccess, EtcdMember, KubeletFacts};
use kubexm_plan::kubeadm_certificates::PKI;
use kubexm_plan::{ClusterFacts, etcd};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{Cluster, EtcdKind, ExternalEtcd};

use super::input::AdoptionInput;
use super::item::{Items, Verdict};

const WHAT: &str = "etcd";
const ENDPOINTS: &str = "endpoints of etcd";
/// Where cluster.yaml, and kube-apiserver, name no prefix.
const PREFIX: &str = "/registry";

/// What kubeadm has recorded, against cluster.yaml, which has one of the user's, and each control plane.
pub(super) fn compare(input: &AdoptionInput<'_>, recorded: &EtcdAccess, external: &ExternalEtcd, items: &mut Items) {
    if let Some(bare) = recorded.endpoints.iter().find(|endpoint| !endpoint.starts_with("https://")) {
        let fix = "kubexm-install reaches an etcd by https:// and a client's certificate only: give it certificates";
        return items.in_the_way(None, ENDPOINTS, (bare.clone(), None), fix);
    }
    let (found, wanted) = (recorded.endpoints.join(","), external.endpoints.join(","));
    match is_same(&recorded.endpoints, &external.endpoints) {
        true => items.compared(None, ENDPOINTS, &found, &found),
        false => {
            let fix = format!("write `endpoints: {}` in spec.etcd.externalConfig of cluster.yaml", listed(recorded));
            items.in_the_way(None, ENDPOINTS, (found, Some(wanted)), fix);
        }
    }
    for plane in &input.cluster.role_groups.control_plane {
        of_plane(input, (recorded, external), plane, items);
    }
    members(input, items);
    let found = "caFile, certFile and keyFrom of cluster.yaml were compared with nothing: no control plane of an adopted cluster gets them";
    items.unknown(None, "certificates for etcd", found);
}

fn of_plane(
    input: &AdoptionInput<'_>,
    (recorded, external): (&EtcdAccess, &ExternalEtcd),
    plane: &str,
    items: &mut Items,
) {
    let at = Some(plane);
    let Some(kubelet) = kubelet(input.running, plane) else { return };
    let Some(ApiServerEtcd { access, prefix, lacks }) = &kubelet.etcd else {
        let found = "its manifest names none, or a static pod of etcd is there";
        let fix = "find out which etcd its API server uses: the one that kubeadm has recorded is another one";
        return items.in_the_way(at, "etcd of the API server", (found, Some(recorded.endpoints.join(","))), fix);
    };
    let (found, wanted) = (access.endpoints.join(","), recorded.endpoints.join(","));
    let shares = shares(&access.endpoints, &recorded.endpoints);
    match shares {
        true if is_same(&access.endpoints, &recorded.endpoints) => {
            items.compared(at, "etcd of the API server", &found, &found);
        }
        true => items.compared(at, "etcd of the API server", &found, &wanted),
        false => {
            let fix = "by its manifest it is of another etcd than kubeadm has recorded: correct the ConfigMap kubeadm-config in kube-system";
            items.in_the_way(at, "etcd of the API server", (found, Some(wanted)), fix);
        }
    }
    let fix = format!("write `prefix: {prefix}` in spec.etcd.externalConfig of cluster.yaml");
    items.kept(at, "prefix in etcd", (prefix, &external.prefix), fix);
    match lacks.as_slice() {
        [] => items.add(Verdict::Known, at, "files for etcd", access.files().join(", ")),
        lacks => {
            items.compared(at, "files for etcd", &format!("no {}", lacks.join(", no ")), &recorded.files().join(", "))
        }
    }
    let digest = |host: &str, path: &str| -> Option<Digest> {
        input.running.certificates.iter().find(|one| one.host == host && one.path == path)?.file
    };
    let of_first = input.cluster.first_control_plane().and_then(|first| {
        let access = &kubelet_etcd(input.running, &first.name)?.access;
        digest(&first.name, &access.ca)
    });
    match (digest(plane, &access.ca), of_first) {
        (Some(own), Some(first)) => items.compared(at, "CA of etcd", &own.to_string(), &first.to_string()),
        _ => items.unknown(at, "CA of etcd", format!("{} could not be read", access.ca)),
    }
}

/// Their names are nobody's but etcd's own: they need not be on hosts of cluster.yaml.
fn members(input: &AdoptionInput<'_>, items: &mut Items) {
    const MEMBER: &str = "member of etcd";
    if input.running.etcd.is_empty() {
        items.unknown(
            None,
            "members of etcd",
            "none has answered a control plane with the certificate of its API server",
        );
    }
    for member in &input.running.etcd {
        let name = if member.name.is_empty() { &member.id } else { &member.name };
        items.compared(None, MEMBER, &format!("{name}: {}", state(member)), &format!("{name}: healthy"));
        if let Some(version) = &member.version {
            items.unknown(
                None,
                "version of etcd",
                format!("{name}: {version}; it is yours, and no bundle brings another one"),
            );
        }
    }
}

pub(super) fn state(member: &EtcdMember) -> &'static str {
    match (member.healthy, member.learner) {
        (true, false) => "healthy",
        (true, true) => "a learner",
        (false, _) => "not healthy",
    }
}

/// cluster.yaml has an etcd of another kind, and the cluster this one.
pub(super) fn unnamed(input: &AdoptionInput<'_>, recorded: &EtcdAccess, items: &mut Items) {
    let found = format!("not kubeadm's, at {}", recorded.endpoints.join(", "));
    let first = input.cluster.first_control_plane().and_then(|first| kubelet_etcd(input.running, &first.name));
    let fix = lines(recorded, first.map_or(PREFIX, |etcd| etcd.prefix.as_str()));
    items.in_the_way(None, WHAT, (found, Some(input.cluster.etcd.kind.to_string())), fix);
}

/// What to write into cluster.yaml.
fn lines(recorded: &EtcdAccess, prefix: &str) -> String {
    let prefix = if prefix == PREFIX { String::new() } else { format!(", prefix: {prefix}") };
    format!(
        "write `etcd: {{type: external, externalConfig: {{endpoints: {}, caFile: etcd-ca.pem, certFile: etcd-client.pem, keyFrom: {{env: \
         ETCD_CLIENT_KEY}}{prefix}}}}}` in spec of cluster.yaml, leave roleGroups.etcd out, and lay copies of {} and {} of a control plane beside \
         it as etcd-ca.pem and etcd-client.pem; the key of an adopted cluster is not read: that variable need not be set",
        listed(recorded),
        recorded.ca,
        recorded.certificate
    )
}

fn listed(recorded: &EtcdAccess) -> String {
    let plain = recorded.endpoints.iter().map(|endpoint| endpoint.trim_end_matches('/'));
    let quoted: Vec<String> = plain.map(|endpoint| format!("\"{endpoint}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

/// In any order.
pub(crate) fn is_same(some: &[String], others: &[String]) -> bool {
    let set = |all: &[String]| all.iter().map(|one| one.trim_end_matches('/').to_owned()).collect::<BTreeSet<_>>();
    set(some) == set(others)
}

fn shares(some: &[String], others: &[String]) -> bool {
    let plain = |one: &String| one.trim_end_matches('/').to_owned();
    some.iter().any(|one| others.iter().any(|other| plain(one) == plain(other)))
}

fn kubelet<'f>(running: &'f ClusterFacts, host: &str) -> Option<&'f KubeletFacts> {
    running.kubelets.iter().find(|one| one.host == host)
}

/// The etcd of a host's API server, where that is not kubeadm's.
pub(crate) fn kubelet_etcd<'f>(running: &'f ClusterFacts, host: &str) -> Option<&'f ApiServerEtcd> {
    kubelet(running, host)?.etcd.as_ref()
}

/// Why what cluster.yaml says of etcd is not what an adopted cluster has, by the manifests of its API servers: also where no API server
/// answers. One line for each control plane.
pub fn other_etcd(cluster: &Cluster, running: &ClusterFacts) -> Vec<String> {
    let external = cluster.etcd.external.as_ref().filter(|_| cluster.etcd.kind == EtcdKind::External);
    let mut problems = Vec::new();
    // One without a kubelet is no control plane, which others say; and one that has another folder of certificates is refused for that.
    let planes = cluster.role_groups.control_plane.iter();
    for plane in planes.filter(|plane| kubelet(running, plane).is_some_and(|one| one.certificates.is_some())) {
        match (external, kubelet_etcd(running, plane)) {
            (None, None) if cluster.etcd.kind == EtcdKind::Kubeadm => {}
            (None, Some(found)) => problems.push(format!(
                "{plane}: spec.etcd.type of cluster.yaml is {}, and its API server uses an etcd that is not kubeadm's: {}",
                cluster.etcd.kind,
                lines(&found.access, &found.prefix)
            )),
            (_, None) => problems.push(format!(
                "{plane}: spec.etcd.type of cluster.yaml is {}, and kubeadm's etcd runs there: {OF_KUBEADM}",
                cluster.etcd.kind
            )),
            (Some(external), Some(found)) => problems.extend(differs(external, found).map(|why| format!("{plane}: {why}"))),
        }
    }
    problems
}

/// What to write into cluster.yaml where etcd is kubeadm's.
pub(super) const OF_KUBEADM: &str = "write `etcd: {type: kubeadm}` in spec of cluster.yaml, without externalConfig";

fn differs(external: &ExternalEtcd, found: &ApiServerEtcd) -> Option<String> {
    let ApiServerEtcd { access, prefix, .. } = found;
    if !shares(&access.endpoints, &external.endpoints) {
        return Some(format!(
            "its API server uses the etcd at {}, and cluster.yaml names {}: write `endpoints: {}` in spec.etcd.externalConfig",
            access.endpoints.join(", "),
            external.endpoints.join(", "),
            listed(access)
        ));
    }
    (*prefix != external.prefix).then(|| {
        format!(
            "keys of its API server begin with {prefix}, and cluster.yaml names {}: write `prefix: {prefix}` in spec.etcd.externalConfig",
            external.prefix
        )
    })
}

/// Whether a file is one of those of an etcd that is neither kubeadm's nor kubexm's.
pub(crate) fn is_of(running: &ClusterFacts, host: &str, path: &str) -> bool {
    let Some(ApiServerEtcd { access, .. }) = kubelet_etcd(running, host) else { return false };
    let folder = |file: &str| file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let of_others = |folder: &String| ![PKI, etcd::CLIENT, "/etc/kubernetes/pki/etcd"].contains(&folder.as_str());
    [access.ca.as_str(), access.certificate.as_str()].contains(&path) && !path.starts_with("/etc/kubexm/")
        || folder(&access.certificate).filter(of_others) == folder(path)
}
