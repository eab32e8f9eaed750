//! Choosing versions: what the user names, else what an overlay prefers, else what the release says.

use kubexm_spec::cluster::{Kubernetes, RegistryKind};
use kubexm_spec::yaml::nearest;
use kubexm_spec::{Cluster, ClusterImage, Program};

use crate::catalogue::Catalogue;
use crate::component::Component;
use crate::error::RequireError;
use crate::image::Feature;
use crate::release::{PatchRange, Release};
use crate::requirements::Versions;
use crate::version;

/// How many near names an error lists.
const NEAR: usize = 4;

/// Every version of a cluster.
pub(crate) fn choose(cluster: &Cluster, asked: &Kubernetes, catalogue: &Catalogue) -> Result<Versions, RequireError> {
    let kubernetes = kubernetes_version(asked.version.as_deref(), catalogue)?;
    let unknown = || unknown_kubernetes(&kubernetes, catalogue);
    let release = catalogue.release(&kubernetes).ok_or_else(unknown)?;
    let patch = version::patch(&kubernetes).ok_or_else(unknown)?;
    let constants = release.constants(patch).ok_or_else(unknown)?;
    let chooser = Chooser { catalogue, release, constants, kubernetes: &kubernetes };
    let containerd = match &cluster.runtime.version {
        Some(asked) => version::bare(asked).to_owned(),
        None => chooser.default(Program::Containerd)?,
    };
    let minimum = &release.support.minimum_containerd;
    if version::compare(&containerd, minimum).is_lt() {
        return Err(RequireError::TooOld { kubernetes, minimum: minimum.clone(), version: containerd });
    }
    let tool = |program: Program| {
        let excluded = cluster.bundle.exclude.iter().any(|name| name == program.name());
        if excluded { Ok(None) } else { chooser.default(program).map(Some) }
    };
    Ok(Versions {
        kubeadm_api: release.kubeadm_api.clone(),
        containerd,
        runc: chooser.default(Program::Runc)?,
        cni_plugins: chooser.default(Program::CniPlugins)?,
        etcd: chooser.default(Program::Etcd)?,
        crictl: tool(Program::Crictl)?,
        helm: tool(Program::Helm)?,
        registry: match cluster.registry.kind {
            RegistryKind::Registry => Some(chooser.default(Program::Registry)?),
            RegistryKind::Embedded | RegistryKind::Harbor | RegistryKind::External | RegistryKind::None => None,
        },
        pause: chooser.image(ClusterImage::Pause)?,
        coredns: chooser.image(ClusterImage::Coredns)?,
        etcd_image: chooser.image(ClusterImage::Etcd)?,
        flannel: chooser.image(ClusterImage::Flannel)?,
        flannel_cni_plugin: chooser.image(ClusterImage::FlannelCniPlugin)?,
        kubernetes,
    })
}

/// The exact version without `v`: as asked, the newest patch of the minor asked for, or the catalogue's default.
fn kubernetes_version(asked: Option<&str>, catalogue: &Catalogue) -> Result<String, RequireError> {
    let preferred = catalogue.component(Program::Kubeadm).and_then(|kubeadm| kubeadm.default.as_deref());
    let wanted = version::bare(asked.or(preferred).unwrap_or(&catalogue.kubernetes));
    if !version::is_version(wanted) {
        return Err(unknown_kubernetes(wanted, catalogue));
    }
    if version::patch(wanted).is_some() {
        return Ok(wanted.to_owned());
    }
    if let Some(preferred) = preferred.filter(|p| version::minor(p) == wanted) {
        return Ok(preferred.to_owned());
    }
    catalogue.newest_patch(wanted).map(str::to_owned).ok_or_else(|| unknown_kubernetes(wanted, catalogue))
}

fn unknown_kubernetes(asked: &str, catalogue: &Catalogue) -> RequireError {
    let known = catalogue.releases.keys().map(String::as_str);
    RequireError::UnknownKubernetes {
        version: asked.to_owned(),
        nearest: nearest(&version::minor(asked), known).into_iter().take(NEAR).map(str::to_owned).collect(),
    }
}

