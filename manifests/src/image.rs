//! Image sets: which images a feature needs, and where their tags come from.

use kubexm_spec::ClusterImage;
use serde::{Deserialize, Serialize};

use crate::component::NodeRole;
use crate::release::{PatchRange, Release};

/// kubeadm's own default.
const REGISTRY: &str = "registry.k8s.io";

/// One image of a feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageRule {
    /// Its name, [`ClusterImage::name`].
    pub name: String,
    /// Who needs it.
    pub feature: Feature,
    /// Registry and repository, without a tag.
    pub repository: String,
    /// Where the tag comes from.
    pub tag: TagRule,
    /// Which nodes run it.
    pub role: NodeRole,
    /// Place in the bundle: lower comes first.
    pub stage: u8,
    /// Under which licence upstream publishes the program that the image is of, as an SPDX identifier; what else lies in
    /// its layers has licences of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
}

/// A feature that brings images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// Every cluster that kubeadm makes: what `kubeadm config images list` prints.
    Kubeadm,
    /// Network plugin flannel.
    Flannel,
}

/// Where the tag of an image comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TagRule {
    /// `v` and the Kubernetes version.
    Kubernetes,
    /// kubeadm's constant for CoreDNS.
    Coredns,
    /// kubeadm's constant for etcd, or the etcd from which the next minor can be reached ([`Release::etcd`]).
    Etcd,
    /// kubeadm's constant for pause.
    Pause,
    /// The release's default of the image's own name.
    Default,
}

impl ImageRule {
    /// The tag for a Kubernetes version (without `v`) of a release; none when the release names no default.
    pub fn tag(&self, kubernetes: &str, release: &Release, constants: &PatchRange) -> Option<String> {
        match self.tag {
            TagRule::Kubernetes => Some(format!("v{kubernetes}")),
            TagRule::Coredns => Some(constants.coredns.clone()),
            TagRule::Etcd => Some(release.etcd(constants).to_owned()),
            TagRule::Pause => Some(constants.pause.clone()),
            TagRule::Default => release.defaults.get(&self.name).cloned(),
        }
    }

    /// Registry and repository, as the kubeadm of a range of patches names them.
    pub fn repository(&self, constants: &PatchRange) -> String {
        let named = constants.registry.as_ref().filter(|_| self.feature == Feature::Kubeadm);
        let below = self.repository.strip_prefix(REGISTRY);
        named.zip(below).map_or_else(|| self.repository.clone(), |(registry, below)| format!("{registry}{below}"))
    }

    /// The key of the image; none when this program knows no such image.
    pub fn image(&self) -> Option<ClusterImage> {
        ClusterImage::ALL.into_iter().find(|image| image.name() == self.name)
    }
}
