//! kubeadm's config, in the API version of the Kubernetes that is installed (`kubeadm.k8s.io/v1beta4` from 1.31): every
//! image tag, address and name is explicit, so that kubeadm looks nothing up and uses no built-in default.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ipnet::IpNet;
use kubexm_spec::cluster::{API_PORT, Kubernetes, ProxyMode};
use kubexm_spec::{ClusterImage, Digest, depot};
use serde_json::{Value, json};

use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;
use crate::modules::join_slots::Slots;
use crate::modules::{audit, dns, endpoint, etcd_client};
use crate::{minors, network, paths, runtime, selinux, yaml};

/// Taint that keeps users' pods off a control plane; kubeadm's own.
pub const TAINT: &str = "node-role.kubernetes.io/control-plane";
/// The phase of kubeadm that makes kube-proxy.
pub const PROXY_PHASE: &str = "addon/kube-proxy";

/// The config of `kubeadm init` on this node.
pub fn init(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<String, RecipeError> {
    let made_without = node.facts.kubeadm_config_text.as_deref().is_some_and(|text| !text.contains(WATCHES_END));
    whole(cx, node, !made_without)
}

/// The same, for a `kubeadm upgrade` that writes the manifests of the control plane anew: with the flags of ours that came later. Where
/// kubeadm has done this upgrade already, in an earlier run, the flags are those that it was given then.
pub fn upgraded(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<String, RecipeError> {
    let without = whole(cx, node, false)?;
    if node.facts.kubeadm_config == Some(Digest::of(&without)) {
        return Ok(without);
    }
    whole(cx, node, true)
}

fn whole(cx: &PlanContext<'_>, node: &PlannedHost<'_>, ends_watches: bool) -> Result<String, RecipeError> {
    let cluster = cluster_configuration(cx, node, ends_watches)?;
    let mut documents = vec![init_configuration(cx, node)?, cluster, kubelet(cx, node)?];
    if !network::replaces_kube_proxy(cx.cluster) {
        documents.push(kube_proxy(cx)?);
    }
    yaml::documents("kubeadm config", &documents)
}

/// What a node has otherwise than the first control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfNode<'a> {
    /// Folder of kubeadm's patches.
    pub patches: Option<&'a str>,
    /// kubelet's resolv.conf, where kubeadm knows no patch for it.
    pub resolv_conf: Option<&'a str>,
}

/// The config of `kubeadm join` on this node, with placeholders for the values that the first control plane makes.
/// Discovery uses the address of that control plane: a name or a load balancer may not work yet.
pub fn join(
    cx: &PlanContext<'_>,
    first: &PlannedHost<'_>,
    node: &PlannedHost<'_>,
    slots: &Slots,
    own: &OfNode<'_>,
) -> Result<String, RecipeError> {
    let mut config = json!({
        "apiVersion": api(cx, node)?,
        "kind": "JoinConfiguration",
        "discovery": {"bootstrapToken": {
            "apiServerEndpoint": SocketAddr::from((first.ip, API_PORT)).to_string(),
            "token": slots.token.placeholder(),
            "caCertHashes": [slots.ca_hash.placeholder()],
        }},
        "nodeRegistration": joining(cx, node, own)?,
    });
    if node.roles.control_plane {
        config["controlPlane"] = json!({"localAPIEndpoint": local_endpoint(node)});
    }
    if let Some(key) = &slots.certificate_key {
        config["controlPlane"]["certificateKey"] = json!(key.placeholder());
    }
    if let Some(directory) = own.patches {
        config["patches"] = json!({"directory": directory});
    }
    yaml::documents("kubeadm join config", &[config])
}

/// `kubeadm.k8s.io/v1beta4`.
fn api(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<String, RecipeError> {
    Ok(format!("kubeadm.k8s.io/{}", cx.kubeadm_api(node.platform)?))
}

fn local_endpoint(node: &PlannedHost<'_>) -> Value {
    json!({"advertiseAddress": node.ip.to_string(), "bindPort": API_PORT})
}

fn registration(cx: &PlanContext<'_>, node: &PlannedHost<'_>, own: &OfNode<'_>) -> Result<Value, RecipeError> {
    let mut flags = vec![("node-ip", node.ips(cx.cluster)?)];
    // As a flag it goes before the field of KubeletConfiguration.
    flags.extend(own.resolv_conf.map(|path| ("resolv-conf", path.to_owned())));
    if cx.cluster.external_ca().is_some() {
        // kubeadm overwrites the field of KubeletConfiguration. Nobody would sign what kubelet asks for.
        flags.push(("rotate-certificates", "false".to_owned()));
    }
    let arguments = arguments(cx, node, flags)?;
    let mut registration = json!({
        "name": node.name(),
        "criSocket": runtime::of(cx.cluster).endpoint,
        "imagePullPolicy": "IfNotPresent",
        "kubeletExtraArgs": arguments,
    });
    // A control plane that is a worker too never gets the taint, so CoreDNS can be scheduled at once.
    if node.roles.worker {
        registration["taints"] = json!([]);
    } else if node.roles.control_plane && minors::of(cx, node)? < minors::ONE_TAINT {
        registration["taints"] = json!([own_taint()]);
    }
    Ok(registration)
}

fn own_taint() -> Value {
    json!({"key": TAINT, "effect": "NoSchedule"})
}

/// With the host's taints, so that no pod is scheduled there before they are set. The config of `init` does not have them: a taint that
/// is added later would make it another one, and a running cluster's config does not change.
fn joining(cx: &PlanContext<'_>, node: &PlannedHost<'_>, own: &OfNode<'_>) -> Result<Value, RecipeError> {
    let mut registration = registration(cx, node, own)?;
    if !node.host.taints.is_empty() {
        // A list replaces kubeadm's own taint of control planes.
        let own = (node.roles.control_plane && !node.roles.worker).then(own_taint);
        let theirs = node.host.taints.iter().map(|taint| {
            let mut taint_of_node = json!({"key": taint.key, "effect": taint.effect});
            if !taint.value.is_empty() {
                taint_of_node["value"] = json!(taint.value);
            }
            taint_of_node
        });
        registration["taints"] = own.into_iter().chain(theirs).collect();
    }
    Ok(registration)
}

fn init_configuration(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Value, RecipeError> {
    let mut config = json!({
        "apiVersion": api(cx, node)?,
        "kind": "InitConfiguration",
        "localAPIEndpoint": local_endpoint(node),
        "nodeRegistration": registration(cx, node, &OfNode::default())?,
    });
    if network::replaces_kube_proxy(cx.cluster) {
        config["skipPhases"] = json!([PROXY_PHASE]);
    }
    if selinux::confines(cx.cluster) {
        config["patches"] = json!({"directory": paths::KUBEADM_PATCHES});
    }
    Ok(config)
}

fn cluster_configuration(
    cx: &PlanContext<'_>,
    node: &PlannedHost<'_>,
    ends_watches: bool,
) -> Result<Value, RecipeError> {
    let kubernetes = cx.kubernetes()?;
    let network = &cx.cluster.network;
    let mut config = json!({
        "apiVersion": api(cx, node)?,
        "kind": "ClusterConfiguration",
        "kubernetesVersion": cx.kubernetes_version(node.platform)?,
        "clusterName": kubernetes.cluster_name,
        "controlPlaneEndpoint": endpoint::address(cx),
        "imageRepository": image_repository(cx, node)?,
        "etcd": etcd(cx, node)?,
        "dns": {"imageTag": tag(cx, node, ClusterImage::Coredns)?},
        "networking": {
            "podSubnet": joined(network.pod_cidrs()),
            "serviceSubnet": joined(network.service_cidrs()),
            "dnsDomain": kubernetes.dns_domain,
        },
        "apiServer": api_server(cx, node, ends_watches)?,
    });
    if network::replaces_kube_proxy(cx.cluster) && cx.kubeadm_api(node.platform)? != "v1beta3" {
        // The cluster keeps it: kubeadm wants no image of it then, and does not make it when somebody upgrades by hand. v1beta3 has no such field.
        config["proxy"] = json!({"disabled": true});
    }
    for (key, period) in [
        ("certificateValidityPeriod", kubernetes.certificate_validity),
        ("caCertificateValidityPeriod", kubernetes.ca_certificate_validity),
    ] {
        let Some(period) = period else { continue };
        // As Go writes hours.
        config[key] = json!(format!("{}h0m0s", period.hours()));
    }
    for (component, flags) in
        [("controllerManager", &kubernetes.controller_manager_args), ("scheduler", &kubernetes.scheduler_args)]
    {
        let flags = flags_of(kubernetes, flags);
        if !flags.is_empty() {
            config[component] = json!({"extraArgs": arguments(cx, node, flags)?});
        }
    }
    Ok(config)
}

/// Both families in one text, as kubeadm takes them.
fn joined(networks: impl Iterator<Item = IpNet>) -> String {
    networks.map(|network| network.to_string()).collect::<Vec<_>>().join(",")
}

fn etcd(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Value, RecipeError> {
    Ok(match etcd_client::external(cx)? {
        Some(external) => json!({"external": external}),
        None => json!({"local": stacked_etcd(cx, node)?}),
    })
}

fn stacked_etcd(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Value, RecipeError> {
    let etcd = &cx.cluster.etcd;
    let mut local = json!({"dataDir": etcd.data_dir, "imageTag": tag(cx, node, ClusterImage::Etcd)?});
    let flags: Vec<(&str, String)> = [
        ("max-snapshots", etcd.snapshots.keep.map(|keep| keep.to_string())),
        ("quota-backend-bytes", etcd.quota.map(|bytes| bytes.to_string())),
        ("snapshot-count", etcd.snapshots.count.map(|count| count.to_string())),
    ]
    .into_iter()
    .filter_map(|(flag, value)| Some((flag, value?)))
    .collect();
    if !flags.is_empty() {
        local["extraArgs"] = arguments(cx, node, flags)?;
    }
    Ok(local)
}

/// A component's flags in cluster.yaml, with the feature gates of all components: `featureGates` of ClusterConfiguration are
/// kubeadm's own.
fn flags_of<'a>(kubernetes: &Kubernetes, flags: &'a BTreeMap<String, String>) -> Vec<(&'a str, String)> {
    let gates: Vec<String> = kubernetes.feature_gates.iter().map(|(gate, on)| format!("{gate}={on}")).collect();
    let gates = (!gates.is_empty()).then(|| ("feature-gates", gates.join(",")));
    gates.into_iter().chain(flags.iter().map(|(flag, value)| (flag.as_str(), value.clone()))).collect()
}

fn api_server(cx: &PlanContext<'_>, node: &PlannedHost<'_>, ends_watches: bool) -> Result<Value, RecipeError> {
    let mut config = json!({"certSANs": cert_sans(cx, node)?});
    let kubernetes = cx.kubernetes()?;
    let (mut flags, volumes) = (audit::arguments(cx)?, audit::volumes(cx)?);
    flags.extend(etcd_client::prefix_flag(cx));
    if ends_watches {
        flags.extend(watches_end(cx, node)?);
    }
    flags.extend(flags_of(kubernetes, &kubernetes.api_server_args));
    if !flags.is_empty() {
        config["extraArgs"] = arguments(cx, node, flags)?;
    }
    if !volumes.is_empty() {
        config["extraVolumes"] = volumes.into();
    }
    Ok(config)
}

/// How long the watches of an API server that stops may go on. Without it, it waits for their connections to close, which they do not, until
/// kubelet kills it after 30 s, and answers nobody meanwhile.
pub(crate) const WATCHES_END: &str = "shutdown-watch-termination-grace-period";
/// Its value where cluster.yaml has none.
pub(crate) const WATCHES_END_WITHIN: &str = "5s";

/// A flag of ours, where cluster.yaml does not set it.
fn watches_end(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Option<(&'static str, String)>, RecipeError> {
    let is_known = minors::of(cx, node)? >= minors::WATCHES_END;
    let is_theirs = cx.kubernetes()?.api_server_args.contains_key(WATCHES_END);
    Ok((is_known && !is_theirs).then(|| (WATCHES_END, WATCHES_END_WITHIN.to_owned())))
}

/// `extraArgs` of a component: a list since v1beta4, a map before.
fn arguments(cx: &PlanContext<'_>, node: &PlannedHost<'_>, flags: Vec<(&str, String)>) -> Result<Value, RecipeError> {
    let each = flags.into_iter();
    Ok(match cx.kubeadm_api(node.platform)? {
        "v1beta3" => Value::Object(each.map(|(name, value)| (name.to_owned(), value.into())).collect()),
        _ => each.map(|(name, value)| json!({"name": name, "value": value})).collect(),
    })
}

/// Registry of all images of a kubeadm cluster, as the bundle names them: kubeadm looks for CoreDNS in another place if it is not its own
/// default, which was k8s.gcr.io before 1.24.9.
fn image_repository<'a>(cx: &PlanContext<'a>, node: &PlannedHost<'_>) -> Result<&'a str, RecipeError> {
    let name = cx.image(ClusterImage::KubeApiserver, node.platform)?.name.as_str();
    Ok(name.rsplit_once('/').map_or(name, |(repository, _)| repository))
}

/// The image tag in the bundle, so that kubeadm's built-in default cannot differ from it.
fn tag<'a>(cx: &PlanContext<'a>, node: &PlannedHost<'_>, image: ClusterImage) -> Result<&'a str, RecipeError> {
    let artifact = cx.image(image, node.platform)?;
    Ok(depot::split_reference(&artifact.name).1.unwrap_or(&artifact.version))
}

/// Names and addresses by which clients reach the API (`certSANs`). kubeadm adds a control plane's own name and
/// address to its certificate and the Service's to all. Further control planes are not listed, so that this config of a
/// running cluster stays the same when one is added.
fn cert_sans(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Vec<String>, RecipeError> {
    let mut sans = vec![cx.control_plane_name(), "localhost".to_owned(), "127.0.0.1".to_owned()];
    if let Some(vip) = cx.cluster.load_balancer.mode.vip() {
        sans.push(vip.to_string());
    }
    sans.extend([node.name().to_owned(), node.ip.to_string(), node.host.address.clone()]);
    sans.extend(cx.kubernetes()?.cert_sans.iter().cloned());
    let mut unique: Vec<String> = Vec::new();
    for san in sans {
        if !unique.contains(&san) {
            unique.push(san);
        }
    }
    Ok(unique)
}

fn kubelet(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Value, RecipeError> {
    let kubernetes = cx.kubernetes()?;
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": runtime::cgroup_driver(cx)?,
        "maxPods": kubernetes.max_pods,
        "clusterDNS": [cx.service_address(10)?.to_string()],
        "clusterDomain": kubernetes.dns_domain,
        "resolvConf": dns::kubelet_resolv_conf(cx.cluster, node),
    });
    gate(&mut config, kubernetes);
    yaml::merge(&mut config, &kubernetes.kubelet);
    Ok(config)
}

/// The feature gates of kubelet and kube-proxy are a field of their configuration.
fn gate(config: &mut Value, kubernetes: &Kubernetes) {
    if !kubernetes.feature_gates.is_empty() {
        config["featureGates"] = json!(kubernetes.feature_gates);
    }
}

fn kube_proxy(cx: &PlanContext<'_>) -> Result<Value, RecipeError> {
    let kubernetes = cx.kubernetes()?;
    let mode = match kubernetes.proxy_mode {
        ProxyMode::Iptables => "iptables",
        ProxyMode::Nftables => "nftables",
        ProxyMode::Ipvs => "ipvs",
    };
    let mut config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": mode,
    });
    gate(&mut config, kubernetes);
    yaml::merge(&mut config, &kubernetes.kube_proxy);
    Ok(config)
}
