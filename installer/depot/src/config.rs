//! Files that the depot reads.

use std::path::Path;

use kubexm_spec::depot;

use crate::DepotError;

pub async fn read_config(config_path: &Path) -> Result<depot::DepotConfig, DepotError> {
    let path = config_path.display().to_string();
    let text = read(&path).await?;
    serde_json::from_slice(&text).map_err(|source| DepotError::Config { path, source })
}

pub async fn read(path: &str) -> Result<Vec<u8>, DepotError> {
    tokio::fs::read(path).await.map_err(|source| DepotError::Read { path: path.to_owned(), source })
}
