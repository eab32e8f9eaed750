//! Which charts are installed, and with which values.

use std::collections::HashMap;

use kubexm_manifests::ChartRelease;
use kubexm_manifests::chart::installed;
use kubexm_plan::network;
use kubexm_spec::ArtifactKey;
use kubexm_spec::rendering::{self, Asked, RenderingMismatch};
use serde_json::{Map, Value};

use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;

/// The charts and YAML that are installed, in their order.
pub fn of_cluster(cx: &PlanContext<'_>) -> Vec<ChartRelease> {
    installed(cx.cluster)
}

/// Those that are installed when the cluster is complete: all but its pod network.
pub fn addons(cx: &PlanContext<'_>) -> Vec<ChartRelease> {
    let network = network(cx).map(|release| release.key);
    of_cluster(cx).into_iter().filter(|release| network.as_ref() != Some(&release.key)).collect()
}

/// The chart of the pod network, if it comes as one.
pub fn network(cx: &PlanContext<'_>) -> Option<ChartRelease> {
    let chart = ArtifactKey::Chart(network::of(cx.cluster.network.plugin).chart?.to_owned());
    of_cluster(cx).into_iter().find(|release| release.key == chart)
}

/// The images of the pod network's chart, by their full names.
pub fn network_images<'a>(cx: &PlanContext<'a>) -> &'a [String] {
    let rendering = network(cx).and_then(|release| cx.charts.of(&release.key));
    rendering.map(|rendering| rendering.images.as_slice()).unwrap_or_default()
}

/// Whether a node's store needs the file of a chart or of YAML: they are installed on the first control plane.
pub fn is_needed_on(cx: &PlanContext<'_>, node: &PlannedHost<'_>, key: &ArtifactKey) -> bool {
    let first = cx.cluster.first_control_plane();
    first.is_some_and(|first| first.name == node.name()) && of_cluster(cx).iter().any(|release| release.key == *key)
}

/// Refuses charts, values, namespaces and versions that were not rendered when the bundle was built: their images are not known.
pub fn check(cx: &PlanContext<'_>) -> Result<(), RecipeError> {
    let kubernetes = cx.manifest.cluster.as_ref().map(|summary| summary.kubernetes.as_str());
    let listed = cx.manifest.by_artifact();
    // From the last one on: of two of one key the first counts.
    let known: HashMap<_, _> = cx.charts.renderings.iter().rev().map(|one| (&one.key, one)).collect();
    let mut others: Vec<RenderingMismatch> = Vec::new();
    for release in of_cluster(cx) {
        let Some(artifact) = listed.find(&release.key, None) else {
            continue;
        };
        let values = rendered(cx, &release);
        let (key, source, namespace) = (&release.key, artifact.digest, release.namespace.as_str());
        let of_it = known.get(key).map_or(&[][..], |one| std::slice::from_ref(*one));
        others.extend(rendering::check(of_it, &[Asked { key, source, values: &values, namespace, kubernetes }]));
    }
    if others.is_empty() { Ok(()) } else { Err(RecipeError::Rendered { all: others }) }
}

/// The values that a chart is rendered with to learn its images. A values file of the bundle's own cluster.yaml is in the
/// rendering, merged with everything else.
fn rendered(cx: &PlanContext<'_>, release: &ChartRelease) -> Map<String, Value> {
    match &release.values_file {
        None => release.rendered(Map::new()),
        Some(path) => match (cx.charts.values_files.get(path), cx.charts.of(&release.key)) {
            (Some(file), _) => release.rendered(file.clone()),
            (None, Some(rendering)) => rendering::merged(rendering.values.clone(), &release.values),
            (None, None) => release.rendered(Map::new()),
        },
    }
}

/// The values that a chart is installed with: those of the user, over those of the site.
pub fn values(cx: &PlanContext<'_>, release: &ChartRelease, site: &Map<String, Value>) -> Map<String, Value> {
    match &release.values_file {
        None => release.installed(site, Map::new()),
        Some(path) => match cx.charts.values_files.get(path) {
            Some(file) => release.installed(site, file.clone()),
            None => release.in_place_of_placeholders(&rendered(cx, release), site),
        },
    }
}
