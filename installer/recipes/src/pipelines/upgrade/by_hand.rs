//! Which adopted clusters are upgraded by hand: where something that decides is another one than kubexm-install looks for, or is not known.

use kubexm_plan::ClusterFacts;
use kubexm_plan::cluster_facts::{
    ETCD_FILES, EtcdAccess, KUBE_PROXY, KUBEADM_CONFIG, KubeletFacts, PROGRAMS, ProgramFacts,
};
use kubexm_plan::kubeadm_certificates::PKI;
use kubexm_plan::runtime;
use kubexm_spec::cluster::{EtcdKind, ExternalEtcd, RegistryKind};
use kubexm_spec::{ClusterImage, KubernetesVersion, depot, one_line};

use crate::adoption;
use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;
use crate::modules::images;
use crate::network;
use crate::paths;
use crate::phases::ClusterHosts;
use crate::runtime::as_found;

/// What to do instead.
const BY_HAND: &str =
    "mend that, or upgrade it with kubeadm as \"Upgrading kubeadm clusters\" of Kubernetes' documentation says";

type Rule = fn(&PlanContext<'_>, &ClusterHosts<'_>, &ClusterFacts, &mut Vec<String>);

const RULES: [Rule; 9] =
    [stamps, runtimes, versions, registry, etcd, kube_proxy, image_names, programs_of_kubernetes, cgroups];

/// Refuses a cluster that is upgraded by hand, with every reason.
///
/// # Errors
/// A rule has something against it.
pub(super) fn refuse(cx: &PlanContext<'_>, site: &ClusterHosts<'_>, running: &ClusterFacts) -> Result<(), RecipeError> {
    let mut problems = Vec::new();
    for rule in RULES {
        rule(cx, site, running, &mut problems);
    }
    match problems.is_empty() {
        true => Ok(()),
        false => {
            let cluster = cx.cluster.name.clone();
            Err(RecipeError::ByHand { cluster, what: "upgrade it", problems, by_hand: BY_HAND })
        }
    }
}

/// What a host says of its programs.
pub(super) fn program<'f>(running: &'f ClusterFacts, host: &str, name: &str) -> Option<&'f ProgramFacts> {
    kubelet(running, host)?.programs.iter().find(|program| program.name == name)
}

fn kubelet<'f>(running: &'f ClusterFacts, host: &str) -> Option<&'f KubeletFacts> {
    running.kubelets.iter().find(|one| one.host == host)
}

/// A host does nothing of the plan before it has the id of the cluster.
fn stamps(_: &PlanContext<'_>, site: &ClusterHosts<'_>, _: &ClusterFacts, problems: &mut Vec<String>) {
    let id = site.first.facts.stamp.as_ref().and_then(|stamp| stamp.id);
    for node in site.members() {
        let stamp = node.facts.stamp.as_ref().filter(|stamp| stamp.adopted);
        if stamp.is_none_or(|stamp| stamp.id.is_none() || stamp.id != id) {
            problems
                .push(format!("{} is not adopted: run `kubexm-install adopt` again, which does the rest", node.name()));
        }
    }
}

fn runtimes(cx: &PlanContext<'_>, site: &ClusterHosts<'_>, running: &ClusterFacts, problems: &mut Vec<String>) {
    let kind = cx.cluster.runtime.kind;
    let possible = runtime::LOADED_AS_FOUND.map(|traits| traits.kind);
    if !possible.contains(&kind) {
        let possible = possible.map(|kind| kind.to_string()).join(", ");
        problems.push(format!("the container runtime is {kind}, and images are loaded into {possible} only"));
        return;
    }
    let wanted = runtime::of(kind).endpoint;
    for node in site.members() {
        let name = node.name();
        // kubeadm finds runtimes below /var/run, which is a link to /run.
        let found = kubelet(running, name).and_then(|kubelet| kubelet.runtime.as_ref());
        match found.map(|found| found.replacen("unix:///var/run/", "unix:///run/", 1)) {
            Some(found) if found == wanted => {}
            Some(found) => problems.push(format!(
                "{name}: kubelet's runtime is at {}, and images are loaded at {wanted} only",
                one_line(&found)
            )),
            None => problems.push(format!("{name}: no file of kubelet's names the endpoint of its runtime")),
        }
    }
}

/// The runtime stays as it is. One with which the new kubelet does not start would be found out behind `kubeadm upgrade apply`.
fn versions(cx: &PlanContext<'_>, site: &ClusterHosts<'_>, running: &ClusterFacts, problems: &mut Vec<String>) {
    let nodes = site.members().into_iter().map(|node| node.host.name.as_str());
    problems.extend(as_found::too_old(cx, site.first.platform, nodes, running));
}

/// Whatever else cluster.yaml names, these nodes do not pull from it.
fn registry(cx: &PlanContext<'_>, _: &ClusterHosts<'_>, _: &ClusterFacts, problems: &mut Vec<String>) {
    let kind = cx.cluster.registry.kind;
    if kind != RegistryKind::None {
        problems.push(format!(
            "spec.registry.type is {kind}, and an adopted cluster has no registry of kubexm-install's: every node gets the images from the \
             bundle. Write `registry: {{type: none}}` in spec of cluster.yaml, and build the bundle again"
        ));
    }
}

