//! The closed world: every artifact a recipe can name. A recipe cannot ask for what has no key here,
//! and a key that the bundle does not carry is an error before any host is touched.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A program (or archive of programs) of the catalogue, by its component name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Program {
    /// `kubeadm`.
    Kubeadm,
    /// `kubelet`.
    Kubelet,
    /// `kubectl`.
    Kubectl,
    /// containerd with its shim and `ctr`.
    Containerd,
    /// `runc`.
    Runc,
    /// The reference CNI plugins.
    CniPlugins,
    /// `crictl`, an optional tool.
    Crictl,
    /// `helm`, an optional tool.
    Helm,
    /// etcd's archive, for `etcdctl` and `etcdutl` (restore needs the latter whatever runs etcd).
    Etcd,
    /// The distribution registry, where `spec.registry.type` is `registry`.
    Registry,
    /// `kube-apiserver`, where `spec.kubernetes.type` is `kubexm` (components as systemd services).
    KubeApiserver,
    /// `kube-controller-manager`, likewise.
    KubeControllerManager,
    /// `kube-scheduler`, likewise.
    KubeScheduler,
    /// `kube-proxy`, likewise.
    KubeProxy,
    /// `nerdctl`, an optional tool.
    Nerdctl,
    /// Docker's static build: `dockerd`, `docker` and the containerd it comes with.
    Docker,
    /// `cri-dockerd`: the CRI before Docker.
    CriDockerd,
    /// CRI-O's own archive, with the programs it needs.
    CriO,
    /// `crun`, an OCI runtime that CRI-O prefers.
    Crun,
    /// `calicoctl`, an optional tool of calico.
    Calicoctl,
    /// Calico's custom resource definitions, one file for every architecture. ([`Self::CalicoManifest`] has them, too.)
    CalicoCrds,
    /// Calico's own manifest with typha, one file for every architecture.
    CalicoManifest,
    /// `docker-compose`, which starts Harbor.
    DockerCompose,
    /// Harbor's offline installer.
    Harbor,
}

impl Program {
    /// Every program, in the order of names. (isulad is not among them: it comes as packages of the distribution.)
    pub const ALL: [Self; 24] = [
        Self::CalicoCrds,
        Self::CalicoManifest,
        Self::Calicoctl,
        Self::CniPlugins,
        Self::Containerd,
        Self::CriDockerd,
        Self::CriO,
        Self::Crictl,
        Self::Crun,
        Self::Docker,
        Self::DockerCompose,
        Self::Etcd,
        Self::Harbor,
        Self::Helm,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeProxy,
        Self::KubeScheduler,
        Self::Kubeadm,
        Self::Kubectl,
        Self::Kubelet,
        Self::Nerdctl,
        Self::Registry,
        Self::Runc,
    ];

    /// The component's name in the catalogue.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubeadm => "kubeadm",
            Self::Kubelet => "kubelet",
            Self::Kubectl => "kubectl",
            Self::Containerd => "containerd",
            Self::Runc => "runc",
            Self::CniPlugins => "cni-plugins",
            Self::Crictl => "crictl",
            Self::Helm => "helm",
            Self::Etcd => "etcd",
            Self::Registry => "registry",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::KubeProxy => "kube-proxy",
            Self::Nerdctl => "nerdctl",
            Self::Docker => "docker",
            Self::CriDockerd => "cri-dockerd",
            Self::CriO => "cri-o",
            Self::Crun => "crun",
            Self::Calicoctl => "calicoctl",
            Self::CalicoCrds => "calico-crds",
            Self::CalicoManifest => "calico-manifest",
            Self::DockerCompose => "docker-compose",
            Self::Harbor => "harbor",
        }
    }
}

/// An image of the cluster's own line (images that users add are [`ArtifactKey::ExtraImage`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterImage {
    /// `kube-apiserver`.
    KubeApiserver,
    /// `kube-controller-manager`.
    KubeControllerManager,
    /// `kube-scheduler`.
    KubeScheduler,
    /// `kube-proxy`.
    KubeProxy,
    /// `coredns`.
    Coredns,
    /// `etcd`, when kubeadm runs it as a static pod.
    Etcd,
    /// `pause`, the sandbox image.
    Pause,
    /// flannel's daemon.
    Flannel,
    /// flannel's CNI plugin, an image of its own upstream.
    FlannelCniPlugin,
}

impl ClusterImage {
    /// Every image of the cluster's own line.
    pub const ALL: [Self; 9] = [
        Self::Coredns,
        Self::Etcd,
        Self::Flannel,
        Self::FlannelCniPlugin,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeProxy,
        Self::KubeScheduler,
        Self::Pause,
    ];

