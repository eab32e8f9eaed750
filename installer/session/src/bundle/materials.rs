//! Texts that cluster.yaml names, from the bundle or from the folder of the operator's own cluster.yaml.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubexm_archive::{Bundle, members};
use kubexm_files::{InputError, MaterialError, MaterialRoom, check_material, read_material};
use kubexm_recipes::Materials;
use kubexm_spec::cluster::{Cluster, MATERIAL_LIMIT, MaterialFile, MaterialOf};
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ArtifactKey, ByArtifact, Digest};

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
        Self::read_into(MaterialRoom::default(), cluster, file, bundle)
    }

    fn read_into(mut room: MaterialRoom, cluster: &Cluster, file: Option<&Path>, bundle: &Bundle) -> Self {
        let (mut texts, mut from_disk, mut wrong) = (Materials::new(), BTreeMap::new(), Vec::new());
        let artifacts = bundle.manifest().by_artifact();
        for material in cluster.materials() {
            let name = &material.file.name;
            let beside = file.map(|file| file.parent().unwrap_or(Path::new("")).join(name));
            let read = match beside.map(|path| (of_disk(&material, &path), path)) {
                Some((Some(read), path)) => {
                    from_disk.insert(name.clone(), path);
                    Some(read)
                }
                _ => of_bundle(&material, &artifacts, bundle),
            };
            match read {
                // Another field may name it, too, with other demands on its content.
                Some(Ok(_)) if texts.contains_key(name) => {}
                Some(Ok(text)) => match room.take(&material, Path::new(name), &text) {
                    Ok(()) => drop(texts.insert(name.clone(), text)),
                    Err(error) => {
                        wrong.push(error);
                        break;
                    }
                },
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
fn of_bundle(
    material: &MaterialOf<'_>,
    artifacts: &ByArtifact<'_, Artifact>,
    bundle: &Bundle,
) -> Option<Result<String, MaterialError>> {
    let key = ArtifactKey::Material(material.file.name.clone());
    let artifact = artifacts.find(&key, None)?;
    let from = PathBuf::from(format!("{key} of {}", bundle.path().display()));
    Some(match bundle.read(&members::blob_name(&artifact.digest), MATERIAL_LIMIT) {
        Ok(bytes) => check_material(material, &from, bytes),
        Err(error) => {
            let source = std::io::Error::other(kubexm_spec::error_chain(&error));
            Err(MaterialError::Input { field: material.field.clone(), source: InputError::Io { path: from, source } })
        }
    })
}

#[cfg(test)]
mod tests {
    use kubexm_archive::{Input, Options, write};
    use kubexm_manifests::Catalogue;
    use kubexm_recipes::sample;
    use kubexm_spec::manifest::{Blob, Manifest, Member};

    use super::*;

    #[test]
    fn one_text_under_many_names_is_kept_only_while_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = sample::cluster();
        let names: Vec<String> = (0..20).map(|at| format!("m{at}")).collect();
        let script =
            format!("system: {{preInstall: [{{name: x, bash: \"true\", materials: [{}]}}]}}", names.join(", "));
        let text =
            format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: c}}\nspec: {{{script}}}\n");
        cluster.system = kubexm_spec::cluster::parse(&text).unwrap().system;
        let content = " ".repeat(1000).into_bytes();
        let digest = Digest::of(&content);
        let mut manifest = sample::manifest(&cluster, &Catalogue::embedded()).unwrap();
        manifest.artifacts.retain(|artifact| matches!(artifact.key, ArtifactKey::Material(_)));
        for artifact in &mut manifest.artifacts {
            (artifact.digest, artifact.blobs) = (digest, vec![Blob { digest, size: 1000 }]);
        }
        assert_eq!(manifest.artifacts.len(), 20);
        let name = members::blob_name(&digest);
        let members = vec![Member { name: name.clone(), size: 1000, sha256: digest }];
        let path = folder.path().join("a.tar.zst");
        let inputs = vec![Input::bytes(name, content)];
        write(&path, &Manifest { members, ..manifest }, inputs, &Options::default(), &|_, _| {}).unwrap();
        let bundle = Bundle::open(&path).unwrap();
        let read = |room| ReadMaterials::read_into(room, &cluster, None, &bundle);
        let few = read(MaterialRoom::of(5500));
        assert_eq!(few.texts.len(), 5);
        let error = few.check().unwrap_err().to_string();
        assert!(error.contains("materials[5]: with m5") && error.contains("5500 bytes together"), "{error}");
        let all = read(MaterialRoom::of(20_000));
        assert_eq!((all.texts.len(), all.check().is_ok()), (20, true));
    }
}
