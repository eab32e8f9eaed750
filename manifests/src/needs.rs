//! What needs each program, image and feature of the catalogue, and the field of cluster.yaml that requests it.

use kubexm_spec::cluster::{
    Addon, AddonSource, EtcdKind, InternalKind, Keyword, Kubernetes, KubernetesKind, LoadBalancerMode, NetworkPlugin,
    RegistryKind, RuntimeKind,
};
use kubexm_spec::{Cluster, ClusterImage, Program};

use crate::chart;
use crate::component::NodeRole;

/// That a thing is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// For people.
    pub because: String,
    /// On other nodes than the catalogue says.
    pub role: Option<NodeRole>,
    /// Something else needs it here, though the catalogue calls it a tool: `spec.bundle.exclude` cannot leave it out.
    pub required: bool,
}

/// A feature that a cluster asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    /// Its name in the catalogue.
    pub feature: &'a str,
    /// The name of its chart's key; the feature's own but for add-ons that are called otherwise.
    pub chart: &'a str,
    /// As asked for.
    pub version: Option<&'a str>,
    /// As an add-on: it must be a chart.
    pub addon: bool,
    /// For people.
    pub because: String,
}

fn need(because: impl Into<String>) -> Option<Need> {
    Some(Need { because: because.into(), role: None, required: false })
}

/// Whether a cluster needs a program, and why. (isulad is none: it comes as packages of openEuler, and starts the bundle's runc.)
pub(crate) fn program(program: Program, cluster: &Cluster, asked: &Kubernetes, version: &str) -> Option<Need> {
    let kubernetes = || need(format!("Kubernetes {version}"));
    let own = |runtime: RuntimeKind| (cluster.runtime.kind == runtime).then(|| format!("spec.runtime.type {runtime}"));
    let harbor = cluster.registry.kind == RegistryKind::Harbor;
    let with_harbor = || harbor.then(|| "spec.registry.type harbor".to_owned());
    match program {
        Program::Kubelet | Program::Kubectl | Program::CniPlugins => kubernetes(),
        Program::Kubeadm => (asked.kind == KubernetesKind::Kubeadm).then(kubernetes)?,
        Program::KubeApiserver | Program::KubeControllerManager | Program::KubeScheduler | Program::KubeProxy => {
            (asked.kind == KubernetesKind::Kubexm).then(|| need("spec.kubernetes.type kubexm"))?
        }
        Program::Containerd | Program::Runc if own(RuntimeKind::Containerd).is_some() => kubernetes(),
        Program::Runc => need(own(RuntimeKind::Isulad)?),
        Program::Containerd => None,
        Program::Etcd => match cluster.etcd.kind {
            EtcdKind::Kubeadm => kubernetes(),
            EtcdKind::Kubexm => {
                Some(Need { because: "spec.etcd.type kubexm".to_owned(), role: Some(NodeRole::Etcd), required: false })
            }
            EtcdKind::External => need("backups of an etcd of spec.etcd.type external"),
        },
        Program::Helm => match chart::installed_charts(cluster).as_slice() {
            [] => need(TOOL),
            charts => Some(Need { because: format!("it installs {}", charts.join(", ")), role: None, required: true }),
        },
        // kubexm asks isulad with it
        Program::Crictl => match own(RuntimeKind::Isulad) {
            Some(because) => Some(Need { because, role: None, required: true }),
            None => need(TOOL),
        },
        Program::Registry => {
            (cluster.registry.kind == RegistryKind::Registry).then(|| need("spec.registry.type registry"))?
        }
        Program::Docker => match (own(RuntimeKind::Docker), with_harbor()) {
            (Some(because), _) => need(because),
            (None, Some(because)) => Some(Need { because, role: Some(NodeRole::Registry), required: false }),
            (None, None) => None,
        },
        Program::CriDockerd => need(own(RuntimeKind::Docker)?),
        Program::CriO => need(own(RuntimeKind::CriO)?),
        Program::DockerCompose | Program::Harbor => need(with_harbor()?),
        Program::CalicoManifest => {
            (cluster.network.plugin == NetworkPlugin::Calico).then(|| need("spec.network.plugin calico"))?
        }
        Program::Calicoctl => (cluster.network.plugin == NetworkPlugin::Calico).then(|| need(TOOL))?,
        // CRI-O's archive brings its crun, Calico's manifest its definitions; nerdctl is a tool that nothing asks for
        Program::Nerdctl | Program::Crun | Program::CalicoCrds => None,
    }
}