    /// Its name in the catalogue's image sets.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::KubeProxy => "kube-proxy",
            Self::Coredns => "coredns",
            Self::Etcd => "etcd",
            Self::Pause => "pause",
            Self::Flannel => "flannel",
            Self::FlannelCniPlugin => "flannel-cni-plugin",
        }
    }
}

/// The name of one artifact, the same in requirements, lock, manifest and plan.
/// Text form: `binary/kubeadm`, `image/pause`, `installer/kubexm-install`, `file/NAME`, `extra-image/REFERENCE`,
/// `feature-image/NAME`, `chart/NAME`, `yaml/NAME`, `chart-image/REFERENCE`, `package/OS/NAME`, `material/PATH`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArtifactKey {
    /// A program of the catalogue.
    Binary(Program),
    /// An image of the cluster's own line.
    Image(ClusterImage),
    /// `kubexm-install` for one platform: the agent of hosts of that architecture.
    Installer,
    /// A file from `spec.bundle.extraFiles`, by its file name.
    ExtraFile(String),
    /// An image from `spec.bundle.extraImages`, by its full reference.
    ExtraImage(String),
    /// An image that a feature of the catalogue brings (calico, nodelocaldns, kube-vip …) and that no recipe names by type,
    /// by the name of its rule.
    FeatureImage(String),
    /// A helm chart, by the name of its add-on.
    Chart(String),
    /// A plain YAML add-on, by its name.
    Yaml(String),
    /// An image found in the rendering of a chart or in a YAML add-on, by its full reference.
    ChartImage(String),
    /// A text of the user that cluster.yaml names, by its path relative to cluster.yaml.
    Material(String),
    /// A package of a distribution, as its vendor signed it.
    Package {
        /// The release, as the catalogue calls it: `debian-12`. No `/`.
        os: String,
        /// The package's own name: `socat`.
        name: String,
    },
}

impl ArtifactKey {
    /// The kind, which decides media type, stage and how it is fetched.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Binary(_) => Kind::Binary,
            Self::Image(_) | Self::ExtraImage(_) | Self::FeatureImage(_) | Self::ChartImage(_) => Kind::Image,
            Self::Installer => Kind::Installer,
            Self::ExtraFile(_) => Kind::File,
            Self::Chart(_) => Kind::Chart,
            Self::Yaml(_) => Kind::Yaml,
            Self::Material(_) => Kind::Material,
            Self::Package { .. } => Kind::Package,
        }
    }

    /// What of the text form is behind its first `/`: `kubeadm`, `debian-12/socat`.
    pub fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(match self {
            Self::Binary(program) => program.name(),
            Self::Image(image) => image.name(),
            Self::Installer => crate::names::INSTALLER,
            Self::Package { os, name } => return Cow::Owned(format!("{os}/{name}")),
            Self::ExtraFile(name)
            | Self::ExtraImage(name)
            | Self::FeatureImage(name)
            | Self::Chart(name)
            | Self::Yaml(name)
            | Self::ChartImage(name)
            | Self::Material(name) => name,
        })
    }

    const fn prefix(&self) -> &'static str {
        match self {
            Self::Binary(_) => "binary",
            Self::Image(_) => "image",
            Self::Installer => "installer",
            Self::ExtraFile(_) => "file",
            Self::ExtraImage(_) => "extra-image",
            Self::FeatureImage(_) => "feature-image",
            Self::Chart(_) => "chart",
            Self::Yaml(_) => "yaml",
            Self::ChartImage(_) => "chart-image",
            Self::Material(_) => "material",
            Self::Package { .. } => "package",
        }
    }
}

impl fmt::Display for ArtifactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.prefix(), self.name())
    }
}

/// Text that names no artifact this program knows.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} names no artifact that this program knows; a newer kubexm may have made it")]
pub struct ParseArtifactKeyError(pub String);

impl FromStr for ArtifactKey {
    type Err = ParseArtifactKeyError;

