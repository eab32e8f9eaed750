//! What the cluster's earlier bundles have: their references go on being answered, so that a pod of before starts again on any node.

use std::path::Path;

use kubexm_spec::depot::{BUNDLES, DepotConfig};

use crate::DepotError;
use crate::config::read_config;

/// Adds the images and files of the configs beside this one. Where names meet, what is there already stays: it is that of the bundle
/// which the config was written for.
pub async fn add(config: &mut DepotConfig, config_path: &Path) -> Result<(), DepotError> {
    for path in configs(&config_path.with_file_name(BUNDLES)).await? {
        // One that cannot be read costs its own images alone.
        match read_config(Path::new(&path)).await {
            Ok(earlier) => config.add_earlier(earlier),
            Err(error) => tracing::error!(error = %kubexm_spec::error_chain(&error), "an earlier bundle is not served"),
        }
    }
    Ok(())
}

/// Newest first.
async fn configs(folder: &Path) -> Result<Vec<String>, DepotError> {
    let failed = |source| DepotError::Read { path: folder.display().to_string(), source };
    let mut entries = match tokio::fs::read_dir(folder).await {
        // Written by a program from before there were several.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut configs = Vec::new();
    while let Some(entry) = entries.next_entry().await.map_err(failed)? {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let written = entry.metadata().await.and_then(|metadata| metadata.modified()).map_err(failed)?;
            configs.push((written, path.display().to_string()));
        }
    }
    configs.sort_by(|a, b| b.cmp(a));
    Ok(configs.into_iter().map(|(_, path)| path).collect())
}
