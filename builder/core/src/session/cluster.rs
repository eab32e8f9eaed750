//! cluster.yaml and the catalogue, as a user hands them in.

use std::path::{Path, PathBuf};

use kubexm_files::TEXT_LIMIT;
use kubexm_manifests::Catalogue;
use kubexm_spec::{Cluster, cluster, names};

use super::{Session, SessionError, local_files};

impl Session {
    /// The cluster's text (which travels in the bundle) and what it says, its paths made ready to be opened. Without a file, a
    /// cluster of defaults in this version of Kubernetes.
    pub fn cluster(&self, file: Option<&Path>, kubernetes: Option<&str>) -> Result<(String, Cluster), SessionError> {
        let text = text(file, kubernetes)?;
        let mut cluster = cluster::parse(&text).map_err(|problems| problems_of(file, problems))?;
        if let Some(folder) = file.and_then(Path::parent) {
            local_files::place(&mut cluster, folder, &self.environment)?;
        }
        Ok((text, cluster))
    }

    /// The cluster with what of it was written, its paths as they are.
    pub fn cluster_as_written(
        &self,
        file: Option<&Path>,
        kubernetes: Option<&str>,
    ) -> Result<cluster::Read, SessionError> {
        cluster::read(&text(file, kubernetes)?).map_err(|problems| problems_of(file, problems))
    }

    /// The embedded catalogue with the user's overlays in order.
    pub fn catalogue(&self, overlays: &[PathBuf]) -> Result<Catalogue, SessionError> {
        overlays.iter().try_fold(Catalogue::embedded(), |catalogue, path| {
            catalogue
                .overlaid(&read(path)?)
                .map_err(|source| SessionError::Overlay { path: path.clone(), source: Box::new(source) })
        })
    }
}

/// The text of a file of the user; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<String, SessionError> {
    Ok(kubexm_files::read_text(path, TEXT_LIMIT)?)
}

fn text(file: Option<&Path>, kubernetes: Option<&str>) -> Result<String, SessionError> {
    file.map_or_else(|| Ok(text_for_version(kubernetes)), read)
}

fn problems_of(file: Option<&Path>, problems: cluster::Problems) -> SessionError {
    let name = match file {
        None => "--kubernetes".to_owned(),
        Some(path) if path == Path::new("-") => "standard input".to_owned(),
        Some(path) => path.display().to_string(),
    };
    SessionError::Problems { name, problems }
}

/// cluster.yaml of a bundle that is built from defaults. A JSON string is a YAML string, whatever the user typed.
fn text_for_version(version: Option<&str>) -> String {
    let mut text =
        format!("apiVersion: {}\nkind: Cluster\nmetadata:\n  name: kubernetes\nspec:\n", names::CLUSTER_API_VERSION);
    match version {
        Some(version) => text.push_str(&format!("  kubernetes:\n    version: {}\n", serde_json::Value::from(version))),
        None => text.push_str("  kubernetes: {}\n"),
    }
    text
}
