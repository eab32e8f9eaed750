//! What features of the catalogue bring: charts, and images that nothing else carries.

use std::collections::BTreeSet;

use kubexm_spec::{ArtifactKey, Platform, Trust};

use crate::catalogue::Catalogue;
use crate::component::NodeRole;
use crate::feature::FeatureSet;
use crate::needs::Asked;
use crate::requirements::{ChartSource, Requirement, Source, Versions};

/// An image of the catalogue.
pub(crate) struct Image<'a> {
    pub key: ArtifactKey,
    pub repository: &'a str,
    pub tag: &'a str,
    pub role: NodeRole,
}

impl Image<'_> {
    pub(crate) fn item(&self, catalogue: &Catalogue, platform: Platform, because: &str, stage: u8) -> Requirement {
        let reference = format!("{}:{}", self.repository, self.tag);
        let pin = catalogue.pins.get(&reference);
        Requirement {
            key: self.key.clone(),
            platform: Some(platform),
            version: self.tag.to_owned(),
            because: because.to_owned(),
            role: Some(self.role),
            optional: false,
            stage,
            trust: pin.map_or(Trust::OciDigest, |pin| pin.trust),
            source: Source::Image { reference, digest: pin.map(|pin| pin.digest) },
        }
    }
}

/// The chart of each feature for each that asks, since its key has that one's name; its images once, whoever asks: thousands of add-ons
/// may be of one feature.
pub(crate) fn items(
    asked: &[(Asked<'_>, &FeatureSet)],
    versions: &Versions,
    catalogue: &Catalogue,
    platforms: &[Platform],
) -> Vec<Requirement> {
    let (mut items, mut seen) = (Vec::new(), BTreeSet::new());
    for (asked, feature) in asked {
        let Some(version) = versions.features.get(&feature.name) else { continue };
        items.extend(chart(asked, feature, version));
        if feature.inside.is_none() && seen.insert(&feature.name) {
            items.extend(images(asked, feature, version, catalogue, platforms));
        }
    }
    items
}

fn chart(asked: &Asked<'_>, feature: &FeatureSet, version: &str) -> Option<Requirement> {
    let (chart, version) = feature.chart.as_ref().zip(feature.chart_version(version))?;
    let (trust, source) = match chart.is_oci() {
        true => {
            let reference = format!("{}/{}", chart.repository, chart.name);
            (Trust::OciDigest, ChartSource::Oci { reference, version: version.clone() })
        }
        // the repository's index lists the digest
        false => {
            let (url, chart) = (chart.repository.clone(), chart.name.clone());
            (Trust::UpstreamChecksum, ChartSource::Repository { url, chart, version: version.clone() })
        }
    };
    Some(Requirement {
        key: ArtifactKey::Chart(asked.chart.to_owned()),
        platform: None,
        version,
        because: asked.because.clone(),
        role: Some(NodeRole::ControlPlane),
        optional: false,
        stage: feature.stage,
        trust,
        source: Source::Chart { chart: source },
    })
}

fn images<'a>(
    asked: &'a Asked<'_>,
    feature: &'a FeatureSet,
    version: &'a str,
    catalogue: &'a Catalogue,
    platforms: &'a [Platform],
) -> impl Iterator<Item = Requirement> + 'a {
    feature.images_of(version).flat_map(move |image| {
        let tag = feature.tag(image, version);
        let key = ArtifactKey::FeatureImage(image.name.clone());
        let found = Image { key, repository: &image.repository, tag: &tag, role: image.role };
        let item = |platform: &Platform| found.item(catalogue, *platform, &asked.because, feature.stage);
        platforms.iter().map(item).collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use kubexm_spec::Cluster;
    use kubexm_spec::cluster::Kubernetes;

    use super::*;
    use crate::needs;
    use crate::versions::choose;

    #[test]
    fn the_images_of_a_feature_come_once_however_many_add_ons_are_of_it() {
        let catalogue = Catalogue::embedded();
        let (name, feature) =
            catalogue.features.iter().find(|(_, one)| one.chart.is_some() && one.inside.is_none()).unwrap();
        let addons: String =
            (0..50).map(|at| format!("  - {{name: a{at}, type: helm, source: {{catalogue: {name}}}}}\n")).collect();
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: c}}\nspec:\n  kubernetes: {{}}\n  addons:\n{addons}"
        );
        let cluster: Cluster = kubexm_spec::cluster::parse(&text).unwrap();
        let kubernetes: &Kubernetes = cluster.kubernetes.as_ref().unwrap();
        let chosen = choose(&cluster, kubernetes, &catalogue).unwrap();
        assert!(needs::features(&cluster, kubernetes).len() >= 50);
        let items = items(&chosen.features, &chosen.versions, &catalogue, &Platform::ALL);
        let images = feature.images_of(&chosen.versions.features[name]).count();
        let of_it = |item: &&Requirement| matches!(&item.key, ArtifactKey::FeatureImage(key) if feature.images.iter().any(|one| one.name == *key));
        assert_eq!(items.iter().filter(of_it).count(), images * Platform::ALL.len());
        assert_eq!(items.iter().filter(|item| matches!(item.key, ArtifactKey::Chart(_))).count(), 50);
    }
}
