//! Pod network: Calico, by upstream's manifest with typha (calico 3.29 to 3.32, `manifests/calico-typha.yaml`), in which this recipe sets
//! what cluster.yaml, the hosts and the bundle say. Everything else is as upstream has it.

use kubexm_plan::op::Manifests;
use kubexm_plan::{Step, Undo};
use kubexm_spec::cluster::{Cluster, NetworkPlugin, ProxyMode};
use kubexm_spec::{ArtifactKey, Program};
use serde_json::{Value, json};

use super::manifest::{Container, Manifest};
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::release;
use crate::yaml;

const NAMESPACE: &str = "kube-system";
/// As its pods' container and DaemonSet are called.
const NODE: &str = "calico-node";
const TYPHA: &str = "calico-typha";
/// From where upstream's pods take the API's address, if somebody makes it.
const API: &str = "kubernetes-services-endpoint";
/// No label, so that no add-on can have this name.
const RECORD: &str = "network.calico";
/// From this many nodes on, typha stands between Felix and the API servers.
const LARGE: usize = 50;
/// Upstream: at least three in production, one for 200 nodes, no more than twenty.
const TYPHAS: (usize, usize, usize) = (3, 200, 20);
/// Plugins of CNI that the bundle brings itself. Upstream's image has its own copies of some and would overwrite them, and flannel's.
const OTHER_PLUGINS: &str = "bandwidth,bridge,dhcp,dummy,firewall,flannel,host-device,host-local,ipvlan,loopback,macvlan,portmap,ptp,\
                             sbr,static,tap,tuning,vlan,vrf";

/// How packets travel between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encapsulation {
    Vxlan,
    VxlanCrossSubnet,
    Ipip,
    IpipCrossSubnet,
    None,
}

impl Encapsulation {
    fn of(cluster: &Cluster) -> Self {
        match cluster.network.options.get("encapsulation").and_then(Value::as_str) {
            Some("VXLANCrossSubnet") => Self::VxlanCrossSubnet,
            Some("IPIP") => Self::Ipip,
            Some("IPIPCrossSubnet") => Self::IpipCrossSubnet,
            Some("None") => Self::None,
            _ => Self::Vxlan,
        }
    }

    /// Modes of the pool: IP in IP and VXLAN.
    const fn modes(self) -> (&'static str, &'static str) {
        match self {
            Self::Vxlan => ("Never", "Always"),
            Self::VxlanCrossSubnet => ("Never", "CrossSubnet"),
            Self::Ipip => ("Always", "Never"),
            Self::IpipCrossSubnet => ("CrossSubnet", "Never"),
            Self::None => ("Never", "Never"),
        }
    }

    /// With VXLAN Felix sets all routes; otherwise BIRD learns them by BGP.
    const fn has_bgp(self) -> bool {
        !matches!(self, Self::Vxlan | Self::VxlanCrossSubnet)
    }
}

/// Whether its nodes reach each other by BGP, and not by VXLAN.
pub(super) fn has_bgp(cluster: &Cluster) -> bool {
    Encapsulation::of(cluster).has_bgp()
}

/// How many typhas there are; none in a small cluster.
pub(super) fn typhas(cluster: &Cluster) -> Option<usize> {
    let option = |name: &str| cluster.network.options.get("typha").and_then(|typha| typha.get(name));
    let nodes = cluster.hosts.iter().filter(|host| cluster.roles(&host.name).in_cluster()).count();
    let (least, each, most) = TYPHAS;
    let replicas = option("replicas").and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    let wanted = option("enabled").and_then(Value::as_bool).unwrap_or(replicas.is_some() || nodes >= LARGE);
    // Each has its port on a node of its own.
    wanted.then(|| replicas.unwrap_or(nodes.div_ceil(each).clamp(least, most)).min(nodes.max(1)))
}

