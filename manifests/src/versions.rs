//! Choosing versions: what the user names, else what an overlay prefers, else what the release says.

use std::collections::BTreeMap;

use kubexm_spec::cluster::{Kubernetes, NetworkPlugin, RuntimeKind};
use kubexm_spec::yaml::nearest;
use kubexm_spec::{Cluster, ClusterImage, KubernetesVersion, Program};

use crate::catalogue::Catalogue;
use crate::component::Component;
use crate::error::RequireError;
use crate::feature::FeatureSet;
use crate::image::Feature;
use crate::needs::{self, Asked, Need};
use crate::release::{PatchRange, Release};
use crate::requirements::Versions;
use crate::version;

/// Programs that have the version of Kubernetes.
pub(crate) const OF_KUBERNETES: [Program; 7] = [
    Program::Kubeadm,
    Program::Kubelet,
    Program::Kubectl,
    Program::KubeApiserver,
    Program::KubeControllerManager,
    Program::KubeScheduler,
    Program::KubeProxy,
];

/// How many near names an error lists.
const NEAR: usize = 4;

/// Everything that a cluster's own line is made of.
pub(crate) struct Chosen<'a> {
    pub versions: Versions,
    /// kubeadm's own, of this patch.
    pub constants: &'a PatchRange,
    /// In the order of names.
    pub programs: Vec<(Program, &'a Component, Need)>,
    /// In the order of the closed set.
    pub images: Vec<(ClusterImage, String)>,
    /// Each feature once.
    pub features: Vec<(Asked<'a>, &'a FeatureSet)>,
}

/// Chooses every version of a cluster.
pub(crate) fn choose<'a>(
    cluster: &'a Cluster,
    asked: &Kubernetes,
    catalogue: &'a Catalogue,
) -> Result<Chosen<'a>, RequireError> {
    let kubernetes = kubernetes_version(asked.version.as_deref(), &of_kubernetes(cluster, asked), catalogue)?;
    let unknown = || unknown_kubernetes(kubernetes.bare(), catalogue);
    let release = catalogue.release(kubernetes.bare()).ok_or_else(unknown)?;
    let constants = release.constants(kubernetes.patch()).ok_or_else(unknown)?;
    let mut chooser =
        Chooser { cluster, catalogue, release, constants, kubernetes: kubernetes.bare(), features: BTreeMap::new() };
    let features = chooser.features(asked)?;
    let programs = chooser.programs(asked)?;
    let images = chooser.images(asked)?;
    let of = |program: Program| programs.iter().find(|(p, ..)| *p == program).map(|(.., version)| version.as_str());
    let tags: BTreeMap<&'static str, String> =
        images.iter().map(|(image, _, tag)| (image.name(), tag.clone())).collect();
    let versions = Versions {
        kubeadm_api: release.kubeadm_api.clone(),
        runtime: runtime(cluster.runtime.kind, of),
        network: network(cluster.network.plugin, &tags, &chooser.features),
        programs: programs.iter().map(|(program, .., version)| (program.name(), version.clone())).collect(),
        images: tags,
        features: chooser.features,
        kubernetes: kubernetes.clone(),
    };
    Ok(Chosen {
        versions,
        constants,
        programs: programs.into_iter().map(|(program, component, need, _)| (program, component, need)).collect(),
        images: images.into_iter().map(|(image, because, _)| (image, because)).collect(),
        features,
    })
}

fn runtime<'v>(kind: RuntimeKind, of: impl Fn(Program) -> Option<&'v str>) -> String {
    let version = match kind {
        RuntimeKind::Containerd => of(Program::Containerd),
        RuntimeKind::Docker => of(Program::Docker),
        RuntimeKind::CriO => of(Program::CriO),
        RuntimeKind::Isulad => None,
    };
    version.map_or_else(|| kind.to_string(), |version| format!("{kind} {version}"))
}

fn network(
    plugin: NetworkPlugin,
    tags: &BTreeMap<&'static str, String>,
    features: &BTreeMap<String, String>,
) -> String {
    let name = plugin.to_string();
    match (tags.get(name.as_str()), features.get(&name)) {
        (Some(tag), _) => format!("{name} {tag}"),
        (None, Some(version)) => format!("{name} v{version}"),
        (None, None) => name,
    }
}

/// The programs of Kubernetes that a cluster gets.
pub(crate) fn of_kubernetes(cluster: &Cluster, asked: &Kubernetes) -> Vec<Program> {
    let gets = |program: &Program| needs::program(*program, cluster, asked, "").is_some();
    OF_KUBERNETES.into_iter().filter(gets).collect()
}