/// Refuses a version of whose minor the catalogue knows nothing.
pub(crate) fn known_version(component: &Component, wanted: &str) -> Result<(), RequireError> {
    if version::is_version(wanted) && component.knows_minor_of(wanted) && version::patch(wanted).is_some() {
        return Ok(());
    }
    let known = component.versions.keys().map(String::as_str);
    Err(RequireError::UnknownVersion {
        component: component.name.clone(),
        version: wanted.to_owned(),
        nearest: nearest(wanted, known).into_iter().take(NEAR).map(str::to_owned).collect(),
    })
}

struct Chooser<'a> {
    catalogue: &'a Catalogue,
    release: &'a Release,
    constants: &'a PatchRange,
    kubernetes: &'a str,
}

impl Chooser<'_> {
    fn gap(&self, what: String) -> RequireError {
        RequireError::Gap { what, kubernetes: self.kubernetes.to_owned() }
    }

    fn default(&self, program: Program) -> Result<String, RequireError> {
        let component =
            self.catalogue.component(program).ok_or_else(|| self.gap(format!("component {}", program.name())))?;
        if let Some(preferred) = &component.default {
            return Ok(preferred.clone());
        }
        if let Some(default) = self.release.defaults.get(program.name()) {
            return Ok(default.clone());
        }
        // etcd's tools are those of the etcd that kubeadm runs: `3.6.5` of `3.6.5-0`
        if program == Program::Etcd
            && let Some((version, _)) = self.constants.etcd.split_once('-')
        {
            return Ok(version.to_owned());
        }
        Err(self.gap(format!("default version of {}", program.name())))
    }

    fn image(&self, image: ClusterImage) -> Result<String, RequireError> {
        self.catalogue
            .images
            .iter()
            .find(|rule| rule.name == image.name())
            .and_then(|rule| rule.tag(self.kubernetes, self.release, self.constants))
            .ok_or_else(|| self.gap(format!("image {}", image.name())))
    }
}

impl Versions {
    /// The version of a program; none when it is an excluded tool, or the cluster has no use for it.
    pub fn of(&self, program: Program) -> Option<&str> {
        match program {
            Program::Kubeadm | Program::Kubelet | Program::Kubectl => Some(&self.kubernetes),
            Program::Containerd => Some(&self.containerd),
            Program::Runc => Some(&self.runc),
            Program::CniPlugins => Some(&self.cni_plugins),
            Program::Etcd => Some(&self.etcd),
            Program::Crictl => self.crictl.as_deref(),
            Program::Helm => self.helm.as_deref(),
            Program::Registry => self.registry.as_deref(),
            Program::KubeApiserver
            | Program::KubeControllerManager
            | Program::KubeScheduler
            | Program::KubeProxy
            | Program::Nerdctl
            | Program::Docker
            | Program::CriDockerd
            | Program::CriO
            | Program::Crun
            | Program::Calicoctl
            | Program::CalicoCrds
            | Program::DockerCompose
            | Program::Harbor => None,
        }
    }

    /// The tag of an image.
    pub fn tag(&self, image: ClusterImage) -> String {
        match image {
            ClusterImage::KubeApiserver
            | ClusterImage::KubeControllerManager
            | ClusterImage::KubeScheduler
            | ClusterImage::KubeProxy => self.kubernetes_tag(),
            ClusterImage::Coredns => self.coredns.clone(),
            ClusterImage::Etcd => self.etcd_image.clone(),
            ClusterImage::Pause => self.pause.clone(),
            ClusterImage::Flannel => self.flannel.clone(),
            ClusterImage::FlannelCniPlugin => self.flannel_cni_plugin.clone(),
        }
    }
}

/// The images of one feature in a set of requirements' versions: full references, sorted.
pub fn references(catalogue: &Catalogue, versions: &Versions, feature: Feature) -> Vec<String> {
    let mut all: Vec<String> = catalogue
        .images
        .iter()
        .filter(|rule| rule.feature == feature)
        .filter_map(|rule| rule.image().map(|image| format!("{}:{}", rule.repository, versions.tag(image))))
        .collect();
    all.sort();
    all
}