fn etcd(cx: &PlanContext<'_>, site: &ClusterHosts<'_>, running: &ClusterFacts, problems: &mut Vec<String>) {
    let kubeadm = running.kubeadm.as_ref();
    let external = cx.cluster.etcd.external.as_ref().filter(|_| cx.cluster.etcd.kind == EtcdKind::External);
    match (external, kubeadm.and_then(|kubeadm| kubeadm.external_etcd.as_ref())) {
        (Some(external), Some(recorded)) => external_etcd(site, running, (external, recorded), problems),
        (None, None)
            if cx.cluster.etcd.kind == EtcdKind::Kubeadm && kubeadm.is_some_and(|one| one.etcd_data.is_some()) => {}
        _ => {
            let gap = running.gaps.iter().find(|gap| gap.what == KUBEADM_CONFIG);
            let why = gap.map(|gap| format!(": {}: {}", gap.host, one_line(&gap.why))).unwrap_or_default();
            problems.push(format!(
                "etcd is not known to be {}, as spec.etcd.type of cluster.yaml says (the ConfigMap kubeadm-config in kube-system{why}): \
                 `kubexm-install adopt --dry-run` says what to write",
                if external.is_some() { "outside of kubeadm's control" } else { "kubeadm's, on the control planes" }
            ));
        }
    }
    problems.extend(adoption::other_etcd(cx.cluster, running).iter().map(|line| one_line(line)));
    let unknown = running.gaps.iter().filter(|gap| gap.what == ETCD_FILES);
    problems.extend(unknown.map(|gap| format!("{}: {}: {}", gap.host, gap.what, one_line(&gap.why))));
    for node in site.members().iter().filter(|node| node.roles.control_plane) {
        let folder = kubelet(running, node.name()).and_then(|kubelet| kubelet.certificates.as_deref());
        if folder != Some(PKI) {
            let found =
                folder.map_or_else(|| "in an unknown folder".to_owned(), |folder| format!("in {}", one_line(folder)));
            problems.push(format!("{}: the certificates are {found}, and are looked for in {PKI} only", node.name()));
        }
    }
}

/// Whether kubeadm is to leave kube-proxy out goes by what runs: a kube-proxy that it makes beside a network that does its work leaves rules in the
/// kernel of every node.
fn kube_proxy(cx: &PlanContext<'_>, _: &ClusterHosts<'_>, running: &ClusterFacts, problems: &mut Vec<String>) {
    if network::replaces_kube_proxy(cx.cluster) {
        problems.push(
            "spec.network.options has kubeProxyReplacement: leave it out and build the bundle anew, with kube-proxy's image, for which kubeadm asks; \
             whether an adopted cluster has a kube-proxy is seen in the cluster"
                .to_owned(),
        );
    }
    let gap = running.gaps.iter().find(|gap| gap.what == KUBE_PROXY).filter(|_| running.kube_proxy.is_none());
    problems.extend(gap.map(|gap| {
        format!(
            "{}: whether the cluster has a kube-proxy is not known ({}): run the command again",
            gap.host,
            one_line(&gap.why)
        )
    }));
}

/// kubeadm writes what it has recorded into the manifest of every API server.
fn external_etcd(
    site: &ClusterHosts<'_>,
    running: &ClusterFacts,
    (external, recorded): (&ExternalEtcd, &EtcdAccess),
    problems: &mut Vec<String>,
) {
    let joined = |all: &[String]| one_line(&all.join(", "));
    if !adoption::same_endpoints(&recorded.endpoints, &external.endpoints) {
        problems.push(format!(
            "kubeadm has recorded etcd at {}, and spec.etcd.externalConfig.endpoints of cluster.yaml has {}: make them the same",
            joined(&recorded.endpoints),
            joined(&external.endpoints)
        ));
    }
    for node in site.members().iter().filter(|node| node.roles.control_plane) {
        let name = node.name();
        let Some(found) = adoption::kubelet_etcd(running, name) else {
            problems.push(format!("{name}: the manifest of its API server does not say which etcd it uses"));
            continue;
        };
        if !adoption::same_endpoints(&found.access.endpoints, &recorded.endpoints) {
            problems.push(format!(
                "{name}: its API server uses etcd at {}, and kubeadm would write {} into its manifest: correct `etcd.external` in \
                 ClusterConfiguration of the ConfigMap kubeadm-config in kube-system",
                joined(&found.access.endpoints),
                joined(&recorded.endpoints)
            ));
        }
        if !found.lacks.is_empty() {
            problems.push(format!(
                "{name}: kubeadm would write {} into the manifest of its API server, and the host does not have that: put a copy of the \
                 file there, or correct `etcd.external` in ClusterConfiguration of the ConfigMap kubeadm-config in kube-system",
                joined(&found.lacks)
            ));
        }
    }
}

