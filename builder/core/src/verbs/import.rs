//! A cluster.yaml of KubeKey's files, or of the images of a running cluster.

use std::path::{Path, PathBuf};

use kubexm_files::put;
use kubexm_spec::ExitCode;
use serde::Serialize;

use super::kinds;
use super::outputs::apart;
use crate::import::{Assumed, Defaults, ImportError, Left, kubekey, live as of_pods};
use crate::session::SessionError;

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
    let found = found.map_err(wrong)?;
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
