//! Other tools' files as cluster.yaml: what can be carried over is, and of everything else is said where it stands and why.
//! Pure; no value that may be a secret is ever repeated.

mod cluster;
mod live;
mod manifest;
mod source;
mod yaml;

use kubexm_spec::yaml::Problems;

pub use self::live::live;
use self::source::Source;

/// The `apiVersion` of the files that are read.
pub const KUBEKEY: &str = "kubekey.kubesphere.io/v1alpha2";

/// What a file became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// `Cluster`, `Manifest` or `PodList`.
    pub kind: String,
    /// A cluster.yaml.
    pub cluster_yaml: String,
    /// What it does not say that the file said, in the order of lines.
    pub left: Vec<Left>,
}

/// Something that was not carried over, or not as it was.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Left {
    /// Counted from 1; 0 where the input has no lines.
    pub line: usize,
    /// `spec.hosts[0].password`.
    pub path: String,
    /// Why, and what to do about it.
    pub reason: String,
}

/// Why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is no YAML.
    #[error("it cannot be read:\n{0}")]
    Yaml(Problems),
    /// It is no JSON of pods.
    #[error("it is no list of pods, as `kubectl get pods -A -o json` prints it: {0}")]
    Pods(String),
    /// Another version.
    #[error("it is of {found}, and {KUBEKEY} is read: write it anew with the kk of that version")]
    Version {
        /// Its `apiVersion`.
        found: String,
    },
    /// Something else.
    #[error("it holds no Cluster and no Manifest of {KUBEKEY}{}", .found.as_ref().map(|found| format!(", but {found}")).unwrap_or_default())]
    Other {
        /// Its `apiVersion` and `kind`.
        found: Option<String>,
    },
    /// A data structure of ours could not be written as text.
    #[error("cannot write cluster.yaml as text: {0}")]
    Encode(String),
}

/// Imports a KubeKey file: its first Cluster or Manifest; other documents are told.
pub fn kubekey(text: &str) -> Result<Imported, ImportError> {
    let (mut found, mut left, mut other) = (None, Vec::new(), None);
    for (before, document) in documents(text) {
        // A document keeps its lines.
        let padded = format!("{}{document}", "\n".repeat(before));
        let tree = kubexm_spec::yaml::parse(&padded).map_err(ImportError::Yaml)?;
        if tree.is_null() {
            continue;
        }
        let source = Source::new(&tree);
        let root = source.root();
        let text = |name: &str| root.get(name).and_then(|at| at.text()).unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let group = |version: &str| version.split('/').next().unwrap_or_default().to_owned();
        match (version.as_str(), kind.as_str()) {
            (KUBEKEY, "Cluster" | "Manifest") if found.is_none() => {
                let made = if kind == "Cluster" { cluster::cluster(&root) } else { manifest::manifest(&root) };
                found = Some((kind, made));
                left.extend(source.left());
            }
            (version, "Cluster" | "Manifest") if version != KUBEKEY && group(version) == group(KUBEKEY) => {
                return Err(ImportError::Version { found: version.to_owned() });
            }
            _ => {
                let what = format!("{version} {kind}");
                let reason = format!("the document {what:?} is none of KubeKey's own; it is left out");
                left.push(Left { line: root.line(), path: String::new(), reason });
                other.get_or_insert(what);
            }
        }
    }
    let Some((kind, made)) = found else { return Err(ImportError::Other { found: other }) };
    let cluster_yaml = yaml::text(&made).map_err(ImportError::Encode)?;
    left.sort_by_key(|left| left.line);
    Ok(Imported { kind, cluster_yaml, left })
}

/// The documents of a stream, each with the number of lines before it.
fn documents(text: &str) -> Vec<(usize, String)> {
    let (mut all, mut current, mut start) = (Vec::new(), String::new(), 0);
    for (line, number) in text.lines().zip(0..) {
        if line.trim_end() == "---" {
            all.push((start, std::mem::take(&mut current)));
            start = number + 1;
            continue;
        }
        current.push_str(line);
        current.push('\n');
    }
    all.push((start, current));
    all
}
