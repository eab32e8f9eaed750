//! Signatures of images, checked as `spec.bundle.imageSignatures` says: when images are locked, when a lock is built, and by what a
//! bundle carries.

mod carried;
mod locking;

use std::collections::BTreeMap;

use kubexm_signing::image::ImagePolicy;
use kubexm_spec::cluster::{Cluster, MaterialOf, MaterialUse};

use crate::BuildError;

pub use carried::{Carried, of_bundle};
pub use locking::{check_locked, complete};

/// Who must have signed which images, by the files beside cluster.yaml; none where it says nothing of that.
pub fn policy(cluster: &Cluster) -> Result<Option<ImagePolicy>, BuildError> {
    policy_of(cluster, &|material| kubexm_files::read_material(material).map_err(|e| BuildError::Material(Box::new(e))))
}

/// The same, with what gives each file.
fn policy_of(
    cluster: &Cluster,
    read: &dyn Fn(&MaterialOf<'_>) -> Result<String, BuildError>,
) -> Result<Option<ImagePolicy>, BuildError> {
    let mut texts = BTreeMap::new();
    for material in cluster.materials() {
        if matches!(material.usage, MaterialUse::PublicKey | MaterialUse::TrustedRoot) {
            texts.insert(material.file.name.clone(), read(&material)?);
        }
    }
    let text = |name: &str| texts.get(name).cloned().ok_or_else(|| "it is not there".to_owned());
    Ok(ImagePolicy::of(&cluster.bundle.image_signatures, &|file| text(&file.name))?)
}
