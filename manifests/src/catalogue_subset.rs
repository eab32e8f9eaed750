//! The part of a catalogue that a bundle needs: from it alone the installer computes the same requirements again.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_spec::{Arch, ArtifactKey, Program};

use crate::catalogue::Catalogue;
use crate::requirements::{Requirements, Source};
use crate::version;

/// Of a table by line, what is of a version.
fn keep_line(by_line: &mut BTreeMap<String, String>, version: &str) {
    let date = version::end_of_line(by_line, version).map(str::to_owned);
    by_line.retain(|line, day| {
        date.as_deref() == Some(day.as_str())
            && version.strip_prefix(line.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
}

impl Catalogue {
    /// What of the catalogue these requirements were computed from. The rest is left out, so that a bundle does not change
    /// when an unrelated version is added to the catalogue.
    #[must_use]
    pub fn used_by(&self, requirements: &Requirements) -> Self {
        let mut used = Self {
            schema: self.schema.clone(),
            overlays: self.overlays.clone(),
            kubernetes: String::new(),
            components: BTreeMap::new(),
            releases: BTreeMap::new(),
            images: Vec::new(),
            features: BTreeMap::new(),
            pins: BTreeMap::new(),
            os: self.os.clone(),
        };
        let references: BTreeSet<&str> = requirements
            .items
            .iter()
            .filter_map(|item| match &item.source {
                Source::Image { reference, .. } => Some(reference.as_str()),
                _ => None,
            })
            .collect();
        used.pins = self
            .pins
            .iter()
            .filter(|(name, _)| references.contains(name.as_str()))
            .map(|(n, p)| (n.clone(), *p))
            .collect();
        let Some(versions) = &requirements.versions else { return used };
        versions.kubernetes.bare().clone_into(&mut used.kubernetes);
        used.images =
            self.images.iter().filter(|rule| versions.images.contains_key(rule.name.as_str())).cloned().collect();
        for (name, version) in &versions.features {
            let Some(feature) = self.features.get(name) else { continue };
            let mut feature = feature.clone();
            feature.versions.retain(|known, _| known == version);
            keep_line(&mut feature.end_of_life, version);
            // An installer compares nothing, and a bundle does not change with the day of a comparison.
            feature.end_of_life_compared.clear();
            for known in feature.versions.values_mut() {
                (known.supports_compared, known.rendering_compared) = (None, None);
            }
            used.features.insert(name.clone(), feature);
        }
        let archs: BTreeSet<Arch> =
            requirements.items.iter().filter_map(|item| item.platform).map(|p| p.arch).collect();
        for item in &requirements.items {
            let ArtifactKey::Binary(program) = &item.key else { continue };
            let Some(component) = self.component(*program) else { continue };
            let mut component = component.clone();
            // a version without pins stays too: that it is known is what the installer needs
            let mut pins = component.versions.remove(&item.version).unwrap_or_default();
            pins.retain(|arch, _| archs.contains(arch));
            component.versions = BTreeMap::from([(item.version.clone(), pins)]);
            component.default = Some(item.version.clone());
            // Of this one version it says no more than of all.
            (component.verified, component.unverified, component.github) = (None, None, None);
            component.builds.retain(|build| build.versions.holds(&item.version));
            keep_line(&mut component.end_of_life, &item.version);
            component.end_of_life_compared.clear();
            used.components.insert(component.name.clone(), component);
        }
        if let Some(release) = self.release(versions.kubernetes.bare()) {
            let mut release = release.clone();
            (release.end_of_life_compared, release.support.recommended_containerd_compared) = (None, None);
            release.patches.retain(|range| range.holds(versions.kubernetes.patch()));
            // of no use where etcd is one of ours
            if versions.of(Program::Etcd).is_some() {
                release.support.minimum_etcd = None;
            }
            used.releases.insert(release.minor.clone(), release);
        }
        used
    }
}
