//! Pod network: Calico, by upstream's manifest with typha and BIRD (calico 3.29 to 3.32, `manifests/calico-typha.yaml`), in which this recipe sets
//! what cluster.yaml, the hosts and the bundle say. Everything else is as upstream has it.

use std::collections::BTreeSet;

use kubexm_plan::network::NetworkTraits;
use kubexm_plan::network::calico::{BIRD, BIRD_WITH_TYPHA, IPIP, IPIP_WITH_TYPHA, POD_NETWORKS, WITH_TYPHA};
use kubexm_plan::op::Manifests;
use kubexm_plan::{Step, Undo};
use kubexm_spec::cluster::{Cluster, ProxyMode};
use kubexm_spec::{ArtifactKey, Program};
use serde_json::{Value, json};

use super::manifest::{Container, Manifest};
use super::pool::Encapsulation;
use super::{pool, rollout, typha};
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::release;
use crate::yaml;

const NAMESPACE: &str = "kube-system";
/// As its pods' container and DaemonSet are called.
const NODE: &str = "calico-node";
/// What its pods and the CNI plugin read.
const CONFIG: &str = "calico-config";
/// From where upstream's pods take the API's address, if somebody makes it.
const API: &str = "kubernetes-services-endpoint";
/// No label, so that no add-on can have this name.
const RECORD: &str = "network.calico";
/// At its pods: which settings they have read when they started.
const CONFIG_DIGEST: &str = "kubexm.io/config";
/// The node's address in the API.
const INTERNAL_IP: &str = "kubernetes-internal-ip";
/// As upstream writes it, and with what its configuration of IPAM has for pods of two families.
const IPAM: &str = r#""type": "calico-ipam""#;
const BOTH_FAMILIES: &str = r#""type": "calico-ipam", "assign_ipv4": "true", "assign_ipv6": "true""#;
/// Plugins of CNI that the bundle brings itself. Upstream's image has its own copies of some and would overwrite them, and flannel's.
const OTHER_PLUGINS: &str = "bandwidth,bridge,dhcp,dummy,firewall,flannel,host-device,host-local,ipvlan,loopback,macvlan,portmap,ptp,\
                             sbr,static,tap,tuning,vlan,vrf";

/// What Calico has on a node, where it is not what it has with VXLAN and without typha.
pub(super) fn traits(cluster: &Cluster) -> Option<&'static NetworkTraits> {
    let (bird, ipip) = (pool::has_bird(cluster), Encapsulation::of(cluster).ipip != "Never");
    match (bird, ipip, typha::replicas(cluster).is_some()) {
        (false, _, false) => None,
        (false, _, true) => Some(&WITH_TYPHA),
        (true, false, false) => Some(&BIRD),
        (true, false, true) => Some(&BIRD_WITH_TYPHA),
        (true, true, false) => Some(&IPIP),
        (true, true, true) => Some(&IPIP_WITH_TYPHA),
    }
}

/// Applies the manifest. How a node finds its MTU depends on the links of all, and typha on how many they are.
pub fn step(draft: &mut Draft<'_>, first: &PlannedHost<'_>, undo: Undo) -> Result<Step, RecipeError> {
    let objects = objects(draft.cx, first)?;
    let blob = draft.text(yaml::documents("calico manifest", &objects)?);
    let (name, namespace) = (RECORD.to_owned(), NAMESPACE.to_owned());
    let wait_s = rollout::wait(draft.cx.cluster);
    let step = Step::on(first.name(), "network.calico", "Apply the pod network")
        .timeout_s(release::timeout(wait_s))
        .ensure(Manifests { name, namespace, blob, in_plan: true, slots: Vec::new(), wait_s })
        .undo(undo)
        .build();
    Ok(draft.depends_on_all(step))
}

