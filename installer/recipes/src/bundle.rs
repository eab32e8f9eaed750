//! Closed world: what the cluster requires is compared with what the bundle contains, before anything else.

use std::collections::HashMap;

use kubexm_manifests::require;
use kubexm_manifests::requirements::PackageNeed;
use kubexm_spec::lock::PackageRoot;
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ArtifactKey, ByArtifact};

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
    let listed = cx.manifest.by_artifact();
    let mut missing = Vec::new();
    for item in &requirements.items {
        // Read from the bundle, or from the folder of the operator's own cluster.yaml.
        if let ArtifactKey::Material(name) = &item.key {
            if !cx.materials.contains_key(name) {
                missing.push(item.key.to_string());
            }
            continue;
        }
        let available = listed.find(&item.key, item.platform).map(|artifact| artifact.version.as_str());
        if available.is_some_and(|version| item.version.is_empty() || version == item.version) {
            continue;
        }
        let mut text = item.key.to_string();
        if !item.version.is_empty() {
            text = format!("{text} {}", item.version);
        }
        if let Some(platform) = item.platform {
            text = format!("{text} for {platform}");
        }
        if let Some(version) = available {
            text = format!("{text} (the bundle has {version})");
        }
        missing.push(text);
    }
    missing.extend(requirements.packages.iter().flat_map(|need| missing_packages(cx, &listed, need)));
    Ok(missing)
}

/// OS packages that nodes need, and that were not resolved when the bundle was built or are not in it.
fn missing_packages(cx: &PlanContext<'_>, listed: &ByArtifact<'_, Artifact>, need: &PackageNeed) -> Vec<String> {
    let PackageNeed { os, platform, roots, .. } = need;
    let Some(carried) = cx.packages.find(os, *platform) else {
        return vec![format!("packages of {os} for {platform}")];
    };
    let mut resolved: HashMap<&str, Vec<&PackageRoot>> = HashMap::new();
    for one in &carried.set.roots {
        resolved.entry(&one.name).or_default().push(one);
    }
    let mut missing = Vec::new();
    for root in roots {
        let same =
            resolved.get(root.name.as_str()).is_some_and(|all| all.iter().any(|one| one.packages == root.packages));
        if !same {
            missing.push(format!("packages of {os} for {platform} for {}", root.name));
            continue;
        }
        for name in root.packages.iter().chain(&root.replaces) {
            let key = ArtifactKey::Package { os: os.clone(), name: name.clone() };
            if listed.find(&key, Some(*platform)).or_else(|| listed.find(&key, None)).is_none() {
                missing.push(format!("{key} for {platform}"));
            }
        }
    }
    missing
}
