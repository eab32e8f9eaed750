//! Errors in a cluster's add-ons that show before their sources are looked up.

use std::collections::BTreeSet;

use kubexm_spec::Cluster;
use kubexm_spec::cluster::{AddonKind, AddonSource};

use crate::catalogue::Catalogue;
use crate::error::RequireError;
use crate::needs;

/// A name stands for one chart or add-on: by it the bundle holds them, and helm calls its releases.
pub(crate) fn check(cluster: &Cluster, catalogue: &Catalogue) -> Result<(), RequireError> {
    let features = cluster.kubernetes.as_ref().map(|kubernetes| needs::features(cluster, kubernetes));
    let chart = |name: &str| catalogue.features.get(name).is_some_and(|feature| feature.chart.is_some());
    let features = features.unwrap_or_default().into_iter();
    let mut seen: BTreeSet<&str> =
        features.filter(|asked| !asked.addon && chart(asked.feature)).map(|asked| asked.chart).collect();
    for addon in cluster.addons.iter().chain(&cluster.bundle.extra_charts) {
        if addon.kind == AddonKind::Yaml && matches!(addon.source, AddonSource::Catalogue { .. }) {
            return Err(RequireError::NoYaml { name: addon.name.clone() });
        }
        if cluster.kubernetes.is_none() && matches!(addon.source, AddonSource::Catalogue { .. }) {
            return Err(RequireError::ChartOfNoCluster { name: addon.name.clone() });
        }
        if !seen.insert(&addon.name) {
            return Err(RequireError::SameAddonName { name: addon.name.clone() });
        }
    }
    Ok(())
}
