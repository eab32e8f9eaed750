//! The cluster itself: its API server, what kubeadm has recorded of it, and its pod network.

use ipnet::IpNet;
use kubexm_plan::cluster_facts::{APPLIED, Gap, HOST, KubeadmCluster};

use super::input::AdoptionInput;
use super::item::{Items, Verdict};
use crate::network;

const IMAGE_REPOSITORY: &str = "registry.k8s.io";
const CNI_FOLDER: &str = "/etc/cni/net.d/";
/// kubeadm's, where its configuration names none.
const PORT: u16 = 6443;

pub(super) fn compare(input: &AdoptionInput<'_>, items: &mut Items) {
    let Some(server) = &input.running.server_version else {
        let why: Vec<String> = input.running.gaps.iter().map(line).collect();
        let why = if why.is_empty() { "no control plane has an admin.conf".to_owned() } else { why.join("; ") };
        let fix =
            "a cluster is adopted while it runs: see that the API server answers on a control plane of cluster.yaml";
        return items.in_the_way(None, "API server", (format!("it does not answer ({why})"), None), fix);
    };
    match input.bundle {
        Some(bundle) => items.compared(None, "Kubernetes", server, &bundle.kubernetes),
        None => items.unknown(None, "Kubernetes", format!("{server}; without a bundle it is compared with nothing")),
    }
    match &input.running.kubeadm {
        Some(kubeadm) => of_kubeadm(input, kubeadm, items),
        None => {
            let found = "the cluster has no ConfigMap kubeadm-config in kube-system that can be read";
            let fix = "kubexm-install knows clusters that kubeadm has made, and no others";
            items.in_the_way(None, "kubeadm", (found, None), fix);
        }
    }
    plugin(input, items);
    for gap in input.running.gaps.iter().filter(|gap| gap.what != APPLIED && gap.what != HOST) {
        items.unknown(Some(&gap.host), "not observed", format!("{}: {}", gap.what, gap.why));
    }
    items.unknown(
        None,
        "other settings",
        "what cluster.yaml sets beyond this (flags of components, the registry, kernel parameters, add-ons, volumes) was compared with nothing, \
         and is not applied",
    );
}

fn line(gap: &Gap) -> String {
    format!("{}: {}: {}", gap.host, gap.what, gap.why)
}

/// What kubeadm has recorded, against cluster.yaml. Networks, the domain and etcd stay as they are for as long as a cluster lives.
fn of_kubeadm(input: &AdoptionInput<'_>, kubeadm: &KubeadmCluster, items: &mut Items) {
    let cluster = input.cluster;
    let mut network = |what: &'static str, field: &str, found: &str, wanted: Vec<IpNet>| {
        let all = |networks: &[IpNet]| networks.iter().map(IpNet::to_string).collect::<Vec<_>>().join(",");
        let parsed: Option<Vec<IpNet>> = found.split(',').map(|one| one.trim().parse().ok()).collect();
        let fix = format!("write `{field}: {found}` in spec.network of cluster.yaml: a running cluster keeps it");
        match parsed {
            Some(parsed) if parsed == wanted => items.compared(None, what, found, found),
            _ => items.in_the_way(None, what, (found_or_none(found), Some(all(&wanted))), fix),
        }
    };
    network("pod network", "podCidr", &kubeadm.pod_networks, cluster.network.pod_cidrs().collect());
    network("service network", "serviceCidr", &kubeadm.service_networks, cluster.network.service_cidrs().collect());
    if let Some(kubernetes) = &cluster.kubernetes {
        let fix = format!("write `dnsDomain: {}` in spec.kubernetes of cluster.yaml", kubeadm.dns_domain);
        items.kept(None, "DNS domain", (&kubeadm.dns_domain, &kubernetes.dns_domain), fix);
        items.compared(None, "name inside the cluster", &kubeadm.name, &kubernetes.cluster_name);
    }
    let endpoint = match kubeadm.endpoint.as_str() {
        "" => String::new(),
        named if named.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) => named.to_owned(),
        named => format!("{named}:{PORT}"),
    };
    let wanted = format!("{}:{}", cluster.control_plane_name(), cluster.control_plane_port());
    items.compared(None, "endpoint of the API servers", &endpoint, &wanted);
    items.compared(None, "registry of kubeadm's images", &kubeadm.image_repository, IMAGE_REPOSITORY);
}

fn found_or_none(found: &str) -> String {
    if found.is_empty() { "none".to_owned() } else { found.to_owned() }
}

/// The plugin, by its CNI configuration on a control plane. Its own settings are nobody's but its own.
fn plugin(input: &AdoptionInput<'_>, items: &mut Items) {
    let wanted = input.cluster.network.plugin;
    let mut configs: Vec<&str> = (input.facts.values().flat_map(|facts| &facts.leftovers))
        .filter_map(|left| left.what.strip_prefix(CNI_FOLDER))
        .collect();
    configs.sort_unstable();
    configs.dedup();
    match (&input.running.network, wanted) {
        (found, _) if network::is_left_to_operator(input.cluster) => {
            let found = found.clone().unwrap_or_else(|| configs.join(", "));
            items.unknown(None, "pod network's plugin", format!("{found}: it is left to you, as cluster.yaml says"));
        }
        (Some(found), wanted) if *found == wanted.to_string() => {
            items.compared(None, "pod network's plugin", found, found);
            let found = format!("how {found} was installed, and its version, were compared with nothing");
            items.unknown(None, "pod network's settings", found);
        }
        (Some(found), wanted) => {
            let fix = format!(
                "write `plugin: {found}` in spec.network of cluster.yaml, or `plugin: none` to look after it yourself"
            );
            items.in_the_way(None, "pod network's plugin", (found.clone(), Some(wanted.to_string())), fix);
        }
        (None, wanted) => {
            let found = if configs.is_empty() { "none that is known".to_owned() } else { configs.join(", ") };
            let fix = "write `plugin: none` in spec.network of cluster.yaml: it stays yours";
            items.in_the_way(None, "pod network's plugin", (found, Some(wanted.to_string())), fix);
        }
    }
    if input.cluster.network.multus {
        let found = "whether the cluster has it was compared with nothing";
        items.add(Verdict::Unknown, None, "multus", found);
    }
    if input.cluster.kubernetes.as_ref().is_some_and(|kubernetes| kubernetes.nodelocaldns.is_some()) {
        let found = "whether the cluster has one was compared with nothing";
        items.add(Verdict::Unknown, None, "DNS cache of the nodes", found);
    }
}
