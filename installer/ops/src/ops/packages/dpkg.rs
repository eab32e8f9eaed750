//! Queries dpkg, and calls dpkg directly for removing and restoring packages.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kubexm_plan::op::{PackageState, Packages, WantedPackage};

use super::run::{act, failed};
use crate::system::{Output, Program};
use crate::{Machine, OpError, dpkg_lock};

/// Name, architecture, the letters of `dpkg -l`, version.
const FORMAT: &str = "${Package}\\t${Architecture}\\t${db:Status-Abbrev}\\t${Version}\\n";
/// Timeout of a query, and for waiting for another dpkg, in seconds.
const LIMIT_S: u64 = 300;
const LOCKED_S: u64 = 300;
const PAUSE: Duration = Duration::from_secs(2);

/// The state of each package, by name; packages that dpkg does not know are omitted.
pub(super) fn states(
    machine: &Machine,
    wanted: &BTreeMap<&str, &WantedPackage>,
) -> Result<BTreeMap<String, PackageState>, OpError> {
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let show = Program::new("dpkg-query").args(["--show", "--showformat", FORMAT]).args(wanted.keys().copied());
    let output = machine.try_run(&show)?;
    // Exit code 1: one of them is unknown.
    if output.code > 1 {
        return Err(failed("dpkg-query --show", &output));
    }
    let mut found: BTreeMap<String, PackageState> = BTreeMap::new();
    for line in output.stdout().lines() {
        let mut fields = line.split('\t');
        let (Some(name), Some(arch), Some(status), Some(version)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(OpError::other(format!(
                "dpkg-query printed {line:?}, which is not the format it was asked for"
            )));
        };
        // The same name with a foreign architecture is another package.
        let ours = wanted.get(name).is_some_and(|one| arch == one.arch || arch == "all" || one.arch == "all");
        if ours {
            let state = state(status, version);
            let known = found.entry(name.to_owned()).or_insert_with(|| state.clone());
            if state.is_installed() {
                *known = state;
            }
        }
    }
    Ok(found)
}

/// The second letter of `dpkg -l` is the state, a third one reports an error (dpkg-query(1)).
fn state(status: &str, version: &str) -> PackageState {
    let mut letters = status.chars().skip(1);
    let (state, wrong) = (letters.next(), letters.next());
    match state {
        Some('n') | None => PackageState::Absent,
        Some('c') => PackageState::Configuration,
        // Installed, possibly with pending triggers.
        Some('i' | 't' | 'W') => {
            PackageState::Installed { version: version.to_owned(), whole: !matches!(wrong, Some('R' | 'X')) }
        }
        Some(_) => PackageState::Installed { version: version.to_owned(), whole: false },
    }
}

/// Removes packages that were not installed before, with their configuration unless that existed. Packages that another
/// one needs by now are kept.
pub(super) fn remove(machine: &Machine, op: &Packages, going: &BTreeMap<String, PackageState>) -> Result<(), OpError> {
    let free = free_of(machine, &op.packages, going)?;
    for (action, was) in [("--remove", PackageState::Configuration), ("--purge", PackageState::Absent)] {
        let of_kind = going.iter().filter(|(_, state)| **state == was);
        let names = of_kind.map(|(name, _)| named(name, op.packages.get(name))).filter(|name| free.contains(name));
        let names: Vec<String> = names.collect();
        if !names.is_empty() {
            let output = unlocked(machine, &removing(action, &names).within(op.limit_s()))?;
            if output.code != 0 {
                return Err(failed(&format!("dpkg {action} of {} packages", names.len()), &output));
            }
        }
    }
    fix(machine, op)
}

/// Packages that no other package needs, with their architectures.
pub(super) fn free_of(
    machine: &Machine,
    wanted: &BTreeMap<String, WantedPackage>,
    going: &BTreeMap<String, PackageState>,
) -> Result<Vec<String>, OpError> {
    free(machine, going.keys().map(|name| named(name, wanted.get(name))).collect())
}

/// Packages that no other package needs, from a simulated removal: a real one would leave refused packages marked for
/// removal.
fn free(machine: &Machine, mut names: Vec<String>) -> Result<Vec<String>, OpError> {
    while !names.is_empty() {
        let mut asked = removing("--purge", &names).within(LIMIT_S);
        asked.args.insert(0, "--no-act".to_owned());
        let output = machine.try_run(&asked)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let refused: Vec<&str> = said.lines().filter_map(refused).collect();
        if refused.is_empty() {
            return if output.code == 0 { Ok(names) } else { Err(failed("dpkg --no-act --purge", &output)) };
        }
        let plain = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
        let known = names.len();
        names.retain(|name| !refused.iter().any(|other| plain(other) == plain(name)));
        if names.len() == known {
            return Err(failed("dpkg --no-act --purge", &output));
        }
    }
    Ok(names)
}

/// The package in a line of dpkg about one that others depend on.
fn refused(line: &str) -> Option<&str> {
    line.strip_prefix("dpkg: dependency problems prevent removal of ")?.strip_suffix(':')
}

/// A package whose unpacking was interrupted can only be removed with force.
fn removing(action: &str, names: &[String]) -> Program {
    Program::new("dpkg").args(["--force-remove-reinstreq", "--abort-after=10000", action]).args(names.iter().cloned())
}

/// Installs exactly these files, like `dpkg -i`.
pub(super) fn put_back(machine: &Machine, op: &Packages, files: &[String]) -> Result<(), OpError> {
    let program = Program::new("dpkg")
        .args(["--force-confdef", "--force-confold", "--install"])
        .args(files.iter().cloned())
        .within(op.limit_s());
    let output = unlocked(machine, &program)?;
    if output.code == 0 { Ok(()) } else { Err(failed(&format!("dpkg --install of {} packages", files.len()), &output)) }
}

/// Completes an interrupted installation: configures unpacked packages, runs triggers.
pub(super) fn fix(machine: &Machine, op: &Packages) -> Result<(), OpError> {
    // Work of another program that is still running is not completed.
    dpkg_lock::wait(machine, LOCKED_S);
    let whole = machine.try_run(&Program::new("dpkg").arg("--audit"))?;
    if whole.code == 0 && whole.stdout.iter().all(u8::is_ascii_whitespace) && !dpkg_lock::is_cut_off(machine) {
        return Ok(());
    }
    let configure = ["--force-confdef", "--force-confold", "--configure", "--pending"];
    let program = Program::new("dpkg").args(configure).within(op.limit_s());
    // A package that cannot be configured lacks a dependency, or is not kubexm's: the next installation or check
    // reports it.
    unlocked(machine, &program).map(drop)
}

/// `socat:amd64`: with a foreign architecture installed, the name alone is ambiguous.
pub(super) fn named(name: &str, package: Option<&WantedPackage>) -> String {
    match package {
        Some(package) if package.arch != "all" => format!("{name}:{}", package.arch),
        _ => name.to_owned(),
    }
}

/// Runs dpkg as an act when no other dpkg runs; dpkg itself does not wait.
fn unlocked(machine: &Machine, program: &Program) -> Result<Output, OpError> {
    let until = Instant::now() + Duration::from_secs(LOCKED_S);
    loop {
        let output = act(machine, program)?;
        let locked = output.code == 2 && String::from_utf8_lossy(&output.stderr).contains("lock");
        if !locked || Instant::now() > until {
            return Ok(output);
        }
        std::thread::sleep(PAUSE);
    }
}
