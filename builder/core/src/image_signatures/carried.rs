//! What a bundle says of signatures of its images, checked by what it carries: rules, keys, signatures.

use kubexm_archive::{Documents, members};
use kubexm_files::check_material;
use kubexm_signing::image::{Image, check};
use kubexm_spec::cluster::{MATERIAL_LIMIT, MaterialOf};
use kubexm_spec::lock::{Content, Descriptor, LockItem, SignatureCheck};
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ArtifactKey, ByArtifact, Kind, Lock, Manifest, error_chain};
use kubexm_transport::oci::MANIFEST_LIMIT;

use super::{names, policy_of};
use crate::{BuildError, complete};

/// What was found in a bundle.
#[derive(Debug, Default)]
pub struct Carried {
    /// Images that are signed as the bundle's cluster.yaml demands, by number; each platform counts.
    pub signed: usize,
    /// Images that its rules accept without a check.
    pub accepted: usize,
    /// Images that are not signed as demanded, or otherwise than the lock says.
    pub problems: Vec<String>,
}

/// Checks every image of a bundle; none where its cluster.yaml says nothing of signatures. The bytes of the bundle are known to be right.
pub fn of_bundle(bundle: &dyn Documents) -> Result<Option<Carried>, BuildError> {
    let cluster = complete::cluster(bundle)?;
    let Some(policy) = policy_of(&cluster, &|material| text(material, bundle))? else { return Ok(None) };
    let lock = complete::lock(bundle)?;
    let read = |wanted: &Descriptor| {
        let name = members::blob_name(&wanted.digest);
        bundle.document(&name, MANIFEST_LIMIT).map_err(|error| error_chain(&error))
    };
    let (mut found, items) = (Carried::default(), lock.by_artifact());
    // Nodes are given what the manifest lists, by its key or by its name; the lock has more about it.
    let is_image = |artifact: &&Artifact| artifact.manifest.is_some() || artifact.key.kind() == Kind::Image;
    for artifact in bundle.manifest().artifacts.iter().filter(is_image) {
        let shown = &artifact.name;
        let Some((image, signed)) = locked(artifact, &items) else {
            found.problems.push(format!("{shown}: the lock of the bundle has another image, or none"));
            continue;
        };
        match check(&policy, &image, &read) {
            Err(unsigned) => found.problems.push(unsigned.to_string()),
            Ok(now) if Some(&now) != signed => {
                let was = signed.map_or_else(|| "nothing of its signature".to_owned(), ToString::to_string);
                found.problems.push(format!("{shown}: the lock of the bundle says {was}, and it is {now}"));
            }
            Ok(now) if now.signature.is_some() => found.signed += 1,
            Ok(_) => found.accepted += 1,
        }
    }
    found.problems.extend(unlisted(bundle.manifest(), &lock));
    found.problems.extend(names::problems(bundle, &lock)?);
    Ok(Some(found))
}

/// Images of the lock that the manifest does not list, or not under their key: nobody judged them, and a registry is seeded
/// with all that the lock has.
fn unlisted<'a>(manifest: &'a Manifest, lock: &'a Lock) -> impl Iterator<Item = String> + use<'a> {
    let listed = manifest.by_artifact();
    let images = lock.items.iter().filter_map(|item| Some((item, Image::of(&item.content)?)));
    images
        .filter(move |(item, image)| {
            let artifact = listed.find(&item.key, item.platform);
            artifact.is_none_or(|artifact| !is_same(image, artifact))
        })
        .map(|(_, image)| format!("{}: the lock of the bundle has it, and its manifest does not", image.reference))
}

/// What the lock says of an image that the manifest lists.
fn locked<'l>(
    artifact: &Artifact,
    items: &ByArtifact<'l, LockItem>,
) -> Option<(Image<'l>, Option<&'l SignatureCheck>)> {
    let item = items.find(&artifact.key, artifact.platform)?;
    let (image, Content::Image { signed, .. }) = (Image::of(&item.content)?, &item.content) else { return None };
    is_same(&image, artifact).then_some((image, signed.as_deref()))
}

/// Whether an image of the lock is what the manifest lists.
fn is_same(image: &Image<'_>, artifact: &Artifact) -> bool {
    image.reference == artifact.name
        && image.target.digest == artifact.digest
        && Some(image.manifest.digest) == artifact.manifest
}

/// A file that a rule names.
fn text(material: &MaterialOf<'_>, bundle: &dyn Documents) -> Result<String, BuildError> {
    let key = ArtifactKey::Material(material.file.name.clone());
    let artifact = bundle.manifest().artifacts.iter().find(|artifact| artifact.key == key);
    let name = artifact.map(|artifact| members::blob_name(&artifact.digest));
    let name = name.ok_or_else(|| BuildError::MissingMaterial { field: material.field.clone(), key: key.clone() })?;
    let bytes = bundle.document(&name, MATERIAL_LIMIT)?;
    let from = format!("{key} of {}", bundle.path().display());
    check_material(material, from.as_ref(), bytes).map_err(|error| BuildError::Material(Box::new(error)))
}
