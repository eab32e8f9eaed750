//! No files of a crate need each other in a circle: a file can be read, tested and moved with those below it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use super::source::Source;

/// For each pair of files, the names that the first takes from the second.
pub type Ties = BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>;

/// The files of a circle, in order, and what ties each to another.
pub struct Circle {
    pub files: BTreeSet<PathBuf>,
    ties: Ties,
}

impl std::fmt::Display for Circle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} files need each other:", self.files.len())?;
        for ((from, to), names) in &self.ties {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            writeln!(f, "  {} -> {}: {}", from.display(), to.display(), names.join(", "))?;
        }
        Ok(())
    }
}

/// What the files of a crate take from each other; `root` is its `lib.rs` or `main.rs`.
pub fn ties(root: &Path) -> Ties {
    let source = Source::read(root);
    let mut ties = Ties::new();
    for (number, module) in source.modules.iter().enumerate() {
        for path in &module.used {
            let Some(defining) = source.defining(number, path) else { continue };
            let file = &source.modules[defining].file;
            if *file != module.file {
                let names = ties.entry((module.file.clone(), file.clone())).or_default();
                names.insert(path.last().unwrap().clone());
            }
        }
    }
    ties
}

pub fn circles(ties: &Ties) -> Vec<Circle> {
    let mut graph = DiGraph::<&Path, ()>::new();
    let files: BTreeSet<&Path> = ties.keys().flat_map(|(from, to)| [from.as_path(), to.as_path()]).collect();
    let nodes: BTreeMap<&Path, _> = files.into_iter().map(|file| (file, graph.add_node(file))).collect();
    for (from, to) in ties.keys() {
        graph.add_edge(nodes[from.as_path()], nodes[to.as_path()], ());
    }
    let mut circles: Vec<_> = tarjan_scc(&graph)
        .into_iter()
        .filter(|files| files.len() > 1)
        .map(|files| {
            let files: BTreeSet<PathBuf> = files.into_iter().map(|node| graph[node].to_owned()).collect();
            let inside = |(from, to): &(PathBuf, PathBuf)| files.contains(from) && files.contains(to);
            let ties = ties.iter().filter(|(pair, _)| inside(pair)).map(|(k, v)| (k.clone(), v.clone())).collect();
            Circle { files, ties }
        })
        .collect();
    circles.sort_by(|a, b| a.files.cmp(&b.files));
    circles
}
