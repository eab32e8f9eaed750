//! Installing with dnf, or with yum where there is no dnf (EL7).

use std::path::Path;

use super::{Work, apt, run_on};
use crate::system::Program;
use crate::teardown::mounts;
use crate::{Machine, OpError, fsio, paths};

/// The repository's name in our source file.
const REPOSITORY: &str = "kubexm";

pub(super) fn install(work: &Work<'_>) -> Result<(), OpError> {
    if work.missing.is_empty() {
        return Ok(());
    }
    let (machine, folder) = (work.on.machine, work.on.folder());
    // A kill may have left half a cache.
    mounts::remove_tree(machine, &folder)?;
    fsio::make_folders(&machine.path(&folder))?;
    let name = manager(machine)?;
    let program = program(name, &work.on.op.source, &folder, work.missing.keys().copied());
    // Only what is told by name leaves, and nothing else is at hand that could come.
    let program = if work.leaving.is_empty() || name == "yum" { program } else { program.arg("--allowerasing") };
    let program =
        program.arg("install").args(work.missing.iter().map(|(name, one)| exactly(name, &one.version, &one.arch)));
    let what = format!("{name} install of {} packages", work.missing.len());
    let result = run_on(machine, &what, &program.within(apt::LIMIT_S));
    mounts::remove_tree(machine, &folder)?;
    result
}

fn manager(machine: &Machine) -> Result<&'static str, OpError> {
    let there = |name: &&&str| paths::PATH.split(':').any(|folder| machine.path(format!("{folder}/{name}")).exists());
    ["dnf", "yum"].iter().find(there).copied().ok_or_else(|| {
        OpError::other(format!(
            "neither dnf nor yum is on this host (looked in {}); packages cannot be installed",
            paths::PATH
        ))
    })
}

/// dnf that knows our repository alone, keeps what it works with in our folder, asks nothing and believes only what is signed:
/// the repository by our key, which has the digest of each package; and each package by its vendor's, unless our source file says
/// that its vendor signs none.
fn program<'a>(name: &str, source: &str, folder: &str, names: impl Iterator<Item = &'a str>) -> Program {
    let sources = Path::new(source).parent().unwrap_or(Path::new("/")).display();
    // Nothing but what the plan names can come, whatever else the repository has.
    let names: Vec<&str> = names.collect();
    let settings = [
        format!("reposdir={sources}"),
        format!("cachedir={folder}/cache"),
        "install_weak_deps=False".to_owned(),
        "keepcache=False".to_owned(),
        "proxy=".to_owned(),
        "gpgcheck=True".to_owned(),
        "clean_requirements_on_remove=False".to_owned(),
        format!("{REPOSITORY}.repo_gpgcheck=True"),
        format!("{REPOSITORY}.includepkgs={}", names.join(",")),
    ];
    let program = Program::new(name).args([
        "--assumeyes",
        "--noplugins",
        "--disablerepo=*",
        "--enablerepo=kubexm",
        "--disableexcludes=main",
    ]);
    settings.into_iter().fold(program, |program, setting| program.arg(format!("--setopt={setting}")))
}

/// `NAME-EPOCH:VERSION-RELEASE.ARCH`, which both dnf and yum read.
fn exactly(name: &str, version: &str, arch: &str) -> String {
    format!("{name}-{version}.{arch}")
}
