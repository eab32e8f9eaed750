//! The closed world: what the cluster requires is compared with what the bundle holds, before anything else.

use kubexm_manifests::require;

use crate::context::PlanCx;
use crate::error::RecipeError;

/// Every requirement of the cluster is in the bundle, in the version that its catalogue says; all that lacks is named.
pub fn check(cx: &PlanCx<'_>) -> Result<(), RecipeError> {
    let missing = missing(cx)?;
    if missing.is_empty() { Ok(()) } else { Err(RecipeError::NotInBundle { missing }) }
}

/// What the cluster requires and the bundle lacks, for people.
pub fn missing(cx: &PlanCx<'_>) -> Result<Vec<String>, RecipeError> {
    let requirements = require(cx.cluster, cx.catalogue).map_err(RecipeError::Catalogue)?;
    let mut missing = Vec::new();
    for item in &requirements.items {
        let held: Vec<&str> = cx
            .manifest
            .artifacts
            .iter()
            .filter(|a| a.key == item.key && a.platform == item.platform)
            .map(|a| a.version.as_str())
            .collect();
        if !held.is_empty() && (item.version.is_empty() || held.contains(&item.version.as_str())) {
            continue;
        }
        let mut text = item.key.to_string();
        if !item.version.is_empty() {
            text = format!("{text} {}", item.version);
        }
        if let Some(platform) = item.platform {
            text = format!("{text} for {platform}");
        }
        if !held.is_empty() {
            text = format!("{text} (the bundle has {})", held.join(", "));
        }
        missing.push(text);
    }
    Ok(missing)
}
