//! The parts of a set of requirements that were not compared with upstream: not an error, but reported before anything
//! is built.

use std::fmt;

use kubexm_spec::{ArtifactKey, ClusterImage, Program};
use serde::Serialize;

use crate::catalogue::Catalogue;
use crate::component::Component;
use crate::feature::FeatureSet;
use crate::requirements::{Requirements, Versions};
use crate::verified::Verified;
use crate::version;
use crate::versions::OF_KUBERNETES;

/// One thing that was not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Doubt {
    /// What kind of thing.
    pub kind: DoubtKind,
    /// `Kubernetes 1.34.11`, `cilium 1.18.5`.
    pub about: String,
    /// What was not checked, and how to check it.
    pub text: String,
    /// The artifacts that it is about, sorted.
    pub keys: Vec<ArtifactKey>,
}

/// Kinds of doubts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoubtKind {
    /// A patch of Kubernetes, or of another program, that is not in the catalogue.
    UnknownPatch,
    /// kubeadm's constants for a range of patches.
    Constants,
    /// That upstream has the versions of a program.
    ProgramVersions,
    /// The images of a feature.
    FeatureImages,
}

impl Doubt {
    /// Whether the cluster may not come up if it is as feared: a wrong tag of what every cluster runs.
    pub const fn is_severe(&self) -> bool {
        matches!(self.kind, DoubtKind::UnknownPatch | DoubtKind::Constants)
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.text)
    }
}

/// Everything that these requirements rest on and that nobody has checked; Kubernetes first, then programs and features by
/// name.
pub fn doubts(requirements: &Requirements, catalogue: &Catalogue) -> Vec<Doubt> {
    let Some(versions) = &requirements.versions else { return Vec::new() };
    let mut all: Vec<Doubt> =
        [unknown_patch(requirements, versions, catalogue), constants(requirements, versions, catalogue)]
            .into_iter()
            .flatten()
            .collect();
    all.extend(
        Program::ALL.into_iter().filter_map(|program| unknown_program(program, requirements, versions, catalogue)),
    );
    all.extend(Program::ALL.into_iter().filter_map(|program| unverified_program(program, requirements, catalogue)));
    for (name, feature) in &catalogue.features {
        let version = chosen(versions, name, feature);
        let unverified = |version: &&str| feature.versions.get(*version).is_some_and(|known| known.verified.is_none());
        all.extend(version.filter(unverified).map(|version| images_of(feature, version, requirements)));
    }
    all
}

/// What was compared with upstream, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// `Kubernetes 1.34.4`, `cilium 1.18.5`.
    pub about: String,
    /// With what.
    #[serde(flatten)]
    pub verified: Verified,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.verified)
    }
}

/// Everything that these requirements rest on and that was compared with upstream's; Kubernetes first, then features by name.
pub fn checked(requirements: &Requirements, catalogue: &Catalogue) -> Vec<Checked> {
    let Some(versions) = &requirements.versions else { return Vec::new() };
    let kubernetes = versions.kubernetes.bare();
    let verified = version::patch(kubernetes)
        .and_then(|patch| catalogue.release(kubernetes)?.constants(patch)?.verified_for(patch));
    let constants = verified.cloned().map(|verified| Checked { about: format!("Kubernetes {kubernetes}"), verified });
    let features = catalogue.features.iter().filter_map(|(name, feature)| {
        let version = chosen(versions, name, feature)?;
        let verified = feature.versions.get(version)?.verified.clone()?;
        Some(Checked { about: format!("{name} {version}"), verified })
    });
    constants.into_iter().chain(features).collect()
}

/// The version of a feature that is used; what lies in a component's archive has the component's.
fn chosen<'v>(versions: &'v Versions, name: &str, feature: &FeatureSet) -> Option<&'v str> {
    let inside = || versions.programs.get(feature.inside.as_deref()?);
    versions.features.get(name).or_else(inside).map(String::as_str)
}

fn unknown_patch(requirements: &Requirements, versions: &Versions, catalogue: &Catalogue) -> Option<Doubt> {
    let kubernetes = versions.kubernetes.bare();
    let known = |component: &Component| component.versions.contains_key(kubernetes);
    if catalogue.component(Program::Kubelet).is_none_or(known) {
        return None;
    }
    let minor = version::minor(kubernetes);
    let newest = catalogue.newest_patch(minor).map(|newest| format!("; its newest of {minor} is {newest}"));
    let text = format!(
        "the catalogue does not know this patch{}: that upstream has it, and runs the images of its neighbours, is trusted",
        newest.unwrap_or_default()
    );
    let keys = keys(requirements, |item| version::bare(&item.version) == kubernetes);
    Some(Doubt { kind: DoubtKind::UnknownPatch, about: format!("Kubernetes {kubernetes}"), text, keys })
}

