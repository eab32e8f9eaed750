//! Is the bundle complete: does it carry everything its own cluster.yaml needs, by its own catalogue?

use kubexm_archive::{DOCUMENT_LIMIT, Documents, check_values, read_lock};
use kubexm_manifests::{Catalogue, Requirement, require_of_bundle};
use kubexm_spec::{ArtifactKey, Cluster, Lock, Manifest};

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
    Ok(Carried { cluster: cluster(bundle)?, catalogue: catalogue(bundle)? })
}

/// Reads the cluster that a bundle was built for.
pub fn cluster(bundle: &dyn Documents) -> Result<Cluster, BuildError> {
    let text = bundle.document("cluster.yaml", TEXT_LIMIT)?;
    let bad = |reason: String| BuildError::Member { member: "cluster.yaml", reason };
    let text = String::from_utf8(text).map_err(|e| bad(e.to_string()))?;
    kubexm_spec::cluster::parse(&text).map_err(|problems| bad(problems.to_string()))
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
    let requirements = require_of_bundle(&carried.cluster, &carried.catalogue)?;
    let listed = manifest.by_artifact();
    let is_there = |needed: &Requirement| {
        listed.find(&needed.key, needed.platform).is_some_and(|artifact| artifact.version == needed.version)
    };
    Ok(requirements.items.into_iter().filter(|needed| !is_there(needed)).collect())
}

/// Packages that the bundle's own lock speaks of and the manifest does not list, and systems of its cluster that the lock has no
/// packages of. Which packages nodes need is the lock's word: another program's table may be another.
pub fn packages(carried: &Carried, bundle: &dyn Documents) -> Result<Vec<String>, BuildError> {
    let needs = require_of_bundle(&carried.cluster, &carried.catalogue)?.packages;
    if needs.is_empty() {
        return Ok(Vec::new());
    }
    let lock = lock(bundle)?;
    let listed = bundle.manifest().by_artifact();
    let mut missing = Vec::new();
    for need in &needs {
        let (os, platform) = (&need.os, need.platform);
        let Some(set) = lock.packages.iter().find(|set| set.os == *os && set.platform == platform) else {
            missing.push(format!("packages of {os} {platform}"));
            continue;
        };
        for (name, because) in &set.because {
            let key = ArtifactKey::Package { os: os.clone(), name: name.clone() };
            if listed.find(&key, Some(platform)).is_none() {
                missing.push(format!("{key} {platform} ({because})"));
            }
        }
    }
    Ok(missing)
}

/// Reads the lock that a bundle was built from.
pub fn lock(bundle: &dyn Documents) -> Result<Lock, BuildError> {
    let yaml = bundle.document("lock.yaml", DOCUMENT_LIMIT)?;
    read_lock(&yaml).map_err(|reason| BuildError::Member { member: "lock.yaml", reason })
}
