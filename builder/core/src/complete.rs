//! Is the bundle complete: does it carry everything its own cluster.yaml needs, by its own catalogue?

use kubexm_archive::{Documents, check_values};
use kubexm_manifests::{Catalogue, Requirement, require};
use kubexm_spec::{Cluster, Manifest};

use crate::BuildError;

/// Limits of the texts of a bundle in bytes: far above what any real one has.
const TEXT_LIMIT: u64 = 16 << 20;

/// The cluster that a bundle carries, and the catalogue it was built with.
pub struct Carried {
    /// Parsed from the member `cluster.yaml`.
    pub cluster: Cluster,
    /// Read from the member `catalogue.json`.
    pub catalogue: Catalogue,
}

/// Reads the two members that requirements are computed from.
pub fn carried(bundle: &dyn Documents) -> Result<Carried, BuildError> {
    let text = bundle.document("cluster.yaml", TEXT_LIMIT)?;
    let bad = |reason: String| BuildError::Member { member: "cluster.yaml", reason };
    let text = String::from_utf8(text).map_err(|e| bad(e.to_string()))?;
    let cluster = kubexm_spec::cluster::parse(&text).map_err(|problems| bad(problems.to_string()))?;
    Ok(Carried { cluster, catalogue: catalogue(bundle)? })
}

/// Reads the catalogue that a bundle was built with.
pub fn catalogue(bundle: &dyn Documents) -> Result<Catalogue, BuildError> {
    let json = bundle.document("catalogue.json", TEXT_LIMIT)?;
    let bad = |reason: String| BuildError::Member { member: "catalogue.json", reason };
    check_values(&json).map_err(|e| bad(format!("it {e}")))?;
    Ok(Catalogue::from_json(&json)?)
}

/// What the cluster needs and the manifest does not list.
pub fn missing(carried: &Carried, manifest: &Manifest) -> Result<Vec<Requirement>, BuildError> {
    let requirements = require(&carried.cluster, &carried.catalogue)?;
    Ok(requirements
        .items
        .into_iter()
        .filter(|needed| {
            !manifest
                .artifacts
                .iter()
                .any(|a| a.key == needed.key && a.platform == needed.platform && a.version == needed.version)
        })
        .collect())
}