/// kubeadm must ask for just the images that are loaded.
fn image_names(cx: &PlanContext<'_>, site: &ClusterHosts<'_>, running: &ClusterFacts, problems: &mut Vec<String>) {
    let Some(kubeadm) = &running.kubeadm else { return };
    let repository = kubeadm.image_repository.trim_end_matches('/');
    let loaded = images::of_kubeadm(cx, &site.first).unwrap_or_default();
    let other = loaded.iter().find(|(_, artifact)| !is_named(&artifact.name, repository));
    if let Some((_, artifact)) = other {
        problems.push(format!(
            "kubeadm takes its images from {}, and the bundle's are named as upstream ({}): set `imageRepository: registry.k8s.io` in \
             ClusterConfiguration of the ConfigMap kubeadm-config in kube-system",
            one_line(repository),
            artifact.name
        ));
    }
    for (path, found) in &kubeadm.own_images {
        let image = if path.starts_with("etcd.") { ClusterImage::Etcd } else { ClusterImage::Coredns };
        let wanted = cx.image(image, site.first.platform).ok().map(|artifact| depot::split_reference(&artifact.name));
        let same = wanted.is_some_and(|(name, tag)| match path.ends_with(".imageTag") {
            true => tag == Some(found.as_str()),
            false => name.rsplit_once('/').is_some_and(|(folder, _)| folder == found.trim_end_matches('/')),
        });
        if !same {
            problems.push(format!(
                "{} is {} in the cluster, which kubeadm keeps, and not what the bundle has: remove it from ClusterConfiguration of the ConfigMap \
                 kubeadm-config in kube-system, so that kubeadm takes its own",
                one_line(path),
                one_line(found)
            ));
        }
    }
}

/// CoreDNS is below a folder of its own at upstream's registry alone (kubeadm, `images.GetDNSImage`).
fn is_named(image: &str, repository: &str) -> bool {
    image.strip_prefix(repository).and_then(|rest| rest.strip_prefix('/')).is_some_and(|rest| {
        match rest.split_once('/') {
            None => !rest.is_empty(),
            Some((folder, _)) => folder == "coredns" && repository == "registry.k8s.io",
        }
    })
}

/// A package manager puts its own back, whatever was put in their place.
fn programs_of_kubernetes(
    _: &PlanContext<'_>,
    site: &ClusterHosts<'_>,
    running: &ClusterFacts,
    problems: &mut Vec<String>,
) {
    for node in site.members() {
        let (name, gap) =
            (node.name(), running.gaps.iter().find(|gap| gap.host == node.name() && gap.what == PROGRAMS));
        if let Some(gap) = gap {
            problems.push(format!("{name}: where kubelet and kubeadm are is not known: {}", one_line(&gap.why)));
            continue;
        }
        if program(running, name, "kubelet").is_none() {
            problems.push(format!("{name}: kubelet.service does not say which program it starts"));
        }
        for found in ["kubelet", "kubeadm"].iter().filter_map(|one| program(running, name, one)) {
            problems.extend(elsewhere(node, found));
        }
    }
}

fn elsewhere(node: PlannedHost<'_>, found: &ProgramFacts) -> Option<String> {
    let (host, name, path, wanted) = (node.name(), &found.name, one_line(&found.path), paths::bin(&found.name));
    match &found.package {
        Some(package) => Some(format!(
            "{host}: {name} is {path}, of the package {}, which would come back: upgrade with packages, or remove that package and put \
             upstream's program at {wanted}{}",
            one_line(package),
            if name == "kubelet" { ", where kubelet.service starts it" } else { "" }
        )),
        None if found.path != wanted => Some(format!(
            "{host}: {name} is {path}, and is replaced at {wanted} only: put it there{}",
            if name == "kubelet" { ", and let kubelet.service start it there" } else { "" }
        )),
        None => None,
    }
}

/// kubelet of 1.35 does not start on such a host, unless its configuration allows it. That of an adopted cluster is not looked at.
const WITHOUT_CGROUP_V1: u32 = 35;

fn cgroups(cx: &PlanContext<'_>, site: &ClusterHosts<'_>, running: &ClusterFacts, problems: &mut Vec<String>) {
    let minor = |version: &str| version.parse::<KubernetesVersion>().ok().map(|version| version.minor());
    let target = cx.kubernetes_version(site.first.platform).ok().and_then(|version| minor(&version));
    let has_it = |name: &str| {
        let node = running.nodes.iter().find(|node| node.name == name);
        node.and_then(|node| minor(&node.kubelet)).is_some_and(|minor| minor >= WITHOUT_CGROUP_V1)
    };
    for node in site.members().iter().filter(|node| node.facts.cgroup_version == 1 && !has_it(node.name())) {
        if target.is_some_and(|target| target >= WITHOUT_CGROUP_V1) {
            problems.push(format!(
                "{}: it has cgroup v1, with which kubelet 1.{WITHOUT_CGROUP_V1} starts only if its configuration says so: boot it with cgroup v2 \
                 (`systemd.unified_cgroup_hierarchy=1`)",
                node.name()
            ));
        }
    }
}
