//! What has no list of versions with digests that could be asked for: of it nothing newer is known, which is not the same as that
//! there is nothing newer.

use std::collections::BTreeMap;

use kubexm_manifests::Catalogue;

use super::listing::{self, Source};
use super::question::NotAsked;

/// Of what is wanted, by name.
pub(super) fn of(catalogue: &Catalogue, wants: impl Fn(&str) -> bool) -> BTreeMap<String, NotAsked> {
    let components = catalogue.components.values().filter_map(|component| {
        let why = match listing::of(component) {
            _ if component.digest_source.is_none() => NotAsked::NoDigests,
            Source::Unknown => NotAsked::NoList,
            Source::Kubernetes | Source::GitHub(_) => return None,
        };
        Some((&component.name, why))
    });
    // A feature inside of a component's archive has its name.
    let features = catalogue.features.values().filter_map(|feature| match &feature.chart {
        None if !catalogue.components.contains_key(&feature.name) => Some((&feature.name, NotAsked::NoChart)),
        Some(chart) if chart.is_oci() => Some((&feature.name, NotAsked::NoIndex)),
        _ => None,
    });
    components.chain(features).filter(|(name, _)| wants(name)).map(|(name, why)| (name.clone(), why)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_without_a_chart_and_programs_without_digests_are_named() {
        let all = of(&Catalogue::embedded(), |_| true);
        let named = |why: NotAsked| -> Vec<&str> {
            all.iter().filter(|(_, known)| **known == why).map(|(name, _)| name.as_str()).collect()
        };
        assert_eq!(named(NotAsked::NoChart), ["calico", "haproxy", "kube-vip", "multus", "nginx", "nodelocaldns"]);
        assert_eq!(
            named(NotAsked::NoDigests),
            ["calico-crds", "calico-manifest", "cri-dockerd", "crun", "docker", "harbor"]
        );
        assert_eq!(named(NotAsked::NoList), [""; 0]);
        assert_eq!(named(NotAsked::NoIndex), ["kata-deploy"]);
        assert_eq!(of(&Catalogue::embedded(), |name| name == "containerd"), BTreeMap::new());
    }
}
