//! Repositories made by the real tools: packages by rpmbuild, metadata by createrepo_c and modifyrepo_c.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package to build: name, `[epoch:]version-release`, architecture, further lines of its spec. A line that begins with `/`
/// is a file of it.
pub struct Made {
    pub repo: &'static str,
    pub name: &'static str,
    pub evr: &'static str,
    pub arch: &'static str,
    pub lines: &'static [&'static str],
}

/// An x86_64 package of the repository `base`.
pub const fn made(name: &'static str, evr: &'static str, lines: &'static [&'static str]) -> Made {
    Made { repo: "base", name, evr, arch: "x86_64", lines }
}

/// Builds all packages into folders by the name of their repository, with metadata.
pub fn build(folder: &Path, all: &[Made]) -> BTreeMap<&'static str, PathBuf> {
    // One run of rpmbuild makes many packages, but each name and architecture only once.
    let mut specs: Vec<Vec<&Made>> = Vec::new();
    for one in all {
        let fits = |spec: &&mut Vec<&Made>| {
            spec[0].repo == one.repo
                && (spec[0].arch == one.arch || (one.arch == "noarch" && spec[0].arch == "x86_64"))
                && spec.iter().all(|other| other.name != one.name)
        };
        match specs.iter_mut().find(fits) {
            Some(spec) => spec.push(one),
            None => specs.push(vec![one]),
        }
    }
    let mut repos = BTreeMap::new();
    for (number, spec) in specs.iter().enumerate() {
        let target = folder.join(spec[0].repo);
        rpmbuild(folder, number, spec, &target);
        repos.insert(spec[0].repo, target);
    }
    for repo in repos.values() {
        run(Command::new("createrepo_c").arg("--quiet").arg(repo));
    }
    repos
}

fn rpmbuild(folder: &Path, number: usize, packages: &[&Made], target: &Path) {
    let mut text = format!(
        "Name: made{number}\nVersion: 1\nRelease: 1\nSummary: made\nLicense: MIT\nAutoReqProv: no\n%description\nmade\n"
    );
    let (mut install, mut files) = ("%install\n".to_owned(), String::new());
    for package in packages {
        let name = package.name;
        let (epoch, rest) = package.evr.split_once(':').map_or(("", package.evr), |(epoch, rest)| (epoch, rest));
        let (version, release) = rest.split_once('-').unwrap();
        writeln!(text, "%package -n {name}\nVersion: {version}\nRelease: {release}\nSummary: {name}\nAutoReqProv: no")
            .unwrap();
        if !epoch.is_empty() {
            writeln!(text, "Epoch: {epoch}").unwrap();
        }
        if package.arch == "noarch" {
            writeln!(text, "BuildArch: noarch").unwrap();
        }
        writeln!(files, "%files -n {name}").unwrap();
        for line in package.lines {
            if line.starts_with('/') {
                writeln!(install, "mkdir -p %{{buildroot}}$(dirname {line}); echo {name} > %{{buildroot}}{line}")
                    .unwrap();
                writeln!(files, "{line}").unwrap();
            } else {
                writeln!(text, "{line}").unwrap();
            }
        }
        writeln!(text, "%description -n {name}\nmade").unwrap();
    }
    let spec = folder.join(format!("made{number}.spec"));
    fs::write(&spec, format!("{text}{install}{files}")).unwrap();
    let define = |name: &str, value: &str| format!("{name} {value}");
    run(Command::new("rpmbuild")
        .args(["-bb", "--quiet", "--target", packages[0].arch])
        .args(["--define", &define("_topdir", &folder.join(format!("top{number}")).display().to_string())])
        .args(["--define", &define("_rpmdir", &target.display().to_string())])
        .args([
            "--define",
            "_build_id_links none",
            "--define",
            "_binary_payload w1.gzdio",
            "--define",
            "debug_package %{nil}",
        ])
        .args(["--define", "_enable_debug_packages 0", "--define", "__os_install_post %{nil}"])
        .arg(&spec));
}

/// Adds `modules.yaml` to the metadata.
pub fn add_modules(repo: &Path, text: &str) {
    let path = repo.join("modules.yaml");
    fs::write(&path, text).unwrap();
    run(Command::new("modifyrepo_c").arg("--mdtype=modules").arg(&path).arg(repo.join("repodata")));
}

/// Runs a program that must succeed.
pub fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; scripts/test installs it"));
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{}{reported}", String::from_utf8_lossy(&output.stdout));
    output.stdout
}