/// A program whose version cluster.yaml or an overlay names, and the catalogue does not.
fn unknown_program(
    program: Program,
    requirements: &Requirements,
    versions: &Versions,
    catalogue: &Catalogue,
) -> Option<Doubt> {
    let (component, version) = (catalogue.component(program)?, versions.of(program)?);
    if OF_KUBERNETES.contains(&program) || component.versions.contains_key(version) {
        return None;
    }
    let minor = version::minor(version);
    let known = component.versions.keys().map(String::as_str).filter(|known| version::minor(known) == minor);
    let newest = version::newest(known).map(|newest| format!("; its newest of {minor} is {newest}"));
    let newest = newest.unwrap_or_default();
    let text = format!(
        "the catalogue does not know this patch{newest}: that upstream has it is trusted, and its digest is what upstream \
         publishes beside it"
    );
    let keys = keys(requirements, |item| item.key == ArtifactKey::Binary(program));
    Some(Doubt { kind: DoubtKind::UnknownPatch, about: format!("{} {version}", program.name()), text, keys })
}

/// A program of the catalogue whose versions differ from upstream's tags, or could not be compared with them. A bundle's own
/// catalogue does not have the reason.
fn unverified_program(program: Program, requirements: &Requirements, catalogue: &Catalogue) -> Option<Doubt> {
    let (component, versions) = (catalogue.component(program)?, requirements.versions.as_ref()?);
    let version = versions.of(program).filter(|version| component.versions.contains_key(*version))?;
    let why = component.unverified.as_ref().filter(|_| component.verified.is_none())?;
    let text = format!("that upstream has the catalogue's versions of it was not confirmed ({why})");
    let keys = keys(requirements, |item| item.key == ArtifactKey::Binary(program));
    Some(Doubt { kind: DoubtKind::ProgramVersions, about: format!("{} {version}", program.name()), text, keys })
}

fn constants(requirements: &Requirements, versions: &Versions, catalogue: &Catalogue) -> Option<Doubt> {
    let kubernetes = versions.kubernetes.bare();
    let patch = version::patch(kubernetes)?;
    let range = catalogue.release(kubernetes)?.constants(patch)?;
    if range.verified_for(patch).is_some() {
        return None;
    }
    let unread = match &range.verified {
        Some(older) => format!("its image tags are those of an older patch, which were compared with {older}"),
        None => {
            let why = range.unverified.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            format!("no kubeadm of {range} was run for its images, and no source was read{why}")
        }
    };
    let text = format!(
        "{unread}: pause {}, coredns {} and etcd {} may be others; `kubeadm config images list` of {} shows them",
        range.pause,
        range.coredns,
        versions.tag(ClusterImage::Etcd).unwrap_or(&range.etcd),
        versions.kubernetes
    );
    let keys = keys(requirements, |item| match &item.key {
        ArtifactKey::Image(image) => matches!(image, ClusterImage::Pause | ClusterImage::Coredns | ClusterImage::Etcd),
        key => *key == ArtifactKey::Binary(Program::Etcd),
    });
    Some(Doubt { kind: DoubtKind::Constants, about: format!("Kubernetes {kubernetes}"), text, keys })
}

fn images_of(feature: &FeatureSet, version: &str, requirements: &Requirements) -> Doubt {
    let tells = match (&feature.inside, &feature.chart) {
        (Some(_), _) => "; what the installer carries is read when it is here",
        (None, Some(_)) => "; what is missing in it is found when the chart is rendered",
        (None, None) => "",
    };
    let why = feature.versions.get(version).and_then(|known| known.unverified.as_ref());
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    let text = format!("its list of images was not compared with upstream's{why}{tells}");
    let keys = keys(requirements, |item| match &item.key {
        ArtifactKey::FeatureImage(name) => feature.images.iter().any(|image| image.name == *name),
        ArtifactKey::Binary(program) => feature.inside.as_deref() == Some(program.name()),
        _ => false,
    });
    Doubt { kind: DoubtKind::FeatureImages, about: format!("{} {version}", feature.name), text, keys }
}

fn keys(requirements: &Requirements, which: impl Fn(&crate::Requirement) -> bool) -> Vec<ArtifactKey> {
    let mut all: Vec<ArtifactKey> =
        requirements.items.iter().filter(|item| which(item)).map(|item| item.key.clone()).collect();
    // Sorted already, and there once for each platform.
    all.dedup();
    all
}
