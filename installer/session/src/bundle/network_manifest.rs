//! The manifest of a pod network that comes as one, which a recipe changes and puts into the plan.

use kubexm_archive::{Bundle, members};
use kubexm_plan::network;
use kubexm_spec::{ArtifactKey, Cluster};

use crate::error::SessionError;

/// The most bytes of it; Calico's has 0.5 MiB.
const LIMIT: u64 = 8 << 20;

/// None if the network has none. What the bundle lacks is reported by the closed-world check.
pub fn read(cluster: &Cluster, bundle: &Bundle) -> Result<Option<String>, SessionError> {
    let Some(program) = network::of(cluster.network.plugin).manifest else {
        return Ok(None);
    };
    let key = ArtifactKey::Binary(program);
    // The same file for every architecture.
    let Some(artifact) = bundle.manifest().artifacts.iter().find(|artifact| artifact.key == key) else {
        return Ok(None);
    };
    let bytes = bundle.read(&members::blob_name(&artifact.digest), LIMIT)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