/// Why a thing that people look for is in no cluster, though the catalogue has it or could: it is no artifact that
/// cluster.yaml brings in by name.
pub fn in_no_cluster(name: &str) -> Option<&'static str> {
    match name {
        "nerdctl" => Some("no cluster needs it: crictl speaks to every runtime"),
        "calico-crds" => Some("no cluster needs it: calico-manifest has the same definitions"),
        "crun" => Some("no cluster needs it: CRI-O's archive brings its own, and containerd runs runc"),
        "isulad" => Some("it comes as packages of the operating system (openEuler), with spec.runtime.type isulad"),
        "keepalived" => Some(
            "it comes as packages of the operating system, with spec.loadBalancer.external.type kubexm-kh or kubexm-kn",
        ),
        _ => None,
    }
}

/// Why a tool is there.
const TOOL: &str = "a tool; spec.bundle.exclude leaves it out";

/// Whether a cluster needs an image of the cluster's own line, and why.
pub(crate) fn image(image: ClusterImage, cluster: &Cluster, asked: &Kubernetes, version: &str) -> Option<String> {
    let kubeadm = asked.kind == KubernetesKind::Kubeadm;
    let run = || if kubeadm { format!("kubeadm {version} runs it") } else { format!("Kubernetes {version}") };
    match image {
        ClusterImage::KubeApiserver | ClusterImage::KubeControllerManager | ClusterImage::KubeScheduler => {
            kubeadm.then(run)
        }
        ClusterImage::KubeProxy => (kubeadm && !cluster.network.replaces_kube_proxy()).then(run),
        ClusterImage::Etcd => (cluster.etcd.kind == EtcdKind::Kubeadm).then(run),
        ClusterImage::Coredns | ClusterImage::Pause => Some(run()),
        ClusterImage::Flannel | ClusterImage::FlannelCniPlugin => {
            (cluster.network.plugin == NetworkPlugin::Flannel).then(|| "spec.network.plugin flannel".to_owned())
        }
    }
}

/// The features that a cluster asks for, each once or, where two fields ask, more often.
pub(crate) fn features<'a>(cluster: &'a Cluster, kubernetes: &Kubernetes) -> Vec<Asked<'a>> {
    let mut all = Vec::new();
    let plugin = match cluster.network.plugin {
        // flannel's two images are named by recipes
        NetworkPlugin::Flannel | NetworkPlugin::None => None,
        plugin => Some(plugin.word()),
    };
    all.extend(plugin.map(|feature| {
        let (version, because) = (cluster.network.version.as_deref(), format!("spec.network.plugin {feature}"));
        Asked { feature, chart: feature, version, addon: false, because }
    }));
    let mut ask = |feature: &'static str, because: String| {
        all.push(Asked { feature, chart: feature, version: None, addon: false, because });
    };
    if cluster.network.multus {
        ask("multus", "spec.network.multus".to_owned());
    }
    if kubernetes.nodelocaldns.is_some() {
        ask("nodelocaldns", "spec.kubernetes.nodelocaldns".to_owned());
    }
    match &cluster.load_balancer.mode {
        // keepalived with haproxy or nginx comes as packages of the distribution
        LoadBalancerMode::None | LoadBalancerMode::External { .. } => (),
        LoadBalancerMode::Internal { kind, .. } => {
            let feature = match kind {
                InternalKind::Haproxy => "haproxy",
                InternalKind::Nginx => "nginx",
                InternalKind::KubeVip => "kube-vip",
            };
            ask(feature, format!("spec.loadBalancer.internal.type {kind}"));
        }
    }
    for provisioner in cluster.storage.provisioners() {
        ask(provisioner.release(), format!("spec.storage.{}", provisioner.key()));
    }
    all.extend(of_addons(&cluster.addons, "spec.addons"));
    all.extend(of_addons(&cluster.bundle.extra_charts, "spec.bundle.extraCharts"));
    all
}

/// Add-ons that the catalogue knows by name.
pub(crate) fn of_addons<'a>(addons: &'a [Addon], field: &'a str) -> impl Iterator<Item = Asked<'a>> {
    addons.iter().filter_map(move |addon| match &addon.source {
        AddonSource::Catalogue { name, version } => Some(Asked {
            feature: name,
            chart: &addon.name,
            version: version.as_deref(),
            addon: true,
            because: format!("{field} {}", addon.name),
        }),
        _ => None,
    })
}
