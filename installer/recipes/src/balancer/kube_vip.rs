//! kube-vip on every control plane, as a static pod: the leader of a lease has the address, and announces it by ARP.
//!
//! The one of the first control plane must run before kubeadm's init ends, which asks the API server by that address. Until
//! then admin.conf may do nothing (Kubernetes 1.29 and later): it is given super-admin.conf first, and admin.conf right after. In the
//! container both have the path of admin.conf, which kube-vip looks for.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use kubexm_plan::kubeadm_certificates::{KUBE_VIP, ready_after};
use kubexm_plan::op::{Dir, Link, Op, StateDir, StaticPodStarted};
use kubexm_plan::{Probe, Step, Undo};
use kubexm_spec::ArtifactKey;
use kubexm_spec::cluster::{API_PORT, Cluster, InternalKind, LoadBalancerMode};
use kubexm_spec::manifest::Artifact;
use serde_json::{Value, json};

use super::proxy::CA;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::{minors, paths, yaml};

/// Its pod, the pod's container, the manifest, and the feature of the catalogue with its image.
const NAME: &str = KUBE_VIP.0;
/// kubeadm's check that nobody has put a manifest there before it.
const DIRECTORY_CHECK: &str = "DirAvailable--etc-kubernetes-manifests";
const KUBERNETES: &str = "/etc/kubernetes";
const ADMIN: &str = KUBE_VIP.1[0];
const SUPER_ADMIN: &str = "/etc/kubernetes/super-admin.conf";
/// What the pod is given in place of admin.conf: a link, so that its manifest is the same before init and after.
const CREDENTIALS: &str = "/etc/kubexm/kube-vip.conf";

/// The address of a cluster with kube-vip.
pub(super) fn address(cluster: &Cluster) -> Option<IpAddr> {
    match cluster.load_balancer.mode {
        LoadBalancerMode::Internal { kind: InternalKind::KubeVip, vip, .. } => vip,
        LoadBalancerMode::Internal { .. } | LoadBalancerMode::External { .. } | LoadBalancerMode::None => None,
    }
}

/// Whether a cluster has it.
pub fn runs(cluster: &Cluster) -> bool {
    address(cluster).is_some()
}

/// Its image in the bundle, for a control plane.
pub fn image<'a>(cx: &PlanContext<'a>, node: &PlannedHost<'_>) -> Result<Option<&'a Artifact>, RecipeError> {
    if !node.roles.control_plane || address(cx.cluster).is_none() {
        return Ok(None);
    }
    cx.artifact(&ArtifactKey::FeatureImage(NAME.to_owned()), node.platform).map(Some)
}

/// kubeadm's checks that its init does not pass with it.
pub fn ignored(cluster: &Cluster) -> Option<String> {
    address(cluster).map(|_| DIRECTORY_CHECK.to_owned())
}

/// On the first control plane, before its init; none when that was done already.
pub fn before_init(draft: &mut Draft<'_>, first: &PlannedHost<'_>) -> Result<Option<Step>, RecipeError> {
    if first.facts.joined {
        return Ok(None);
    }
    let kubeconfig = if minors::of(draft.cx, first)? < minors::SUPER_ADMIN { ADMIN } else { SUPER_ADMIN };
    let Some(files) = files(draft, first, kubeconfig, &[ADMIN])? else { return Ok(None) };
    let folders = [(KUBERNETES, 0o755), (paths::STATIC_PODS, 0o700)];
    let step = Step::on(first.name(), "balancer.before-init", "Prepare kube-vip for kubeadm's init")
        // It goes as a whole where it was not there before. By the record of the init alone, which finds the manifest in it, a reset
        // would keep both folders, each with what was moved aside in it.
        .ensure(StateDir::at(KUBERNETES))
        .ensure_all(folders.map(|(path, mode)| Dir { path: path.to_owned(), mode }))
        .ensure_all(files);
    Ok(Some(step.undo(Undo::RestoreBefore).build()))
}

