//! Who may depend on whom (ARCHITECTURE.md, "Crates and …"): crates as their manifests say, files as their imports do, so
//! that a new arrow is a decision and not an accident.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test: what cannot be read fails it")]

mod files;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every crate and the crates of ours it may name. An arrow that is not here fails the build.
const ALLOWED: &[(&str, &[&str])] = &[
    ("kubexm-spec", &[]),
    ("kubexm-files", &["kubexm-spec"]),
    ("kubexm-archive", &["kubexm-spec", "kubexm-files"]),
    (
        "kubexm-fuzz",
        &[
            "kubexm-spec",
            "kubexm-archive",
            "kubexm-signing",
            "kubexm-transport",
            "kubexm-packages",
            "kubexm-charts",
            "kubexm-builder",
            "kubexm-engine",
            "kubexm-s3",
        ],
    ),
    ("kubexm-signing", &["kubexm-spec", "kubexm-files", "kubexm-archive"]),
    ("kubexm-transport", &["kubexm-spec", "kubexm-archive"]),
    ("kubexm-terminal", &["kubexm-spec"]),
    ("kubexm-packages", &["kubexm-spec"]),
    ("kubexm-charts", &["kubexm-spec"]),
    ("kubexm-manifests", &["kubexm-spec"]),
    (
        "kubexm-builder",
        &[
            "kubexm-spec",
            "kubexm-files",
            "kubexm-archive",
            "kubexm-signing",
            "kubexm-transport",
            "kubexm-packages",
            "kubexm-charts",
            "kubexm-manifests",
        ],
    ),
    (
        "kubexm-bundle",
        &[
            "kubexm-spec",
            "kubexm-files",
            "kubexm-archive",
            "kubexm-signing",
            "kubexm-transport",
            "kubexm-packages",
            "kubexm-manifests",
            "kubexm-terminal",
            "kubexm-builder",
        ],
    ),
    ("kubexm-plan", &["kubexm-spec"]),
    ("kubexm-recipes", &["kubexm-spec", "kubexm-manifests", "kubexm-packages", "kubexm-charts", "kubexm-plan"]),
    ("kubexm-ops", &["kubexm-spec", "kubexm-packages", "kubexm-charts", "kubexm-plan", "kubexm-seed"]),
    ("kubexm-engine", &["kubexm-spec", "kubexm-plan", "kubexm-ops", "kubexm-transport", "kubexm-depot"]),
    ("kubexm-depot", &["kubexm-spec"]),
    ("kubexm-s3", &["kubexm-spec"]),
    ("kubexm-seed", &["kubexm-spec", "kubexm-files", "kubexm-archive", "kubexm-transport"]),
    (
        "kubexm-session",
        &[
            "kubexm-spec",
            "kubexm-files",
            "kubexm-archive",
            "kubexm-signing",
            "kubexm-manifests",
            "kubexm-packages",
            "kubexm-charts",
            "kubexm-plan",
            "kubexm-recipes",
            "kubexm-engine",
            "kubexm-s3",
        ],
    ),
    (
        "kubexm-install",
        &[
            "kubexm-spec",
            "kubexm-files",
            "kubexm-archive",
            "kubexm-terminal",
            "kubexm-plan",
            "kubexm-ops",
            "kubexm-engine",
            "kubexm-depot",
            "kubexm-s3",
            "kubexm-seed",
            "kubexm-session",
        ],
    ),
];

/// Crates that do IO, and so may not appear below recipes, plan, manifests or spec, at any depth.
const IO_CRATES: &[&str] = &["tokio", "reqwest", "russh", "rustix", "tempfile", "time", "rand", "getrandom", "fs4"];

#[derive(serde::Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(serde::Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(serde::Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(serde::Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Metadata>(&output.stdout).unwrap().packages
}

fn workspace() -> BTreeMap<String, BTreeSet<String>> {
    packages()
        .into_iter()
        .map(|p| (p.name, p.dependencies.into_iter().filter(|d| d.kind.is_none()).map(|d| d.name).collect()))
        .collect()
}

#[test]
fn crates_depend_only_on_what_the_architecture_allows() {
    let mut crates = workspace();
    crates.remove("kubexm-tests");
    let known: BTreeMap<_, BTreeSet<_>> =
        ALLOWED.iter().map(|(name, to)| (*name, to.iter().copied().collect())).collect();
    assert_eq!(
        crates.keys().map(String::as_str).collect::<Vec<_>>(),
        known.keys().copied().collect::<Vec<_>>(),
        "a crate was added or removed: say here whom it may know"
    );
    for (name, dependencies) in &crates {
        let ours: BTreeSet<&str> =
            dependencies.iter().map(String::as_str).filter(|d| d.starts_with("kubexm-")).collect();
        let extra: Vec<_> = ours.difference(&known[name.as_str()]).collect();
        assert!(extra.is_empty(), "{name} must not know {extra:?}");
    }
}