/// Writes down the network of pods before a node has routes to a part of it; none where they are known by themselves.
pub fn pod_networks(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Option<Step> {
    let cluster = draft.cx.cluster;
    if !pool::has_bird(cluster) {
        return None;
    }
    let file = draft.file(POD_NETWORKS, 0o644, format!("POD_NETWORK={}\n", cluster.network.pod_cidr));
    let step =
        Step::on(node.name(), "network.pods", "Write down the network of pods, whose routes a removal takes away");
    Some(step.ensure(file).undo(Undo::RestoreBefore).build())
}

/// Fails if the bundle's manifest is not as this recipe knows it.
pub fn check(cx: &PlanContext<'_>) -> Result<(), RecipeError> {
    let platform = cx.cluster.bundle.platforms.first().copied();
    let platform = platform.or_else(|| cx.manifest.platforms.first().copied());
    platform.map_or(Ok(()), |platform| patched(cx, platform).map(drop))
}

fn objects(cx: &PlanContext<'_>, first: &PlannedHost<'_>) -> Result<Vec<Value>, RecipeError> {
    patched(cx, first.platform)
}

fn patched(cx: &PlanContext<'_>, platform: kubexm_spec::Platform) -> Result<Vec<Value>, RecipeError> {
    let artifact = cx.program(Program::CalicoManifest, platform)?;
    let refused = |problems| RecipeError::Manifest {
        program: Program::CalicoManifest.name(),
        version: artifact.version.clone(),
        problems,
    };
    let missing = || RecipeError::NotInBundle { missing: vec![artifact.key.to_string()] };
    let text = cx.charts.manifest.as_deref().ok_or_else(missing)?;
    let mut manifest = Manifest::read(text).map_err(|problem| refused(vec![problem]))?;
    config(cx.cluster, &mut manifest);
    node(cx, &mut manifest);
    typha::patch(cx.cluster, &mut manifest, API);
    api(cx, &mut manifest);
    let read = manifest.digest(&[CONFIG, API]).to_string();
    manifest.object("DaemonSet", NODE, |mut set| set.annotate_pods(CONFIG_DIGEST, &read));
    let image = |part: &str| {
        let key = ArtifactKey::FeatureImage(format!("calico-{part}"));
        cx.manifest.find(&key, platform).map(|artifact| artifact.name.clone())
    };
    // `quay.io/calico/node:v3.31.7`; of docker.io in the manifests of 3.29 and 3.30, and the bundle has quay.io's.
    let part = |reference: &str| Some(reference.rsplit_once("/calico/")?.1.split_once(':')?.0.to_owned());
    manifest.images(|reference| image(&part(reference)?));
    manifest.done().map_err(refused)
}

/// What the pods read when they start.
fn config(cluster: &Cluster, manifest: &mut Manifest) {
    let mtu = cluster.network.options.get("mtu").and_then(Value::as_u64);
    manifest.object("ConfigMap", CONFIG, |mut config| {
        // With VXLAN Felix sets all routes, and no BIRD learns any.
        config.set("/data/calico_backend", if pool::has_bird(cluster) { "bird" } else { "vxlan" });
        // Zero: as the host's link has it, less what the encapsulation needs.
        config.set("/data/veth_mtu", mtu.unwrap_or(0).to_string());
        config.set("/data/typha_service_name", typha::service(cluster));
        if cluster.network.has_two_stacks() {
            // Without this the plugin gives pods an address of IPv4 alone.
            config.replace("/data/cni_network_config", IPAM, BOTH_FAMILIES);
        }
    });
}

fn node(cx: &PlanContext<'_>, manifest: &mut Manifest) {
    let cluster = cx.cluster;
    manifest.object("DaemonSet", NODE, |mut set| {
        set.set("/spec/updateStrategy/rollingUpdate/maxUnavailable", rollout::AT_ONCE);
        set.container(NODE, |mut container| {
            set_pool(cluster, &mut container);
            container.put_env("IP_AUTODETECTION_METHOD", &autodetection(cluster));
            if let Some(v6) = cluster.network.more_pod_cidrs.first() {
                container.env("FELIX_IPV6SUPPORT", "true");
                container.put_env("IP6", "autodetect");
                // The one in cluster.yaml, which kubelet was given: an interface may have others, some of which change by themselves.
                container.put_env("IP6_AUTODETECTION_METHOD", INTERNAL_IP);
                container.put_env("CALICO_IPV6POOL_CIDR", &v6.to_string());
                container.env("CALICO_IPV6POOL_VXLAN", Encapsulation::of(cluster).vxlan);
                container.put_env("CALICO_IPV6POOL_NAT_OUTGOING", &pool::nat_outgoing(cluster).to_string());
            }
            if let Some(pattern) = mtu_links(cx) {
                container.put_env("FELIX_MTUIFACEPATTERN", &pattern);
            }
            let nftables = cluster.kubernetes.as_ref().is_some_and(|known| known.proxy_mode == ProxyMode::Nftables);
            // kube-proxy's chains and Felix's must be of one kind.
            container.put_env("FELIX_NFTABLESMODE", if nftables { "Enabled" } else { "Disabled" });
            // It would count its clusters over the internet.
            container.put_env("FELIX_USAGEREPORTINGENABLED", "false");
            if !pool::has_bird(cluster) {
                container.without_word("livenessProbe", "-bird-live");
                container.without_word("readinessProbe", "-bird-ready");
            }
        });
        set.container("install-cni", |mut container| container.put_env("SKIP_CNI_BINARIES", OTHER_PLUGINS));
    });
}

/// The pool that the first of the nodes makes when it starts. What it is cannot be changed here afterwards.
fn set_pool(cluster: &Cluster, container: &mut Container<'_>) {
    let Encapsulation { ipip, vxlan } = Encapsulation::of(cluster);
    container.env("CALICO_IPV4POOL_IPIP", ipip);
    container.env("CALICO_IPV4POOL_VXLAN", vxlan);
    container.put_env("CALICO_IPV4POOL_CIDR", &cluster.network.pod_cidr.to_string());
    container.put_env("CALICO_IPV4POOL_BLOCK_SIZE", &pool::block_size(cluster).to_string());
    container.put_env("CALICO_IPV4POOL_NAT_OUTGOING", &pool::nat_outgoing(cluster).to_string());
}

/// Upstream takes the first address that it finds, which on a host with two networks is often the wrong one. kubelet's own is the node's
/// address in cluster.yaml. An interface is a regular expression there.
fn autodetection(cluster: &Cluster) -> String {
    match &cluster.network.interface {
        Some(interface) => format!("interface=^{}$", literal(interface)),
        None => INTERNAL_IP.to_owned(),
    }
}

/// By which links Felix finds the MTU of a host, where its own pattern leaves out one that nodes reach each other by (`bond0`, `br0`): it
/// would take 1460 for all. None where it need not, or the MTU is given.
fn mtu_links(cx: &PlanContext<'_>) -> Option<String> {
    let network = &cx.cluster.network;
    if network.options.contains_key("mtu") {
        return None;
    }
    // Where they are not known, no plan is made either.
    let nodes = cx.nodes().unwrap_or_default();
    let of_node = |node: &PlannedHost<'_>| match &network.interface {
        Some(interface) => Some(interface.clone()),
        None => node.interface().ok().map(str::to_owned),
    };
    let links = nodes.iter().filter(|node| node.in_cluster()).filter_map(of_node);
    // What one host calls its link goes into the pods of all: another name than links have is left out.
    let links: BTreeSet<String> = links.filter(|link| is_plain(link)).collect();
    let named = || links.iter().map(|link| literal(link)).collect::<Vec<_>>().join("|");
    (!links.iter().all(|link| is_known_to_felix(link))).then(|| format!("^({})$", named()))
}

