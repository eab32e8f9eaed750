//! Closed world: what the cluster requires is compared with what the bundle contains, before anything else.

use kubexm_manifests::require;
use kubexm_manifests::requirements::PackageNeed;
use kubexm_spec::ArtifactKey;

use crate::charts;
use crate::context::PlanContext;
use crate::error::RecipeError;
use crate::network;

/// Checks that every requirement of the cluster is in the bundle, in the catalogue's version; the error lists
/// everything that is missing. Then that its charts are those that it was built with,
/// and that a manifest of the pod network is as its recipe knows it.
pub fn check(cx: &PlanContext<'_>) -> Result<(), RecipeError> {
    let missing = missing(cx)?;
    if !missing.is_empty() {
        return Err(RecipeError::NotInBundle { missing });
    }
    charts::check(cx)?;
    network::check(cx)
}

/// What the cluster requires and the bundle does not contain, as text for people.
pub fn missing(cx: &PlanContext<'_>) -> Result<Vec<String>, RecipeError> {
    let requirements = require(cx.cluster, cx.catalogue).map_err(RecipeError::Catalogue)?;
    let mut missing = Vec::new();
    for item in &requirements.items {
        // Read from the bundle, or from the folder of the operator's own cluster.yaml.
        if let ArtifactKey::Material(name) = &item.key {
            if !cx.materials.contains_key(name) {
                missing.push(item.key.to_string());
            }
            continue;
        }
        let available: Vec<&str> = cx
            .manifest
            .artifacts
            .iter()
            .filter(|a| a.key == item.key && a.platform == item.platform)
            .map(|a| a.version.as_str())
            .collect();
        if !available.is_empty() && (item.version.is_empty() || available.contains(&item.version.as_str())) {
            continue;
        }
        let mut text = item.key.to_string();
        if !item.version.is_empty() {
            text = format!("{text} {}", item.version);
        }
        if let Some(platform) = item.platform {
            text = format!("{text} for {platform}");
        }
        if !available.is_empty() {
            text = format!("{text} (the bundle has {})", available.join(", "));
        }
        missing.push(text);
    }
    missing.extend(requirements.packages.iter().flat_map(|need| missing_packages(cx, need)));
    Ok(missing)
}

/// OS packages that nodes need, and that were not resolved when the bundle was built or are not in it.
fn missing_packages(cx: &PlanContext<'_>, need: &PackageNeed) -> Vec<String> {
    let PackageNeed { os, platform, roots, .. } = need;
    let Some(carried) = cx.packages.find(os, *platform) else {
        return vec![format!("packages of {os} for {platform}")];
    };
    let mut missing = Vec::new();
    for root in roots {
        if !carried.set.roots.iter().any(|one| one.name == root.name && one.packages == root.packages) {
            missing.push(format!("packages of {os} for {platform} for {}", root.name));
            continue;
        }
        for name in root.packages.iter().chain(&root.replaces) {
            let key = ArtifactKey::Package { os: os.clone(), name: name.clone() };
            if cx.manifest.find(&key, *platform).is_none() {
                missing.push(format!("{key} for {platform}"));
            }
        }
    }
    missing
}
