//! Installing with dnf, or with yum if there is no dnf (EL7).

use std::collections::BTreeSet;
use std::path::Path;

use super::dnf_transaction::{DnfTransaction, SUMMARY};
use super::run::{failed, run, run_on};
use super::work::{Work, as_planned_but};
use super::{keys, rpm};
use crate::system::Program;
use crate::teardown::mounts;
use crate::{Machine, OpError, fsio, paths};

/// The repository's id in kubexm's source file.
const REPOSITORY: &str = "kubexm";
/// Timeout in seconds for reading kubexm's repository, including waiting for another dnf.
const LIMIT_S: u64 = 600;

pub(super) fn install(work: &Work<'_>) -> Result<(), OpError> {
    let (machine, folder) = (work.on.machine, work.on.folder());
    // An interrupted run may have left an incomplete cache.
    mounts::remove_tree(machine, &folder)?;
    fsio::make_folders(&machine.path(&folder))?;
    let result = from(work, &folder);
    mounts::remove_tree(machine, &folder)?;
    result
}

/// First the metadata, signed by the site's key, then the packages, signed by their vendor. Each dnf command gets only
/// the keys that it needs: dnf imports every given key into rpm, and the site's key signs no packages.
fn from(work: &Work<'_>, folder: &str) -> Result<(), OpError> {
    let (machine, op) = (work.on.machine, work.on.op);
    let name = manager(machine)?;
    let reported = |program: Program| manager_of(program, &op.source, folder, work.missing.keys().copied());
    let cache = reported(Program::new(name)).args(["--assumeyes", "makecache"]).within(LIMIT_S);
    // yum would request lists that kubexm does not generate.
    let cache = if name == "yum" { cache.arg("fast") } else { cache };
    run(machine, &format!("{name} makecache with our own repository"), &cache)?;
    let install = reported(Program::new(name)).arg(format!("--setopt={REPOSITORY}.metadata_expire=never"));
    // Only named packages are removed, and no other package is available to install.
    let install = if work.leaving.is_empty() || name == "yum" { install } else { install.arg("--allowerasing") };
    let names = work.missing.iter().map(|(name, one)| exactly(name, &one.version, &one.arch));
    let names: Vec<String> = names.collect();
    let what = format!("{name} install of {} packages", names.len());
    let ask = install.clone().args(["--assumeno", "--setopt=assumeyes=False", "install"]).args(names.clone());
    let output = machine.try_run(&ask.within(LIMIT_S))?;
    let said = output.stdout();
    if !said.contains(SUMMARY) {
        return Err(failed(&what, &output));
    }
    as_planned(work, name, &DnfTransaction::read(&said))?;
    let install = match keys::import_vendor(machine, &op.repository)? {
        true => install.arg(format!("--setopt={REPOSITORY}.gpgkey=file://{}/{}", op.repository, keys::VENDOR)),
        false => install,
    };
    let install = install.args(["--assumeyes", "install"]).args(names).within(work.on.limit_s());
    let result = run_on(machine, &what, &rpm::quiet(install));
    result.and(rpm::reload(machine))
}

/// Whether dnf would do exactly what is planned.
fn as_planned(work: &Work<'_>, manager: &str, reported: &DnfTransaction) -> Result<(), OpError> {
    let mut other: BTreeSet<String> = BTreeSet::new();
    for (name, version) in &reported.comes {
        if work.missing.get(name.as_str()).is_none_or(|wanted| wanted.version != *version) {
            other.insert(format!("install {name} {version}"));
        }
    }
    let leaves = reported.leaves.iter().filter(|(name, _)| !work.leaving.contains_key(name.as_str()));
    other.extend(leaves.map(|(name, version)| format!("remove {name} {version}")));
    let left_out = work.missing.keys().filter(|name| !reported.comes.contains_key(**name));
    other.extend(left_out.map(|name| format!("leave out {name}")));
    as_planned_but(&other, manager)
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

/// dnf with kubexm's repository only and its files in kubexm's folder, without questions, trusting only signatures: the
/// site's on the repository, which has the digest of each package, and the vendor's on each package, unless the source
/// file says that the vendor does not sign. The administrator's excludes remain in effect; the plan contains no
/// excluded package.
fn manager_of<'a>(program: Program, source: &str, folder: &str, names: impl Iterator<Item = &'a str>) -> Program {
    let sources = Path::new(source).parent().unwrap_or(Path::new("/")).display();
    // Only planned packages can be installed, whatever else the repository has.
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
    let program = program.args(["--noplugins", "--disablerepo=*", "--enablerepo=kubexm"]);
    settings.into_iter().fold(program, |program, setting| program.arg(format!("--setopt={setting}")))
}

/// `NAME-EPOCH:VERSION-RELEASE.ARCH`, which dnf and yum accept.
fn exactly(name: &str, version: &str, arch: &str) -> String {
    format!("{name}-{version}.{arch}")
}
