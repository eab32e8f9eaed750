//! The whole cluster: every field, every default called one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kubexm_manifests::{Catalogue, RequireError, require};
use kubexm_spec::cluster::{self, Read, RuntimeKind};
use kubexm_spec::{Program, error_chain, unsupported};
use serde::Serialize;
use serde_json::Value;

use crate::session::{Session, SessionError};

/// The cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    schema: &'static str,
    pub file: Option<PathBuf>,
    pub cluster: Value,
    /// Paths that nobody wrote.
    pub defaults: Vec<String>,
    /// Versions that the file leaves to the catalogue, by path.
    pub chosen: BTreeMap<String, String>,
    /// What kubexm-install refuses.
    pub not_installed: Vec<NotInstalled>,
    /// Why the catalogue refuses the cluster.
    pub warnings: Vec<String>,
    /// The same for people: cluster.yaml with comments.
    #[serde(skip)]
    pub yaml: String,
}

/// A field that no recipe installs.
#[derive(Debug, Serialize)]
pub struct NotInstalled {
    pub path: String,
    pub value: String,
    pub instead: String,
    #[serde(skip)]
    pub text: String,
}

/// Writes out a cluster.yaml, or the defaults for a version of Kubernetes.
pub fn config(
    session: &Session,
    file: Option<&Path>,
    kubernetes: Option<&str>,
    overlays: &[PathBuf],
) -> Result<Config, SessionError> {
    let read = session.cluster_as_written(file, kubernetes)?;
    let catalogue = session.catalogue(overlays)?;
    // That the catalogue refuses the cluster is build's to end with: here it would hide what was asked for.
    let (chosen, warning) = match chosen(&read, &catalogue) {
        Ok(chosen) => (chosen, None),
        Err(error) => (BTreeMap::new(), Some(error_chain(&error))),
    };
    let shown = cluster::show(&read, &chosen);
    let rows = unsupported::check(&read.cluster).into_iter().map(|row| NotInstalled {
        text: row.to_string(),
        path: row.path,
        value: row.value,
        instead: row.instead,
    });
    Ok(Config {
        schema: "kubexm.io/config/v1",
        file: file.map(Path::to_owned),
        cluster: shown.document,
        defaults: shown.defaults,
        chosen,
        not_installed: rows.collect(),
        warnings: warning.into_iter().collect(),
        yaml: shown.yaml,
    })
}

/// Versions that the file leaves to the catalogue, by path.
fn chosen(read: &Read, catalogue: &Catalogue) -> Result<BTreeMap<String, String>, RequireError> {
    let Some(versions) = require(&read.cluster, catalogue)?.versions else { return Ok(BTreeMap::new()) };
    let runtime = match read.cluster.runtime.kind {
        RuntimeKind::Containerd => Some(Program::Containerd),
        RuntimeKind::Docker => Some(Program::Docker),
        RuntimeKind::CriO => Some(Program::CriO),
        // Of the packages of the operating system.
        RuntimeKind::Isulad => None,
    };
    let runtime = runtime.and_then(|program| versions.of(program)).map(str::to_owned);
    let all = [("spec.kubernetes.version", Some(versions.kubernetes.to_string())), ("spec.runtime.version", runtime)];
    let left = |path: &str| !read.written.contains(path);
    Ok(all.into_iter().filter(|(path, _)| left(path)).filter_map(|(path, v)| Some((path.to_owned(), v?))).collect())
}
