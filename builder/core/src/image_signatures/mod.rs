//! Signatures of images, checked as `spec.bundle.imageSignatures` says: when images are locked, when a lock is built, and by what a
//! bundle carries.

mod carried;
mod locking;
mod names;

use std::collections::BTreeMap;

use kubexm_files::MaterialRoom;
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
    let (mut texts, mut room) = (BTreeMap::new(), MaterialRoom::default());
    for material in cluster.materials() {
        if matches!(material.usage, MaterialUse::PublicKey | MaterialUse::TrustedRoot) {
            let (name, text) = (&material.file.name, read(&material)?);
            if !texts.contains_key(name) {
                room.take(&material, name.as_ref(), &text).map_err(|error| BuildError::Material(Box::new(error)))?;
                texts.insert(name.clone(), text);
            }
        }
    }
    let text = |name: &str| texts.get(name).cloned().ok_or_else(|| "it is not there".to_owned());
    Ok(ImagePolicy::of(&cluster.bundle.image_signatures, &|file| text(&file.name))?)
}