/// Applies the manifest. typha depends on the number of nodes.
pub fn step(draft: &mut Draft<'_>, first: &PlannedHost<'_>, undo: Undo) -> Result<Step, RecipeError> {
    let objects = objects(draft.cx, first)?;
    let blob = draft.text(yaml::documents("calico manifest", &objects)?);
    let (name, namespace) = (RECORD.to_owned(), NAMESPACE.to_owned());
    let step = Step::on(first.name(), "network.calico", "Apply the pod network")
        .timeout_s(release::TIMEOUT)
        .ensure(Manifests { name, namespace, blob, in_plan: true, wait_s: release::WAIT })
        .undo(undo)
        .build();
    Ok(draft.depends_on_all(step))
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
    node(cx.cluster, &mut manifest);
    typha(cx.cluster, &mut manifest);
    api(cx, &mut manifest);
    let image = |part: &str| {
        let key = ArtifactKey::FeatureImage(format!("calico-{part}"));
        cx.manifest.find(&key, platform).map(|artifact| artifact.name.clone())
    };
    // `quay.io/calico/node:v3.31.7`; of docker.io in the manifests of 3.29 and 3.30, and the bundle has quay.io's.
    let part = |reference: &str| Some(reference.rsplit_once("/calico/")?.1.split_once(':')?.0.to_owned());
    manifest.images(|reference| image(&part(reference)?));
    manifest.done().map_err(refused)
}

/// The DaemonSet, and what it reads of the ConfigMap.
fn node(cluster: &Cluster, manifest: &mut Manifest) {
    let encapsulation = Encapsulation::of(cluster);
    let options = &cluster.network.options;
    manifest.object("ConfigMap", "calico-config", |mut config| {
        config.set("/data/calico_backend", if encapsulation.has_bgp() { "bird" } else { "vxlan" });
        // Zero: as the host's link has it, less what the encapsulation needs.
        config.set("/data/veth_mtu", options.get("mtu").and_then(Value::as_u64).unwrap_or(0).to_string());
    });
    manifest.object("DaemonSet", NODE, |mut set| {
        set.container(NODE, |mut container| {
            pool(cluster, encapsulation, &mut container);
            container.put_env("IP_AUTODETECTION_METHOD", &autodetection(cluster));
            let nftables = cluster.kubernetes.as_ref().is_some_and(|known| known.proxy_mode == ProxyMode::Nftables);
            // kube-proxy's chains and Felix's must be of one kind.
            container.put_env("FELIX_NFTABLESMODE", if nftables { "Enabled" } else { "Disabled" });
            // It would count its clusters over the internet.
            container.put_env("FELIX_USAGEREPORTINGENABLED", "false");
            if !encapsulation.has_bgp() {
                container.without_word("livenessProbe", "-bird-live");
                container.without_word("readinessProbe", "-bird-ready");
            }
        });
        set.container("install-cni", |mut container| container.put_env("SKIP_CNI_BINARIES", OTHER_PLUGINS));
    });
}

/// The pool that the first of the nodes makes when it starts. What it is cannot be changed here afterwards.
fn pool(cluster: &Cluster, encapsulation: Encapsulation, container: &mut Container<'_>) {
    let (ipip, vxlan) = encapsulation.modes();
    container.env("CALICO_IPV4POOL_IPIP", ipip);
    container.env("CALICO_IPV4POOL_VXLAN", vxlan);
    container.put_env("CALICO_IPV4POOL_CIDR", &cluster.network.pod_cidr.to_string());
    if let Some(size) = cluster.network.options.get("blockSize").and_then(Value::as_u64) {
        container.put_env("CALICO_IPV4POOL_BLOCK_SIZE", &size.to_string());
    }
    if let Some(nat) = cluster.network.options.get("natOutgoing").and_then(Value::as_bool) {
        container.put_env("CALICO_IPV4POOL_NAT_OUTGOING", &nat.to_string());
    }
}

/// Upstream takes the first address that it finds, which on a host with two networks is often the wrong one. kubelet's own is the node's
/// address in cluster.yaml. An interface is a regular expression there.
fn autodetection(cluster: &Cluster) -> String {
    match &cluster.network.interface {
        Some(interface) => format!("interface=^{}$", interface.replace('.', "\\.")),
        None => "kubernetes-internal-ip".to_owned(),
    }
}

fn typha(cluster: &Cluster, manifest: &mut Manifest) {
    let service = typhas(cluster).map_or("none", |_| TYPHA);
    manifest.object("ConfigMap", "calico-config", |mut config| config.set("/data/typha_service_name", service));
    match typhas(cluster) {
        Some(replicas) => manifest.object("Deployment", TYPHA, |mut typha| {
            typha.set("/spec/replicas", replicas);
            typha.container(TYPHA, |mut container| container.takes_env_of(API));
        }),
        None => ["Deployment", "Service", "PodDisruptionBudget"].iter().for_each(|kind| manifest.remove(kind, TYPHA)),
    }
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

/// Whether a cluster has it.
pub(super) fn is_of(cluster: &Cluster) -> bool {
    cluster.network.plugin == NetworkPlugin::Calico
}