/// On a control plane that has been made. kubelet replaces the pod by itself when its manifest has changed, and not when what it reads
/// has: that is a step of its own, after the first.
pub fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Vec<Step>, RecipeError> {
    let (Some(files), Some(vip)) = (files(draft, node, ADMIN, &[])?, address(draft.cx.cluster)) else {
        return Ok(Vec::new());
    };
    let url = format!("https://{}/readyz", SocketAddr::from((vip, API_PORT)));
    let probe = || Probe::ApiReady { url: url.clone(), ca: CA.to_owned() };
    let runs = Step::on(node.name(), "balancer.run", "Run kube-vip on this control plane").ensure_all(files);
    let started = StaticPodStarted {
        pod: NAME.to_owned(),
        after: [CREDENTIALS].iter().chain(KUBE_VIP.1).map(|path| (*path).to_owned()).collect(),
        reloaded: Vec::new(),
        runtime: draft.cx.cluster.runtime.kind,
        ready: ready_after(NAME, false),
    };
    let reads = Step::on(node.name(), "balancer.rights", "Have kube-vip ask with the administrator's certificate")
        .ensure(started);
    Ok(vec![
        runs.probe(probe(), 90).undo(Undo::RestoreBefore).build(),
        // A container that does not end within its grace, and the address of a lost holder, which waits for its lease.
        reads.probe(probe(), 90).timeout_s(400).undo(Undo::RestoreBefore).build(),
    ])
}

/// What it asks with, and the manifest; none where there is no kube-vip. What it asks with after the init is `accepted` before it: a plan
/// that is executed again would take its rights away, and give them back. Folders are kubeadm's, once it has made a control plane.
fn files(
    draft: &mut Draft<'_>,
    node: &PlannedHost<'_>,
    kubeconfig: &str,
    accepted: &[&str],
) -> Result<Option<[Op; 2]>, RecipeError> {
    let Some(image) = image(draft.cx, node)? else { return Ok(None) };
    let text = manifest(draft.cx.cluster, node, &image.name)?;
    let link = Link {
        path: CREDENTIALS.to_owned(),
        target: kubeconfig.to_owned(),
        accepted: accepted.iter().map(|target| (*target).to_owned()).collect(),
    };
    Ok(Some([link.into(), draft.file(paths::static_pod(NAME), 0o600, text).into()]))
}

/// As `kube-vip manifest pod --controlplane --arp --leaderElection` prints it (kube-vip's `config_generator.go`), with the host's own
/// API server in place of an alias in the pod's /etc/hosts.
fn manifest(cluster: &Cluster, node: &PlannedHost<'_>, image: &str) -> Result<String, RecipeError> {
    let LoadBalancerMode::Internal { vip: Some(vip), interface, .. } = &cluster.load_balancer.mode else {
        return Ok(String::new());
    };
    let interface = match interface {
        Some(interface) => interface.as_str(),
        None => node.interface()?,
    };
    let subnet = if vip.is_ipv6() { "128" } else { "32" };
    let port = API_PORT.to_string();
    let api = SocketAddr::from((Ipv4Addr::LOCALHOST, API_PORT)).to_string();
    let vip = vip.to_string();
    let values: [(&str, &str); 15] = [
        ("vip_arp", "true"),
        ("port", &port),
        ("vip_interface", interface),
        ("vip_subnet", subnet),
        ("dns_mode", "first"),
        ("cp_enable", "true"),
        ("cp_namespace", "kube-system"),
        ("vip_leaderelection", "true"),
        ("vip_leasename", "plndr-cp-lock"),
        ("vip_leaseduration", "5"),
        ("vip_renewdeadline", "3"),
        ("vip_retryperiod", "1"),
        ("address", &vip),
        ("kubernetes_addr", &api),
        // On its own host alone.
        ("prometheus_server", "127.0.0.1:2112"),
    ];
    let mut environment: Vec<Value> =
        values.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    let own_name = json!({"name": "vip_nodename", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}});
    environment.push(own_name);
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": NAME,
            "namespace": "kube-system",
            "labels": {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "kubexm"},
        },
        "spec": {
            "hostNetwork": true,
            "priorityClassName": "system-node-critical",
            "containers": [{
                "name": NAME,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "args": ["manager"],
                "env": environment,
                "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"]}},
                "volumeMounts": [{"name": "kubeconfig", "mountPath": ADMIN, "readOnly": true}],
            }],
            "volumes": [{"name": "kubeconfig", "hostPath": {"path": CREDENTIALS, "type": "File"}}],
        },
    });
    yaml::documents("static pod", &[pod])
}
