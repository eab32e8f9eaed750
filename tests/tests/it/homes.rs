//! What a runtime or a pod network is called is in its home, and nowhere else in what ships.

use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// Names that only homes may spell: units, sockets, folders, links, chains, namespaces.
const NAMES: [&str; 13] = [
    "containerd",
    "crio",
    "cri-o",
    "dockerd",
    "isula",
    "conmon",
    "flannel",
    "calico",
    "cilium_",
    "ovn",
    "hybridnet",
    "cni0",
    "vxlan",
];

/// Where they may stand, below `installer/`, and why.
const HOMES: [(&str, &str); 20] = [
    ("plan/src/runtime/", "traits of runtimes"),
    ("plan/src/network/", "traits of networks"),
    ("recipes/src/runtime/", "recipes of runtimes"),
    ("recipes/src/network/", "recipes of networks"),
    ("recipes/src/sample.rs", "the lab's manifest"),
    ("plan/src/op/image_loaded.rs", "the default of a field that older plans lack"),
    ("plan/src/op/probe.rs", "the same"),
    ("ops/src/ops/image_loaded.rs", "images by ctr"),
    ("ops/src/image_list.rs", "what ctr prints"),
    ("ops/src/containers.rs", "which runtime's program is asked"),
    ("ops/src/ctr.rs", "containers by ctr"),
    ("ops/src/docker.rs", "images and containers by docker"),
    ("ops/src/crictl.rs", "images and containers by crictl"),
    ("ops/src/isulad.rs", "images and containers by isula"),
    ("ops/src/lib.rs", "the name of that module"),
    ("ops/src/probe/", "what a runtime says of itself"),
    ("ops/src/oci_archive.rs", "an annotation of the archive format"),
    ("ops/src/fake/", "the fake programs themselves"),
    ("engine/src/sim/keys.rs", "where simulated images lie"),
    ("seed/src/map.rs", "texts for operators: files of runtimes that are not kubexm's"),
];

fn sources(crate_: &Path) -> impl Iterator<Item = PathBuf> {
    let files = WalkDir::new(crate_.join("src")).sort_by_file_name().into_iter().flatten();
    files.map(walkdir::DirEntry::into_path).filter(|path| path.extension().is_some_and(|end| end == "rs"))
}

/// Lines of code before the tests at the end of a file, with their numbers.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").enumerate();
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn runtimes_and_networks_are_named_in_their_homes_only() {
    let installer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../installer");
    let (mut found, mut seen) = (Vec::new(), 0);
    for crate_ in ["plan", "recipes", "ops", "engine", "session", "depot", "cli", "seed"] {
        for path in sources(&installer.join(crate_)) {
            let name = path.strip_prefix(&installer).unwrap().to_str().unwrap().to_owned();
            if HOMES.iter().any(|(home, _)| name.starts_with(home)) {
                seen += 1;
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for (number, line) in code(&text) {
                let line = line.to_lowercase();
                if let Some(word) = NAMES.iter().find(|word| line.contains(**word)) {
                    found.push(format!("installer/{name}:{}: {word}", number + 1));
                }
            }
        }
    }
    assert!(seen > 15, "homes are found: {seen}");
    assert!(found.is_empty(), "ask plan/src/runtime or plan/src/network for these names:\n{}", found.join("\n"));
}
