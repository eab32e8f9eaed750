//! A cluster.yaml of KubeKey's files, or of the images of a running cluster.

use std::path::{Path, PathBuf};

use kubexm_files::{is_stdout, put};
use kubexm_spec::{ExitCode, cluster};
use serde::Serialize;

use super::kinds;
use super::outputs::apart;
use crate::import::{Assumed, Defaults, ImportError, Left, kubekey, live as of_pods};
use crate::session::{Session, SessionError, local_files};

/// The most bytes that are read: the pods of a cluster of some thousand nodes.
const LIMIT: u64 = 256 << 20;

/// What a file became.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    schema: &'static str,
    /// As it was named.
    pub file: PathBuf,
    /// `Cluster`, `Manifest` or `PodList`.
    pub kind: String,
    /// Where cluster.yaml was written.
    pub output: Option<PathBuf>,
    pub cluster_yaml: String,
    pub not_carried_over: Vec<Left>,
    pub kubekey_defaults: Vec<Assumed>,
    /// Why cluster.yaml cannot be built as it is; none where it can.
    pub not_buildable: Vec<String>,
}

/// Reads a file, and writes cluster.yaml where `output` names a file. `live`: it is a list of pods.
pub fn import(
    session: &Session,
    file: &Path,
    live: bool,
    defaults: Defaults,
    output: Option<&Path>,
    force: bool,
    stdout: &dyn Fn(&[u8]),
) -> Result<Imported, SessionError> {
    let bytes = kubexm_files::read(file, LIMIT)?;
    let wrong = |e: ImportError| {
        let code = match e {
            ImportError::Encode(_) => ExitCode::Internal,
            _ => ExitCode::Config,
        };
        SessionError::refused(code, format!("{}: {e}", file.display()))
    };
    let text = kubexm_files::text_of(file, bytes)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let found = if live { of_pods(text.as_bytes()) } else { kubekey(text, defaults) };
    let mut found = found.map_err(wrong)?;
    found.not_buildable.extend(missing_files(session, &found.cluster_yaml, output)?);
    if let Some(output) = output {
        apart(output, &[file.to_owned()])?;
        put(output, &kinds::CLUSTER, force, found.cluster_yaml.as_bytes(), stdout)?;
    }
    Ok(Imported {
        schema: "kubexm.io/import/v1",
        file: file.to_owned(),
        kind: found.kind,
        output: output.map(Path::to_owned),
        cluster_yaml: found.cluster_yaml,
        not_carried_over: found.left,
        kubekey_defaults: found.assumed,
        not_buildable: found.not_buildable,
    })
}

/// Files that cluster.yaml names and that are not beside it: where it is written, or in this folder.
fn missing_files(session: &Session, cluster_yaml: &str, output: Option<&Path>) -> Result<Vec<String>, SessionError> {
    let Ok(cluster) = cluster::parse(cluster_yaml) else { return Ok(Vec::new()) };
    let folder = output.filter(|output| !is_stdout(output)).and_then(Path::parent).unwrap_or(Path::new(""));
    let missing = local_files::missing(&cluster, folder, session.environment())?.into_iter();
    let message = |(field, path): (String, PathBuf)| {
        format!("{field}: {} is not beside cluster.yaml; copy it there", path.display())
    };
    Ok(missing.map(message).collect())
}
