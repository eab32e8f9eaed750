//! Features: what brings images (and perhaps a chart or programs) beyond those that recipes name by type.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::component::NodeRole;
use crate::error::RequireError;
use crate::verified::{Compared, Verified};
use crate::version::{self, Span};

/// One feature of the catalogue: a network plugin, a load balancer, an add-on. In `tag`, the version of the chart and `tags`
/// `{version}` is the feature's version without `v`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeatureSet {
    /// Its name in the catalogue, and in `spec.addons[].source` where it can be one.
    pub name: String,
    /// Place in the bundle of all that it brings: lower comes first.
    pub stage: u8,
    /// Under which licence upstream publishes it, as an SPDX identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Components of the catalogue that come with it, in its own version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Tags of its images, unless a version says otherwise.
    #[serde(default = "usual_tag", skip_serializing_if = "is_usual_tag")]
    pub tag: String,
    /// The chart it comes as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartRule>,
    /// The component whose archive carries the images: they are listed to be checked, and not fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
    /// Its images.
    pub images: Vec<FeatureImage>,
    /// When upstream ends a line: `1.14` → `2026-03-31`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub end_of_life: BTreeMap<String, String>,
    /// With what the ends were compared, by line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub end_of_life_compared: BTreeMap<String, Compared>,
    /// By version, without `v`.
    pub versions: BTreeMap<String, FeatureVersion>,
}

/// Where upstream's chart is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChartRule {
    /// A repository with an index.yaml, or a folder of an OCI registry (`oci://ghcr.io/org/charts`).
    pub repository: String,
    /// Its name there.
    pub name: String,
    /// Its version, of which the feature's may be a part, unless a version of the feature says otherwise.
    pub version: String,
}

impl ChartRule {
    /// Whether it is in an OCI registry.
    pub fn is_oci(&self) -> bool {
        self.repository.starts_with("oci://")
    }
}

/// One image of a feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeatureImage {
    /// The name of its key, `feature-image/NAME`: no other image of the catalogue has it.
    pub name: String,
    /// Registry and repository, without a tag.
    pub repository: String,
    /// Which nodes run it.
    pub role: NodeRole,
    /// The versions of the feature that have it; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<Span>,
}

/// What is known of one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeatureVersion {
    /// The minors for which it is the default; of several the newest.
    pub kubernetes: Minors,
    /// Tags that differ from the feature's own, by name of the image.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The chart's version, where it differs from the feature's rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// The Kubernetes minors that upstream names for it; none where it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports: Option<Span>,
    /// The oldest kernel that upstream names, `5.10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_kernel: Option<String>,
    /// With what the minors and the kernel were compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports_compared: Option<Compared>,
    /// By which renderings of its chart its list of images was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendering_compared: Option<Compared>,
    /// By what its images were checked; none where they were not compared with upstream's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
}

/// Kubernetes minors, both ends included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Minors {
    /// The first.
    pub from: String,
    /// The last; none: all later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl Minors {
    /// Whether a minor (`1.34`) is one of them.
    pub fn hold(&self, minor: &str) -> bool {
        version::compare(&self.from, minor).is_le()
            && self.to.as_ref().is_none_or(|to| version::compare(minor, to).is_le())
    }
}

impl FeatureSet {
    /// The version that is taken: the one asked for, or the newest for the Kubernetes minor.
    pub(crate) fn choose(&self, asked: Option<&str>, kubernetes: &str) -> Result<String, RequireError> {
        let minor = version::minor(kubernetes);
        let chosen = match asked.map(version::bare) {
            Some(asked) => self.versions.contains_key(asked).then_some(asked),
            None => {
                let fit = self.versions.iter().filter(|(_, known)| known.kubernetes.hold(minor));
                version::newest(fit.map(|(version, _)| version.as_str()))
            }
        };
        chosen.map(str::to_owned).ok_or_else(|| {
            let known = self.versions.keys().map(String::as_str);
            RequireError::UnknownFeatureVersion {
                feature: self.name.clone(),
                chart: self.chart.is_some(),
                nearest: version::near(asked.unwrap_or_default(), known, 4),
                version: asked.map_or_else(|| format!("for Kubernetes {minor}"), str::to_owned),
            }
        })
    }

    /// The tag of one of its images.
    pub fn tag(&self, image: &FeatureImage, version: &str) -> String {
        let own = self.versions.get(version).and_then(|known| known.tags.get(&image.name));
        own.unwrap_or(&self.tag).replace("{version}", version)
    }

    /// The images of a version, in the order of the file.
    pub fn images_of<'a>(&'a self, version: &'a str) -> impl Iterator<Item = &'a FeatureImage> {
        self.images.iter().filter(move |image| image.versions.as_ref().is_none_or(|span| span.holds(version)))
    }

    /// The version of its chart.
    pub fn chart_version(&self, version: &str) -> Option<String> {
        let own = self.versions.get(version).and_then(|known| known.chart.as_ref());
        own.or(self.chart.as_ref().map(|chart| &chart.version)).map(|text| text.replace("{version}", version))
    }

    /// When upstream ends the line of a version.
    pub fn end_of_life(&self, version: &str) -> Option<&str> {
        version::end_of_line(&self.end_of_life, version)
    }

    /// The newest version that upstream names for a Kubernetes minor.
    pub fn fit(&self, minor: &str) -> Option<&str> {
        let fit = |known: &FeatureVersion| known.supports.as_ref().is_some_and(|minors| minors.holds(minor));
        version::newest(self.versions.iter().filter(|(_, known)| fit(known)).map(|(version, _)| version.as_str()))
    }

    /// Full references of a version's images, in the order of the file.
    pub fn references(&self, version: &str) -> Vec<String> {
        self.images_of(version).map(|image| format!("{}:{}", image.repository, self.tag(image, version))).collect()
    }
}

fn usual_tag() -> String {
    "v{version}".to_owned()
}

fn is_usual_tag(tag: &str) -> bool {
    tag == "v{version}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minor_is_compared_as_a_number_and_both_ends_belong_to_the_range() {
        let minors = Minors { from: "1.9".into(), to: Some("1.30".into()) };
        assert!(minors.hold("1.9") && minors.hold("1.10") && minors.hold("1.30"));
        assert!(!minors.hold("1.8") && !minors.hold("1.31"));
        assert!(Minors { from: "1.24".into(), to: None }.hold("1.99"));
    }
}
