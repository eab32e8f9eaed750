//! Other tools' files as cluster.yaml: what can be carried over is; everything else is reported with its line and
//! reason.
//! Pure; no value that may be a secret is ever repeated. What is written is read by [`kubexm_spec::cluster::parse`], or
//! nothing is.

mod buildable;
mod cluster;
mod defaults;
mod error;
mod fields;
mod fit;
mod imported;
mod left;
mod live;
mod manifest;
mod scalar;
mod script;
mod secrets;
mod source;
#[cfg(test)]
mod tests;
mod yaml;

use kubexm_spec::yaml::{Data, Node, Problems};

pub use self::defaults::{Assumed, Defaults};
use self::error::MOST;
pub use self::error::{ImportError, KUBEKEY};
pub use self::imported::Imported;
pub use self::left::Left;
pub use self::live::live;
use self::source::Source;
use self::yaml::Map;

/// Imports a KubeKey file: its first Cluster or Manifest; other documents are reported. `defaults`: what becomes of fields that the
/// file leaves to KubeKey.
pub fn kubekey(text: &str, defaults: Defaults) -> Result<Imported, ImportError> {
    let (mut found, mut left, mut other) = (None, Vec::new(), None);
    for (before, document) in documents(text) {
        let mut tree = kubexm_spec::yaml::parse(&document).map_err(|Problems(mut problems)| {
            problems.iter_mut().for_each(|problem| problem.line += before);
            ImportError::Yaml(Problems(problems))
        })?;
        if move_down(&mut tree, before) > MOST {
            return Err(ImportError::Large);
        }
        let source = Source::new(&tree);
        let root = source.root();
        let text = |name: &str| root.get(name).and_then(|at| at.text()).unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let group = |version: &str| version.split('/').next().unwrap_or_default().to_owned();
        match (version.as_str(), kind.as_str()) {
            (KUBEKEY, "Cluster" | "Manifest") if found.is_none() => {
                let (made, assumed) = match kind.as_str() {
                    "Cluster" => cluster::cluster(&root, defaults),
                    _ => (manifest::manifest(&root), Vec::new()),
                };
                found = Some((kind, made, assumed));
                left.extend(source.left());
            }
            (version, "Cluster" | "Manifest") if version != KUBEKEY && group(version) == group(KUBEKEY) => {
                return Err(ImportError::Version { found: version.to_owned() });
            }
            _ => {
                let what = format!("{version} {kind}");
                let reason =
                    format!("the document {what:?} is none of KubeKey's own, or the second one; it is left out");
                left.push(Left { line: root.line(), path: String::new(), reason });
                other.get_or_insert(what);
            }
        }
    }
    let Some((kind, made, assumed)) = found else { return Err(ImportError::Other { found: other }) };
    let fitted = |made: Map| {
        fit::fit(made).map_err(|error| match error {
            ImportError::Refused(left) => ImportError::Refused(left.into_iter().map(shown).collect()),
            error => error,
        })
    };
    let mut made = made;
    let (mut cluster_yaml, mut taken_out) = fitted(made.clone())?;
    let twice = buildable::without_duplicates(&mut made, &cluster_yaml);
    if !twice.is_empty() {
        (cluster_yaml, taken_out) = fitted(made)?;
    }
    left.extend(twice);
    left.extend(taken_out);
    let not_buildable = buildable::problems(&cluster_yaml);
    if defaults == Defaults::Comment {
        cluster_yaml.push_str(&defaults::comments(&assumed));
    }
    let mut left: Vec<Left> = left.into_iter().map(shown).collect();
    left.sort_by_key(|left| left.line);
    Ok(Imported { kind, cluster_yaml, left, assumed, not_buildable })
}

/// Without logins that stand in it.
fn shown(left: Left) -> Left {
    Left { path: secrets::masked(&left.path), reason: secrets::masked(&left.reason), ..left }
}

/// The documents of a stream that have something in them, each with the number of lines before it.
fn documents(text: &str) -> Vec<(usize, String)> {
    let (mut all, mut current, mut start) = (Vec::new(), String::new(), 0);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (line, number) in text.lines().zip(0..) {
        let marker = |marker: &str| {
            line.strip_prefix(marker).filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
        };
        let mut line = line;
        if let Some(rest) = marker("---").or_else(|| marker("...")) {
            all.push((start, std::mem::take(&mut current)));
            start = number;
            line = rest;
        } else if line.starts_with('%') && current.trim().is_empty() {
            // A directive is of the parser, and comes before its document.
            line = "";
        }
        current.push_str(line);
        current.push('\n');
    }
    all.push((start, current));
    let says = |line: &str| !matches!(line.trim_start().chars().next(), None | Some('#'));
    all.retain(|(_, text)| text.lines().any(says));
    all
}

/// Lines of a document as lines of the file; how many values it has.
fn move_down(node: &mut Node, lines: usize) -> usize {
    node.line += lines;
    1 + match &mut node.data {
        Data::Scalar { .. } => 0,
        Data::Sequence(items) => items.iter_mut().map(|item| move_down(item, lines)).sum::<usize>(),
        Data::Mapping(entries) => entries
            .iter_mut()
            .map(|(key, node)| {
                key.line += lines;
                move_down(node, lines)
            })
            .sum(),
    }
}
