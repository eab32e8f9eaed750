//! Texts that cluster.yaml names, from the bundle or from the folder of the operator's own cluster.yaml.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubexm_archive::{Bundle, members};
use kubexm_files::{InputError, MaterialError, check_material, read_material};
use kubexm_recipes::Materials;
use kubexm_spec::cluster::{Cluster, MATERIAL_LIMIT, MaterialFile, MaterialOf};
use kubexm_spec::{ArtifactKey, Digest};

use crate::error::SessionError;

/// The materials of a cluster. A problem with them only stops planning: a run that is resumed or rolled back has its
/// texts already.
#[derive(Debug)]
pub struct ReadMaterials {
    /// By name.
    pub texts: Materials,
    /// Those that were read from disk and not from the bundle.
    from_disk: BTreeMap<String, PathBuf>,
    wrong: Arc<Vec<MaterialError>>,
}

impl ReadMaterials {
    /// Reads what a cluster names. A file in the folder of the operator's own cluster.yaml (`file`) takes precedence
    /// over the bundle's file of the same name.
    pub fn read(cluster: &Cluster, file: Option<&Path>, bundle: &Bundle) -> Self {
        let (mut texts, mut from_disk, mut wrong) = (Materials::new(), BTreeMap::new(), Vec::new());
        for material in cluster.materials() {
            let name = &material.file.name;
            let beside = file.map(|file| file.parent().unwrap_or(Path::new("")).join(name));
            let read = match beside.map(|path| (of_disk(&material, &path), path)) {
                Some((Some(read), path)) => {
                    from_disk.insert(name.clone(), path);
                    Some(read)
                }
                _ => of_bundle(&material, bundle),
            };
            match read {
                Some(Ok(text)) => drop(texts.insert(name.clone(), text)),
                Some(Err(error)) => wrong.push(error),
                // A missing material is reported by the closed-world check.
                None => {}
            }
        }
        Self { texts, from_disk, wrong: Arc::new(wrong) }
    }

    /// Fails if a text that was read cannot be used.
    pub fn check(&self) -> Result<(), SessionError> {
        if self.wrong.is_empty() { Ok(()) } else { Err(SessionError::Materials(Arc::clone(&self.wrong))) }
    }

    /// One line for each text that the bundle's signature does not cover.
    pub fn notes(&self) -> Vec<String> {
        let digest = |name: &str| self.texts.get(name).map(|text| Digest::of(text).to_string()).unwrap_or_default();
        let note = |(name, path): (&String, &PathBuf)| {
            format!("{name} of cluster.yaml is read from {} ({}), not from the bundle", path.display(), digest(name))
        };
        self.from_disk.iter().map(note).collect()
    }
}

/// None if there is no such file.
fn of_disk(material: &MaterialOf<'_>, path: &Path) -> Option<Result<String, MaterialError>> {
    let file = MaterialFile { path: path.to_owned(), name: material.file.name.clone() };
    match read_material(&MaterialOf { file: &file, field: material.field.clone(), usage: material.usage }) {
        Err(MaterialError::Input { source: InputError::Io { source, .. }, .. })
            if source.kind() == ErrorKind::NotFound =>
        {
            None
        }
        read => Some(read),
    }
}

/// None if the bundle has no such text. An unsigned bundle may contain anything under this name.
fn of_bundle(material: &MaterialOf<'_>, bundle: &Bundle) -> Option<Result<String, MaterialError>> {
    let key = ArtifactKey::Material(material.file.name.clone());
    let artifact = bundle.manifest().artifacts.iter().find(|artifact| artifact.key == key)?;
    let from = PathBuf::from(format!("{key} of {}", bundle.path().display()));
    Some(match bundle.read(&members::blob_name(&artifact.digest), MATERIAL_LIMIT) {
        Ok(bytes) => check_material(material, &from, bytes),
        Err(error) => {
            let source = std::io::Error::other(kubexm_spec::error_chain(&error));
            Err(MaterialError::Input { field: material.field.clone(), source: InputError::Io { path: from, source } })
        }
    })
}