#[test]
fn recipes_cannot_reach_a_host() {
    let crates = workspace();
    for name in ["kubexm-spec", "kubexm-manifests", "kubexm-plan", "kubexm-recipes"] {
        let io: Vec<_> = IO_CRATES.iter().filter(|c| crates[name].contains(**c)).collect();
        assert!(io.is_empty(), "{name} is pure and must not depend on {io:?}");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../installer/recipes/src");
    let mut folders = vec![source];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).unwrap();
            // A key of packages is made of the clock and of entropy.
            let banned =
                ["std::fs", "std::net::Tcp", "std::process", "std::env", "SystemTime", "Instant::now", "SiteKey"];
            for banned in banned {
                assert!(!text.contains(banned), "{} uses {banned}", entry.path().display());
            }
        }
    }
}

/// What a library would share with everything else in its process, or take from it.
const OF_THE_PROCESS: [&str; 9] = [
    "std::process",
    "env::var",
    "env::args",
    "env::set_",
    "env::current_dir",
    "io::std",
    "runtime::Runtime",
    "runtime::Builder",
    "thread_local",
];

/// Why a file may use one of them.
const MAY: [(&str, &str, &str); 2] = [
    ("builder/core/src/charts/sandbox.rs", "std::process", "it starts helm, and waits for its exit status"),
    (
        "installer/session/src/addons/helm.rs",
        "std::process",
        "it starts the bundle's helm, which renders charts before a run",
    ),
];

/// Whether a line declares a value of the whole process that can change. A constant that is computed once cannot.
fn is_shared(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
    let changes = ["Mutex", "RwLock", "Atomic", "OnceLock", "OnceCell"];
    line.starts_with("static mut ") || (line.starts_with("static ") && changes.iter().any(|word| line.contains(word)))
}

#[test]
fn the_libraries_use_no_process_state_and_no_terminal() {
    let mut wrong = Vec::new();
    for library in ["installer/session/src", "builder/core/src"] {
        let mut files = vec![root().join(library)];
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            // Tests of packages run dpkg and a depot.
            if path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            let may = |used: &str| MAY.iter().any(|(file, what, _)| *file == name && *what == used);
            let used = OF_THE_PROCESS.iter().filter(|banned| text.contains(**banned) && !may(banned));
            wrong.extend(used.map(|banned| format!("{name} uses {banned}")));
            wrong.extend(text.lines().filter(|line| is_shared(line)).map(|line| format!("{name}: {}", line.trim())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        is_shared("pub static COUNT: AtomicUsize = AtomicUsize::new(0);") && !is_shared("static A: LazyLock<Regex>")
    );
}

#[test]
fn no_crate_has_a_cycle_of_files() {
    let mut problems = String::new();
    for package in packages() {
        let roots = package.targets.iter().filter(|t| t.kind.iter().any(|kind| kind == "lib" || kind == "bin"));
        let circles: Vec<_> = roots.flat_map(|target| files::circles(&files::ties(&target.src_path))).collect();
        if circles.is_empty() {
            continue;
        }
        problems += &format!("{}: what files share goes into one below both:\n", package.name);
        for circle in &circles {
            problems += &circle.to_string().replace(&format!("{}/", root().display()), "");
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

/// A crate of these files, and its circles.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let circles = files::circles(&files::ties(&folder.path().join("lib.rs")));
    circles.iter().map(|circle| circle.to_string().replace(&format!("{}/", folder.path().display()), "")).collect()
}

#[test]
fn a_cycle_is_reported_with_its_files_and_their_imports() {
    let found = circles_of(&[
        ("lib.rs", "mod a; mod b; pub use a::A; pub fn run() { a::work(); }"),
        ("a.rs", "use crate::b::{self, lock}; pub struct A; pub fn work() { lock(); b::more(); }"),
        ("b/mod.rs", "mod c; pub fn lock() {} pub fn more() { println!(\"{}\", c::name()); }"),
        ("b/c.rs", "pub fn name() -> &'static str { let _: crate::A; super::super::a::work(); \"c\" }"),
    ]);
    let wanted = "3 files need each other:\n  a.rs -> b/mod.rs: lock, more\n  b/c.rs -> a.rs: A, work\n  b/mod.rs -> b/c.rs: name\n";
    assert_eq!(found, [wanted]);
}

#[test]
fn re_exports_and_tests_make_no_cycle() {
    let found = circles_of(&[
        ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
        ("a.rs", "pub struct A; pub fn b() {} #[cfg(test)] mod tests { use crate::b::B; fn f(_: B) {} }"),
        // A field, a module and a function of one name.
        ("b.rs", "use crate::{A, a}; pub struct B(A); pub fn b() { a::b() }"),
    ]);
    assert_eq!(found, Vec::<String>::new());
}