/// The exact version without `v`: as asked, the newest patch of the minor asked for that all `programs` have, or the
/// catalogue's default.
pub(crate) fn kubernetes_version(
    asked: Option<&str>,
    programs: &[Program],
    catalogue: &Catalogue,
) -> Result<KubernetesVersion, RequireError> {
    let exact = |text: &str| text.parse().map_err(|_| unknown_kubernetes(text, catalogue));
    let preferred = catalogue.component(Program::Kubelet).and_then(|kubelet| kubelet.default.as_deref());
    let preferred = catalogue.component(Program::Kubeadm).and_then(|c| c.default.as_deref()).or(preferred);
    let wanted = version::bare(asked.or(preferred).unwrap_or(&catalogue.kubernetes));
    if !version::is_version(wanted) {
        return Err(unknown_kubernetes(wanted, catalogue));
    }
    if version::patch(wanted).is_some() {
        return exact(wanted);
    }
    if let Some(preferred) = preferred.filter(|p| version::minor(p) == wanted) {
        return exact(preferred);
    }
    let kubelet = catalogue.component(Program::Kubelet).filter(|_| catalogue.release(wanted).is_some());
    let no_patch = || kubelet.map_or_else(|| unknown_kubernetes(wanted, catalogue), |kubelet| unknown(kubelet, wanted));
    // Who names no version gets one whose images were compared with upstream; who names the minor, its newest patch.
    let compared = if asked.is_none() { catalogue.newest_verified(wanted, programs) } else { None };
    exact(compared.or_else(|| version::newest(catalogue.patches(wanted, programs))).ok_or_else(no_patch)?)
}

fn unknown_kubernetes(asked: &str, catalogue: &Catalogue) -> RequireError {
    let known = catalogue.releases.keys().map(String::as_str);
    RequireError::UnknownKubernetes {
        version: asked.to_owned(),
        nearest: version::near(version::minor(asked), known, NEAR),
    }
}

/// Refuses a version of whose minor the catalogue knows nothing.
fn known_version(component: &Component, wanted: &str) -> Result<(), RequireError> {
    if version::is_version(wanted) && component.knows_minor_of(wanted) && version::patch(wanted).is_some() {
        return Ok(());
    }
    Err(unknown(component, wanted))
}

fn unknown(component: &Component, wanted: &str) -> RequireError {
    let known = component.versions.keys().map(String::as_str);
    RequireError::UnknownVersion {
        component: component.name.clone(),
        version: wanted.to_owned(),
        nearest: version::near(wanted, known, NEAR),
    }
}

struct Chooser<'a, 'k> {
    cluster: &'a Cluster,
    catalogue: &'a Catalogue,
    release: &'a Release,
    constants: &'a PatchRange,
    kubernetes: &'k str,
    /// Versions of the features chosen so far.
    features: BTreeMap<String, String>,
}

