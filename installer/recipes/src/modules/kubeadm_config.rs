//! kubeadm's config (`kubeadm.k8s.io/v1beta4`): every image tag, address and name written out, so that kubeadm asks
//! nobody and falls back to no constant of its own.

use kubexm_spec::cluster::ProxyMode;
use kubexm_spec::{ClusterImage, depot};
use serde_json::{Value, json};

use crate::context::{Node, PlanCx};
use crate::error::RecipeError;
use crate::modules::{containerd, dns};
use crate::{paths, yaml};

const API: &str = "kubeadm.k8s.io/v1beta4";
/// Where every image of a kubeadm cluster is named (`imageRepository`).
const IMAGE_REPOSITORY: &str = "registry.k8s.io";

/// The config of `kubeadm init` on this node.
pub fn init(cx: &PlanCx<'_>, node: &Node<'_>) -> Result<String, RecipeError> {
    let documents = [init_configuration(node), cluster_configuration(cx, node)?, kubelet(cx, node)?, kube_proxy(cx)?];
    yaml::documents("kubeadm config", &documents)
}

fn init_configuration(node: &Node<'_>) -> Value {
    // A control plane that is a worker too has no taint from the start: DNS can be scheduled at once.
    let taints = (node.control_plane && node.worker).then(|| json!([]));
    let mut registration = json!({
        "name": node.name(),
        "criSocket": paths::CRI_SOCKET,
        "imagePullPolicy": "IfNotPresent",
        "kubeletExtraArgs": [{"name": "node-ip", "value": node.ip.to_string()}],
    });
    if let (Value::Object(registration), Some(taints)) = (&mut registration, taints) {
        registration.insert("taints".to_owned(), taints);
    }
    json!({
        "apiVersion": API,
        "kind": "InitConfiguration",
        "localAPIEndpoint": {"advertiseAddress": node.ip.to_string(), "bindPort": 6443},
        "nodeRegistration": registration,
    })
}

fn cluster_configuration(cx: &PlanCx<'_>, node: &Node<'_>) -> Result<Value, RecipeError> {
    let kubernetes = cx.kubernetes()?;
    let network = &cx.cluster.network;
    Ok(json!({
        "apiVersion": API,
        "kind": "ClusterConfiguration",
        "kubernetesVersion": cx.kubernetes_version(node.platform)?,
        "clusterName": kubernetes.cluster_name,
        "controlPlaneEndpoint": format!("{}:6443", cx.control_plane_name()),
        "imageRepository": IMAGE_REPOSITORY,
        "etcd": {"local": {"dataDir": "/var/lib/etcd", "imageTag": tag(cx, node, ClusterImage::Etcd)?}},
        "dns": {"imageTag": tag(cx, node, ClusterImage::Coredns)?},
        "networking": {
            "podSubnet": network.pod_cidr,
            "serviceSubnet": network.service_cidr,
            "dnsDomain": kubernetes.dns_domain,
        },
        "apiServer": {"certSANs": cert_sans(cx)?},
    }))
}

/// The tag that the bundle has, so that kubeadm's constants cannot disagree with it.
fn tag<'a>(cx: &PlanCx<'a>, node: &Node<'_>, image: ClusterImage) -> Result<&'a str, RecipeError> {
    let artifact = cx.image(image, node.platform)?;
    Ok(depot::split_reference(&artifact.name).1.unwrap_or(&artifact.version))
}

/// All names and addresses that somebody may reach the API by: kubeadm adds the node's own and the service's.
fn cert_sans(cx: &PlanCx<'_>) -> Result<Vec<String>, RecipeError> {
    let mut sans = vec![cx.control_plane_name(), "localhost".to_owned(), "127.0.0.1".to_owned()];
    for node in cx.nodes()?.iter().filter(|n| n.control_plane) {
        sans.extend([node.name().to_owned(), node.ip.to_string(), node.host.address.clone()]);
    }
    sans.extend(cx.kubernetes()?.cert_sans.iter().cloned());
    let mut unique: Vec<String> = Vec::new();
    for san in sans {
        if !unique.contains(&san) {
            unique.push(san);
        }
    }
    Ok(unique)
}

fn kubelet(cx: &PlanCx<'_>, node: &Node<'_>) -> Result<Value, RecipeError> {
    let kubernetes = cx.kubernetes()?;
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": containerd::cgroup_driver(cx)?,
        "maxPods": kubernetes.max_pods,
        "clusterDNS": [cx.service_address(10)?.to_string()],
        "clusterDomain": kubernetes.dns_domain,
        "resolvConf": dns::kubelet_resolv_conf(cx.cluster, node),
    });
    yaml::merge(&mut config, &kubernetes.kubelet);
    Ok(config)
}

fn kube_proxy(cx: &PlanCx<'_>) -> Result<Value, RecipeError> {
    let kubernetes = cx.kubernetes()?;
    let mode = match kubernetes.proxy_mode {
        ProxyMode::Iptables => "iptables",
        ProxyMode::Nftables => "nftables",
    };
    let mut config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": mode,
    });
    yaml::merge(&mut config, &kubernetes.kube_proxy);
    Ok(config)
}