/// Felix: `^((en|wl|ww|sl|ib)[Pcopsvx].*|(eth|wlan|wwan).*)`.
fn is_known_to_felix(link: &str) -> bool {
    let rest = ["en", "wl", "ww", "sl", "ib"].iter().find_map(|prefix| link.strip_prefix(prefix));
    rest.is_some_and(|rest| rest.starts_with(|c| "Pcopsvx".contains(c)))
        || ["eth", "wlan", "wwan"].iter().any(|prefix| link.starts_with(prefix))
}

/// IFNAMSIZ, and characters that Go's regular expressions know with a backslash before them.
fn is_plain(link: &str) -> bool {
    (1..=15).contains(&link.len())
        && link.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':' | b'@'))
}

/// As a regular expression.
fn literal(link: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    link.chars().flat_map(|c| (!plain(c)).then_some('\\').into_iter().chain([c])).collect()
}

/// Pods of the host's network ask the API by the control plane's name, as kube-proxy does, and need not wait for its rules; the CNI plugin's
/// kubeconfig gets the same address.
fn api(cx: &PlanContext<'_>, manifest: &mut Manifest) {
    manifest.object("DaemonSet", NODE, |mut set| {
        for name in [NODE, "upgrade-ipam", "install-cni"] {
            set.container(name, |mut container| container.takes_env_of(API));
        }
    });
    manifest.add(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": API, "namespace": NAMESPACE},
        "data": {
            "KUBERNETES_SERVICE_HOST": cx.control_plane_name(),
            "KUBERNETES_SERVICE_PORT": cx.cluster.control_plane_port().to_string(),
        },
    }));
}
