//! The load balancer on the nodes themselves (`spec.loadBalancer.mode: internal`): a proxy as a static pod on every host that is
//! only a worker, in front of all API servers (decision 0055). That on hosts of its own is in [`external`].
//!
//! kubelet and the pods of the host's network ask the control plane's name, which leads to the host's own 127.0.0.1 there and,
//! while the proxy does not run, to the control planes themselves ([`crate::modules::endpoint`]). Control planes have no proxy:
//! their API servers have its port.
//!
//! The configuration is replaced as a whole and read again on SIGHUP; the pod stays, with the connections that it has. It
//! answers on a port of its own with the revision of what it has read, so that a reload is observed and not assumed.

pub mod external;
mod haproxy;
pub mod kube_vip;
mod nginx;
pub mod one_holder;
mod pod;
mod proxy;

use std::net::{IpAddr, SocketAddr};

use kubexm_plan::op::{Dir, PodReady, StaticPodStarted};
use kubexm_plan::{Probe, Step, Undo};
use kubexm_spec::cluster::{API_PORT, Cluster, InternalKind, LoadBalancerMode, Roles, RuntimeKind};
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ArtifactKey, Digest};
use minijinja::{Value, context};

pub use proxy::{CA, Proxy, STATUS_PORT};

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::{paths, templates};

/// Where the proxy listens for kubelet and the pods of the host's network, and what it is asked by.
const READY: &str = "https://127.0.0.1:6443/readyz";

/// Programs of the proxies.
pub const PROGRAMS: [&str; 2] = [haproxy::PROXY.program, nginx::PROXY.program];

/// An API server behind the proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackEnd {
    /// Of the node.
    pub name: String,
    /// With its port, `10.0.0.1:6443`.
    pub address: String,
}

impl BackEnd {
    /// The API server of a control plane.
    pub fn of(name: &str, ip: IpAddr) -> Self {
        Self { name: name.to_owned(), address: SocketAddr::from((ip, API_PORT)).to_string() }
    }
}

/// The proxy of a cluster, if it has one on its workers.
pub const fn of(cluster: &Cluster) -> Option<&'static Proxy> {
    match cluster.load_balancer.mode {
        LoadBalancerMode::Internal { kind: InternalKind::Haproxy, .. } => Some(&haproxy::PROXY),
        LoadBalancerMode::Internal { kind: InternalKind::Nginx, .. } => Some(&nginx::PROXY),
        LoadBalancerMode::Internal { kind: InternalKind::KubeVip, .. }
        | LoadBalancerMode::External { .. }
        | LoadBalancerMode::None => None,
    }
}

/// The proxy of a host with these roles.
pub fn on(cluster: &Cluster, roles: Roles) -> Option<&'static Proxy> {
    of(cluster).filter(|_| roles.worker && !roles.control_plane)
}

/// The image of the proxy, or of kube-vip, that a node needs: by the name of its feature.
pub fn images<'a>(
    cx: &PlanContext<'a>,
    node: &PlannedHost<'_>,
) -> Result<Option<(&'static str, &'a Artifact)>, RecipeError> {
    match on(cx.cluster, node.roles) {
        Some(proxy) => Ok(Some((proxy.program, image(cx, node, proxy)?))),
        None => Ok(kube_vip::image(cx, node)?.map(|image| ("kube-vip", image))),
    }
}

/// Its image in the bundle.
fn image<'a>(cx: &PlanContext<'a>, node: &PlannedHost<'_>, proxy: &Proxy) -> Result<&'a Artifact, RecipeError> {
    cx.artifact(&ArtifactKey::FeatureImage(proxy.program.to_owned()), node.platform)
}

/// All control planes of cluster.yaml.
fn back_ends(cluster: &Cluster, nodes: &[PlannedHost<'_>]) -> Vec<BackEnd> {
    let planes = cluster.role_groups.control_plane.iter();
    let planes = planes.filter_map(|name| nodes.iter().find(|node| node.name() == name));
    planes.map(|plane| BackEnd::of(plane.name(), plane.ip)).collect()
}

/// For a template.
fn values(back_ends: &[BackEnd]) -> Vec<Value> {
    back_ends.iter().map(|one| context! { name => one.name.as_str(), address => one.address.as_str() }).collect()
}

/// The configuration, with a revision of everything that is in it.
pub fn config(proxy: &Proxy, back_ends: &[BackEnd]) -> Result<String, RecipeError> {
    let servers = values(back_ends);
    let render = |revision: &str| {
        templates::render(
            proxy.template,
            context! { back_ends => servers.clone(), revision, port => API_PORT, status_port => STATUS_PORT },
        )
    };
    let revision = Digest::of(render("")?).hex()[..16].to_owned();
    render(&revision)
}

/// The proxy's container runs with the configuration as it is on disk.
pub fn loaded(proxy: &Proxy, runtime: RuntimeKind) -> StaticPodStarted {
    StaticPodStarted {
        pod: proxy.pod.to_owned(),
        after: Vec::new(),
        reloaded: vec![proxy.config.to_owned()],
        runtime,
        ready: PodReady::Serves { port: STATUS_PORT },
    }
}

/// An API server answers through the proxy.
pub fn answers() -> Probe {
    Probe::ApiReady { url: READY.to_owned(), ca: CA.to_owned() }
}

/// The proxy of a worker that has joined; none on other hosts. With all control planes of cluster.yaml as back-ends: one that does
/// not answer gets no connection.
pub fn step(
    draft: &mut Draft<'_>,
    nodes: &[PlannedHost<'_>],
    node: &PlannedHost<'_>,
) -> Result<Option<Step>, RecipeError> {
    let cx = draft.cx;
    let Some(proxy) = on(cx.cluster, node.roles) else { return Ok(None) };
    let config = draft.file(proxy.config, 0o644, config(proxy, &back_ends(cx.cluster, nodes))?);
    let pod = pod::manifest(proxy, &image(cx, node, proxy)?.name)?;
    let pod = draft.file(paths::static_pod(proxy.pod), 0o600, pod);
    let title = format!("Run {} on this node, before all API servers", proxy.program);
    let step = Step::on(node.name(), "balancer.run", &title)
        .ensure(Dir { path: proxy.folder.to_owned(), mode: 0o755 })
        .ensure(config)
        // kubeadm makes it on control planes, with this mode.
        .ensure(Dir { path: paths::STATIC_PODS.to_owned(), mode: 0o700 })
        .ensure(pod)
        .ensure(loaded(proxy, cx.cluster.runtime.kind))
        .probe(answers(), 90)
        .timeout_s(320)
        .undo(Undo::RestoreBefore)
        .build();
    Ok(Some(draft.depends_on_all(step)))
}
