//! What has no list of versions with digests that could be asked for: of it nothing newer is known, which is not the same as that
//! there is nothing newer.

use std::collections::BTreeMap;

use super::listing::{self, Source};
use super::question::{Ask, NotAsked};

/// Of what is wanted, by name.
pub(super) fn of(ask: Ask<'_>) -> BTreeMap<String, NotAsked> {
    let components = ask.catalogue.components.values().filter_map(|component| {
        let why = match listing::of(component) {
            _ if component.digest_source.is_none() => NotAsked::NoDigests,
            Source::Unknown => NotAsked::NoList,
            Source::Kubernetes | Source::GitHub(_) => return None,
        };
        Some((&component.name, why))
    });
    // A feature inside of a component's archive has its name.
    let features = ask
        .catalogue
        .features
        .values()
        .filter(|feature| feature.chart.is_none() && !ask.catalogue.components.contains_key(&feature.name));
    components
        .chain(features.map(|feature| (&feature.name, NotAsked::NoChart)))
        .filter(|(name, _)| ask.wants(name))
        .map(|(name, why)| (name.clone(), why))
        .collect()
}