    fn from_str(text: &str) -> Result<Self, ParseArtifactKeyError> {
        let unknown = || ParseArtifactKeyError(text.to_owned());
        let (prefix, name) = text.split_once('/').ok_or_else(unknown)?;
        match prefix {
            "binary" => Program::ALL.into_iter().find(|p| p.name() == name).map(Self::Binary),
            "image" => ClusterImage::ALL.into_iter().find(|i| i.name() == name).map(Self::Image),
            "installer" => (name == crate::names::INSTALLER).then_some(Self::Installer),
            "file" => Some(Self::ExtraFile(name.to_owned())),
            "extra-image" => Some(Self::ExtraImage(name.to_owned())),
            "feature-image" => Some(Self::FeatureImage(name.to_owned())),
            "chart" => Some(Self::Chart(name.to_owned())),
            "yaml" => Some(Self::Yaml(name.to_owned())),
            "chart-image" => Some(Self::ChartImage(name.to_owned())),
            "material" => Some(Self::Material(name.to_owned())),
            "package" => {
                name.split_once('/').map(|(os, name)| Self::Package { os: os.to_owned(), name: name.to_owned() })
            }
            _ => None,
        }
        .ok_or_else(unknown)
    }
}

impl Serialize for ArtifactKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ArtifactKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What an artifact is, as its `artifactType` says (`application/vnd.kubexm.<kind>.v1`; images have OCI's own types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A program, raw or in upstream's archive.
    Binary,
    /// A container image.
    Image,
    /// `kubexm-install`.
    Installer,
    /// Any file the user added.
    File,
    /// A helm chart.
    Chart,
    /// A plain YAML add-on.
    Yaml,
    /// A text of the user that cluster.yaml names.
    Material,
    /// A package of a distribution (.deb, .rpm).
    Package,
}

impl Kind {
    /// `binary`, `image`, `installer`, `file`, `chart`, `yaml`, `material` or `package`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Image => "image",
            Self::Installer => "installer",
            Self::File => "file",
            Self::Chart => "chart",
            Self::Yaml => "yaml",
            Self::Material => "material",
            Self::Package => "package",
        }
    }

    /// The `artifactType` of its OCI manifest (bundle format v1, "Members").
    pub fn artifact_type(self) -> String {
        format!("application/vnd.kubexm.{}.v1", self.as_str())
    }
}

/// Why a digest is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// The catalogue that the program was released with pins the digest.
    Pinned,
    /// Upstream published the digest beside the file.
    UpstreamChecksum,
    /// The user's own catalogue overlay gives version and digest.
    Overlay,
    /// Only a mirror has answered for it.
    Mirror,
    /// Upstream's registry answered the tag with this digest.
    OciDigest,
    /// The user gave the digest (or the file itself) in cluster.yaml.
    User,
    /// This very program, or one given on the command line.
    SelfBuilt,
    /// Metadata that a key of the distribution has signed lists the digest.
    Gpg,
    /// The user gave the sha256 of a repository's metadata, which lists the digest.
    PinnedSha256,
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pinned => "pinned",
            Self::UpstreamChecksum => "upstream-checksum",
            Self::Overlay => "overlay",
            Self::Mirror => "mirror",
            Self::OciDigest => "oci-digest",
            Self::User => "user",
            Self::SelfBuilt => "self-built",
            Self::Gpg => "gpg",
            Self::PinnedSha256 => "pinned-sha256",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_reads_back_from_its_text() {
        let mut keys: Vec<_> = Program::ALL.into_iter().map(ArtifactKey::Binary).collect();
        keys.extend(ClusterImage::ALL.into_iter().map(ArtifactKey::Image));
        keys.push(ArtifactKey::Installer);
        keys.push(ArtifactKey::ExtraImage("docker.io/library/busybox:1".into()));
        keys.push(ArtifactKey::FeatureImage("calico-node".into()));
        keys.push(ArtifactKey::Chart("cilium".into()));
        keys.push(ArtifactKey::Yaml("gateway-crds".into()));
        keys.push(ArtifactKey::ChartImage("quay.io/cilium/cilium:v1.18.4".into()));
        keys.push(ArtifactKey::Material("scripts/disks.sh".into()));
        keys.push(ArtifactKey::Package { os: "debian-12".into(), name: "libstdc++6".into() });
        for key in keys {
            assert_eq!(key.to_string().parse(), Ok(key));
        }
    }

    #[test]
    fn every_trust_is_written_in_json_as_it_is_shown() {
        for trust in [
            Trust::Pinned,
            Trust::UpstreamChecksum,
            Trust::Overlay,
            Trust::Mirror,
            Trust::OciDigest,
            Trust::User,
            Trust::SelfBuilt,
            Trust::Gpg,
            Trust::PinnedSha256,
        ] {
            assert_eq!(serde_json::to_string(&trust).ok(), Some(format!("\"{trust}\"")));
        }
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!("binary/kubeadmm".parse::<ArtifactKey>().is_err());
        assert!("kubeadm".parse::<ArtifactKey>().is_err());
        assert!("package/socat".parse::<ArtifactKey>().is_err());
    }
}
