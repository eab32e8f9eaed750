//! The images that a cluster brings by itself, also where [`require()`](crate::require()) refuses the cluster for something else.

use kubexm_spec::{Cluster, ClusterImage};

use crate::catalogue::Catalogue;
use crate::needs;
use crate::versions::{kubernetes_version, of_kubernetes};

/// References of the images of a cluster's own line and of its features, sorted; those that no version can be chosen for are left
/// out, and all of them where the Kubernetes version is unknown.
pub fn own_images(cluster: &Cluster, catalogue: &Catalogue) -> Vec<String> {
    let mut all = known(cluster, catalogue).unwrap_or_default();
    all.sort_unstable();
    all.dedup();
    all
}

fn known(cluster: &Cluster, catalogue: &Catalogue) -> Option<Vec<String>> {
    let kubernetes = cluster.kubernetes.as_ref()?;
    let programs = of_kubernetes(cluster, kubernetes);
    let version = kubernetes_version(kubernetes.version.as_deref(), &programs, catalogue).ok()?;
    let release = catalogue.release(version.bare())?;
    let constants = release.constants(version.patch())?;
    let mut all = Vec::new();
    for image in ClusterImage::ALL {
        let Some(rule) = catalogue.images.iter().find(|rule| rule.name == image.name()) else { continue };
        if needs::image(image, cluster, kubernetes, version.bare()).is_some()
            && let Some(tag) = rule.tag(version.bare(), release, constants)
        {
            all.push(format!("{}:{tag}", rule.repository(constants)));
        }
    }
    for asked in needs::features(cluster, kubernetes) {
        let feature = catalogue.features.get(asked.feature).filter(|feature| feature.inside.is_none());
        let Some(feature) = feature else { continue };
        let Ok(version) = feature.choose(asked.version, version.bare()) else { continue };
        let images = feature.images_of(&version);
        all.extend(images.map(|image| format!("{}:{}", image.repository, feature.tag(image, &version))));
    }
    Some(all)
}
