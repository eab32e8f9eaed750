//! Installing with apt-get.

use std::collections::BTreeSet;

use super::dpkg;
use super::run::{run, run_on};
use super::work::{Work, as_planned_but};
use crate::fsio::{self, Access};
use crate::system::Program;
use crate::teardown::mounts;
use crate::{Machine, OpError};

/// Seconds to wait for another apt or dpkg.
const LOCKED_S: u64 = 300;

pub(super) fn install(work: &Work<'_>) -> Result<(), OpError> {
    let folder = work.on.folder();
    // An interrupted run may have left incomplete lists.
    mounts::remove_tree(work.on.machine, &folder)?;
    for part in ["lists/partial", "cache/archives/partial"] {
        fsio::make_folders(&work.on.machine.path(format!("{folder}/{part}")))?;
    }
    configure(work.on.machine, &folder)?;
    let result = from(work, &folder);
    mounts::remove_tree(work.on.machine, &folder)?;
    result
}

/// Every installed package, including dependencies, is marked as manually installed (`apt-mark manual`): with the mark
/// `auto`, an administrator's `apt autoremove` could remove programs that the cluster calls and no package depends on.
fn from(work: &Work<'_>, folder: &str) -> Result<(), OpError> {
    let apt = || apt_get(&work.on.op.source, folder);
    let update = apt().args(["--option", "APT::Update::Error-Mode=any", "update"]).within(300);
    run(work.on.machine, "apt-get update with our own repository", &update)?;
    let install = apt().args(["--assume-yes", "--no-install-recommends", "--fix-broken", "--no-auto-remove"]);
    // No package is removed; with planned removals, others are checked by name below.
    let install = if work.leaving.is_empty() { install.arg("--no-remove") } else { install };
    let comes = work.missing.iter().map(|(name, one)| format!("{}={}", dpkg::named(name, Some(one)), one.version));
    let leaves = work.leaving.keys().map(|name| format!("{name}-"));
    let install = install.arg("install").args(comes.chain(leaves)).within(work.on.limit_s());
    let what = format!("apt-get install of {} packages", work.missing.len());
    let reported = run(work.on.machine, &what, &simulated(&install))?;
    as_planned(work, &reported.stdout())?;
    run_on(work.on.machine, &what, &install)
}

/// apt-get with kubexm's source file only and its files in kubexm's folder, without questions, trusting only signed
/// metadata. The host's configuration of other repositories, pins and releases is not used.
fn apt_get(source: &str, folder: &str) -> Program {
    let options = [
        format!("Dir::Etc::sourcelist={source}"),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        "Dir::Etc::preferences=/dev/null".to_owned(),
        "Dir::Etc::preferencesparts=/dev/null".to_owned(),
        format!("Dir::State::lists={folder}/lists"),
        format!("Dir::Cache={folder}/cache"),
        "APT::Get::List-Cleanup=0".to_owned(),
        "APT::Default-Release=".to_owned(),
        // The folder is only accessible to root.
        "APT::Sandbox::User=root".to_owned(),
        "APT::Get::AllowUnauthenticated=false".to_owned(),
        // Since 2.5 apt also upgrades what is installed of the source of a package; nothing is upgraded that nothing needs.
        "APT::Get::Upgrade-By-Source-Package=false".to_owned(),
        "Acquire::AllowInsecureRepositories=false".to_owned(),
        "Acquire::AllowWeakRepositories=false".to_owned(),
        // The host's clock may be behind the date of the lock. Old metadata is no risk: the bundle determines the right
        // version.
        "Acquire::Check-Date=false".to_owned(),
        "Acquire::Languages=none".to_owned(),
        "Acquire::http::Proxy=DIRECT".to_owned(),
        "Acquire::https::Proxy=DIRECT".to_owned(),
        "APT::Install-Recommends=false".to_owned(),
        "APT::Install-Suggests=false".to_owned(),
        format!("DPkg::Lock::Timeout={LOCKED_S}"),
        "Dpkg::Use-Pty=0".to_owned(),
        "Dpkg::Options::=--force-confdef".to_owned(),
        "Dpkg::Options::=--force-confold".to_owned(),
    ];
    let program = Program::new("apt-get").arg("--quiet");
    let program = options.into_iter().fold(program, |program, option| program.arg("--option").arg(option));
    program
        .env("APT_CONFIG", format!("{folder}/{FIRST}"))
        .env("APT_LISTCHANGES_FRONTEND", "none")
        .env("APT_LISTBUGS_FRONTEND", "none")
        .env("UCF_FORCE_CONFFOLD", "1")
        .env("DEBIAN_PRIORITY", "critical")
}

/// Configuration that apt reads before the host's, and instead of its last file (apt.conf(5)).
const FIRST: &str = "apt.conf";
const LAST: &str = "last.conf";
const OF_HOST: &str = "/etc/apt/apt.conf";
/// Hooks around an update of lists: they are for the host's own lists, which are not changed, and a failing hook would
/// stop the installation.
const HOOKS: [&str; 4] = ["Pre-Invoke", "Post-Invoke", "Post-Invoke-Success", "Post-Invoke-Stats"];

/// The host's configuration is used without its update hooks, which can only be cleared where they were read. Hooks
/// around dpkg run: they remount `/usr` writable, or commit `/etc` to version control; their result after the
/// installation is not checked.
fn configure(machine: &Machine, folder: &str) -> Result<(), OpError> {
    let mut last = String::new();
    if machine.path(OF_HOST).is_file() {
        last.push_str(&format!("#include \"{OF_HOST}\";\n"));
    }
    last.extend(HOOKS.iter().map(|hook| format!("#clear APT::Update::{hook};\n")));
    let first = format!("Dir::Etc::main \"{folder}/{LAST}\";\n");
    for (name, text) in [(LAST, last), (FIRST, first)] {
        machine.write_file(&format!("{folder}/{name}"), text.as_bytes(), Access::mode(0o644))?;
    }
    Ok(())
}

fn simulated(install: &Program) -> Program {
    let mut program = install.clone();
    program.args.insert(0, "--simulate".to_owned());
    program
}

/// Whether apt would do exactly what is planned: `Inst NAME [OLD] (NEW … [ARCH])` and `Remv NAME [OLD]`.
fn as_planned(work: &Work<'_>, reported: &str) -> Result<(), OpError> {
    let mut other: BTreeSet<String> = BTreeSet::new();
    for line in reported.lines() {
        let mut words = line.split_whitespace();
        let (Some(action @ ("Inst" | "Remv")), Some(name)) = (words.next(), words.next()) else { continue };
        let name = name.split(':').next().unwrap_or(name);
        let version = words.find_map(|word| word.strip_prefix('(')).unwrap_or_default();
        let planned = match action {
            "Inst" => work.missing.get(name).is_some_and(|wanted| wanted.version == version),
            _ => work.leaving.contains_key(name),
        };
        if !planned {
            let how = if action == "Inst" { format!("install {name} {version}") } else { format!("remove {name}") };
            other.insert(how);
        }
    }
    as_planned_but(&other, "apt")
}