impl<'a> Chooser<'a, '_> {
    fn gap(&self, what: String) -> RequireError {
        RequireError::Gap { what, kubernetes: self.kubernetes.to_owned() }
    }

    fn features(&mut self, asked: &Kubernetes) -> Result<Vec<(Asked<'a>, &'a FeatureSet)>, RequireError> {
        let mut all: Vec<(Asked<'a>, &'a FeatureSet)> = Vec::new();
        for asked in needs::features(self.cluster, asked) {
            let fits = |feature: &&FeatureSet| feature.chart.is_some() || !asked.addon;
            let feature = self.catalogue.features.get(asked.feature).filter(fits).ok_or_else(|| {
                let known = self.catalogue.features.values().filter(fits).map(|feature| feature.name.as_str());
                RequireError::UnknownFeature {
                    because: asked.because.clone(),
                    name: asked.feature.to_owned(),
                    nearest: nearest(asked.feature, known).into_iter().take(NEAR).map(str::to_owned).collect(),
                }
            })?;
            let version = feature.choose(asked.version, self.kubernetes)?;
            match self.features.get(&feature.name) {
                Some(first) if *first != version => {
                    return Err(RequireError::TwoVersions {
                        feature: feature.name.clone(),
                        first: first.clone(),
                        second: version,
                        because: asked.because,
                    });
                }
                _ => self.features.insert(feature.name.clone(), version),
            };
            all.push((asked, feature));
        }
        Ok(all)
    }

    fn programs(&self, asked: &Kubernetes) -> Result<Vec<(Program, &'a Component, Need, String)>, RequireError> {
        let mut all = Vec::new();
        let excluded = |name: &str| self.cluster.bundle.exclude.iter().any(|excluded| excluded == name);
        for program in Program::ALL {
            let Some(need) = needs::program(program, self.cluster, asked, self.kubernetes) else { continue };
            if need.required && excluded(program.name()) {
                return Err(RequireError::Excluded { name: program.name().to_owned(), because: need.because });
            }
            // what a bundle's own catalogue lacks since it was excluded is optional too
            let component = match self.catalogue.component(program) {
                None if excluded(program.name()) => continue,
                Some(component) if component.optional && excluded(program.name()) => continue,
                None => return Err(self.gap(format!("component {}", program.name()))),
                Some(component) => component,
            };
            let version = self.program(program, component)?;
            known_version(component, &version)?;
            self.fits(program, component, &version)?;
            all.push((program, component, need, version));
        }
        Ok(all)
    }

    /// Whether a program goes with this Kubernetes.
    fn fits(&self, program: Program, component: &Component, version: &str) -> Result<(), RequireError> {
        let support = &self.release.support;
        let older = |minimum: &str| version::compare(version, minimum).is_lt();
        let (kubernetes, own) = (self.kubernetes.to_owned(), version.to_owned());
        match program {
            Program::Containerd if older(&support.minimum_containerd) => {
                Err(RequireError::TooOld { kubernetes, minimum: support.minimum_containerd.clone(), version: own })
            }
            // The minimum is that of the minor's newest patch: an older kubeadm takes the etcd that it would run itself.
            Program::Etcd if older(self.constants.etcd_version()) => match &support.minimum_etcd {
                Some(minimum) if older(minimum) => {
                    Err(RequireError::EtcdTooOld { kubernetes, minimum: minimum.clone(), version: own })
                }
                _ => Ok(()),
            },
            Program::CriO if version::minor(version) != version::minor(self.kubernetes) => {
                let minor = version::minor(self.kubernetes);
                let known = component.versions.keys().filter(|known| version::minor(known) == minor);
                Err(RequireError::MinorMismatch { kubernetes, version: own, known: known.cloned().collect() })
            }
            _ => Ok(()),
        }
    }

    /// The version of a program.
    fn program(&self, program: Program, component: &'a Component) -> Result<String, RequireError> {
        let runtime = match program {
            Program::Containerd => self.cluster.runtime.kind == RuntimeKind::Containerd,
            Program::Docker => self.cluster.runtime.kind == RuntimeKind::Docker,
            Program::CriO => self.cluster.runtime.kind == RuntimeKind::CriO,
            _ => false,
        };
        let asked = match program {
            Program::Harbor => self.cluster.registry.harbor.as_ref().and_then(|harbor| harbor.version.as_deref()),
            _ if runtime => self.cluster.runtime.version.as_deref(),
            program if OF_KUBERNETES.contains(&program) => Some(self.kubernetes),
            _ => None,
        };
        asked.map_or_else(|| self.default(program, component), |asked| Ok(version::bare(asked).to_owned()))
    }

    fn default(&self, program: Program, component: &'a Component) -> Result<String, RequireError> {
        if let Some(preferred) = &component.default {
            return Ok(preferred.clone());
        }
        let of_feature = |feature: &FeatureSet| feature.programs.iter().any(|name| name == program.name());
        let feature = self.features.iter().find(|(name, _)| self.catalogue.features.get(*name).is_some_and(of_feature));
        if let Some((_, version)) = feature {
            return Ok(version.clone());
        }
        if let Some(default) = self.release.defaults.get(program.name()) {
            return Ok(default.clone());
        }
        // etcd's tools are those of the etcd that the cluster runs
        if program == Program::Etcd {
            return Ok(self.release.etcd_version(self.constants).to_owned());
        }
        // CRI-O has the minors of Kubernetes
        if program == Program::CriO {
            let minor = version::minor(self.kubernetes);
            let known = component.versions.keys().map(String::as_str);
            return version::newest(known.filter(|known| version::minor(known) == minor))
                .map(str::to_owned)
                .ok_or_else(|| self.gap(format!("cri-o {minor}")));
        }
        Err(self.gap(format!("default version of {}", program.name())))
    }

    /// Images of the cluster's own line, why each is needed, and its tag.
    fn images(&self, asked: &Kubernetes) -> Result<Vec<(ClusterImage, String, String)>, RequireError> {
        let mut all = Vec::new();
        for image in ClusterImage::ALL {
            let Some(because) = needs::image(image, self.cluster, asked, self.kubernetes) else { continue };
            let tag = self
                .catalogue
                .images
                .iter()
                .find(|rule| rule.name == image.name())
                .and_then(|rule| rule.tag(self.kubernetes, self.release, self.constants))
                .ok_or_else(|| self.gap(format!("image {}", image.name())))?;
            all.push((image, because, tag));
        }
        Ok(all)
    }
}

impl Versions {
    /// The version of a program; none when it is an excluded tool, or the cluster has no use for it.
    pub fn of(&self, program: Program) -> Option<&str> {
        self.programs.get(program.name()).map(String::as_str)
    }

    /// The tag of an image; none when the cluster has no use for it.
    pub fn tag(&self, image: ClusterImage) -> Option<&str> {
        self.images.get(image.name()).map(String::as_str)
    }
}

/// The images of one feature in a set of requirements' versions: full references, sorted.
pub fn references(catalogue: &Catalogue, versions: &Versions, feature: Feature) -> Vec<String> {
    let release = catalogue.release(versions.kubernetes.bare());
    let constants = release.and_then(|release| release.constants(versions.kubernetes.patch()));
    let mut all: Vec<String> = catalogue
        .images
        .iter()
        .filter(|rule| rule.feature == feature)
        .filter_map(|rule| Some(format!("{}:{}", rule.repository(constants?), versions.tag(rule.image()?)?)))
        .collect();
    all.sort();
    all
}
