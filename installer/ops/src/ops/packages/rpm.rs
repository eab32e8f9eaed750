//! What rpm knows, and what is left to rpm itself: to take away, to put back, whom to believe.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_packages::rpm::version::compare;
use kubexm_plan::op::WantedPackage;

use super::begun::Begun;
use super::{Standing, failed, run};
use crate::fsio::{self, Access};
use crate::system::Program;
use crate::{Machine, OpError};

/// Name, architecture, version; rpm's epoch 0 is not written.
const FORMAT: &str = "%{NAME}\\t%{ARCH}\\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n";
const LIMIT_S: u64 = 900;
/// Keys that came with our packages, for the way back.
const KEYS: &str = "/var/lib/kubexm/packages-keys.json";

/// How each package stands, by name; one that is not installed is not in it.
pub(super) fn standings(
    machine: &Machine,
    wanted: &BTreeMap<&str, &WantedPackage>,
) -> Result<BTreeMap<String, Standing>, OpError> {
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let query = Program::new("rpm").args(["-q", "--queryformat", FORMAT]).args(wanted.keys().copied());
    let output = machine.try_run(&query)?;
    let mut found: BTreeMap<String, Standing> = BTreeMap::new();
    let mut newest: BTreeMap<&str, String> = BTreeMap::new();
    let listed = output.stdout();
    let mut unknown = 0;
    for line in listed.lines() {
        let mut fields = line.split('\t');
        let (Some(name), Some(arch), Some(version)) = (fields.next(), fields.next(), fields.next()) else {
            unknown += 1;
            continue;
        };
        let ours = wanted.get(name).is_some_and(|one| arch == one.arch || arch == "noarch" || one.arch == "noarch");
        // Kernels and keys are installed side by side.
        if ours && newest.get(name).is_none_or(|known| compare(known, version).is_lt()) {
            newest.insert(name, version.to_owned());
        }
    }
    // Its exit code is how many are not installed, each with a line of its own; without those it could not look.
    if output.code != 0 && unknown == 0 {
        return Err(failed("rpm -q", &output));
    }
    for (name, version) in newest {
        found.insert(name.to_owned(), Standing::Installed { version, whole: true });
    }
    Ok(found)
}

/// Takes away what was not there. What somebody else's package needs by now stays, with what that one needs.
pub(super) fn remove(
    machine: &Machine,
    wanted: &BTreeMap<String, WantedPackage>,
    going: &BTreeMap<String, Standing>,
) -> Result<(), OpError> {
    erase(machine, &[], wanted, going).map(drop)
}

/// Those that nobody else needs, with their architectures.
pub(super) fn free_of(
    machine: &Machine,
    wanted: &BTreeMap<String, WantedPackage>,
    going: &BTreeMap<String, Standing>,
) -> Result<Vec<String>, OpError> {
    erase(machine, &["--test"], wanted, going)
}

/// What rpm takes away, or would.
fn erase(
    machine: &Machine,
    options: &[&str],
    wanted: &BTreeMap<String, WantedPackage>,
    going: &BTreeMap<String, Standing>,
) -> Result<Vec<String>, OpError> {
    let mut names: BTreeSet<&str> = going.keys().map(String::as_str).collect();
    while !names.is_empty() {
        let full: Vec<String> = names.iter().map(|name| named(name, wanted.get(*name))).collect();
        let erase = Program::new("rpm").arg("--erase").args(options.iter().copied()).args(full.clone()).within(LIMIT_S);
        let output = machine.try_run(&erase)?;
        if output.code == 0 {
            return Ok(full);
        }
        let kept = needed(machine, &String::from_utf8_lossy(&output.stderr), &names)?;
        if kept.is_empty() {
            return Err(failed(&format!("rpm --erase of {} packages", names.len()), &output));
        }
        names.retain(|name| !kept.contains(*name));
    }
    Ok(Vec::new())
}

/// `socat.x86_64`: with a twin of another architecture the name alone would be two packages.
pub(super) fn named(name: &str, package: Option<&WantedPackage>) -> String {
    package.map_or_else(|| name.to_owned(), |package| format!("{name}.{}", package.arch))
}

/// Which of the packages are needed by those that rpm names: `X is needed by (installed) NAME-VERSION-RELEASE.ARCH`.
fn needed(machine: &Machine, said: &str, names: &BTreeSet<&str>) -> Result<BTreeSet<String>, OpError> {
    let others: BTreeSet<&str> = said
        .lines()
        .filter_map(|line| line.split_once(" is needed by (installed) "))
        .map(|(_, by)| by.trim())
        .collect();
    if others.is_empty() {
        return Ok(BTreeSet::new());
    }
    let requires = Program::new("rpm").args(["-q", "--requires"]).args(others);
    let wants = machine.try_run(&requires)?.stdout();
    let wants: BTreeSet<&str> = wants.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let provides = Program::new("rpm").args(["-q", "--whatprovides", "--queryformat", "%{NAME}\\n"]).args(wants);
    let by = machine.try_run(&provides)?.stdout();
    Ok(by.lines().filter(|name| names.contains(name)).map(str::to_owned).collect())
}

/// Installs these very files.
pub(super) fn put_back(machine: &Machine, files: &[String]) -> Result<(), OpError> {
    let install = Program::new("rpm").arg("--install").args(files.iter().cloned()).within(LIMIT_S);
    run(machine, &format!("rpm --install of {} packages", files.len()), &install).map(drop)
}

/// Keys that rpm believes: `gpg-pubkey-<id>-<date>`.
pub(super) fn keys(machine: &Machine) -> Result<BTreeSet<String>, OpError> {
    // 1: there is none.
    let output = machine.try_run(&Program::new("rpm").args(["-q", "gpg-pubkey"]))?;
    Ok(output
        .stdout()
        .lines()
        .filter(|line| line.starts_with("gpg-pubkey-"))
        .map(|line| line.trim().to_owned())
        .collect())
}

/// Writes down which keys came while we installed: they go with what they were for.
pub(super) fn note_new_keys(machine: &Machine, begun: &Begun) -> Result<(), OpError> {
    let Some(before) = &begun.keys else { return Ok(()) };
    let mut noted = noted(machine)?;
    let known = noted.len();
    noted.extend(keys(machine)?.into_iter().filter(|key| !before.contains(key)));
    if noted.len() == known {
        return Ok(());
    }
    let text = serde_json::to_vec(&noted)
        .map_err(|error| OpError::other(format!("{KEYS} cannot be written as JSON: {error}")))?;
    fsio::write(machine, KEYS, &text, Access::mode(0o600))
}

/// Takes the keys back that came with our packages and were not there before.
pub(super) fn forget_new_keys(machine: &Machine, before: &BTreeSet<String>) -> Result<(), OpError> {
    let (now, mut noted) = (keys(machine)?, noted(machine)?);
    let going: Vec<String> = noted.iter().filter(|key| !before.contains(*key)).cloned().collect();
    for key in going {
        if now.contains(&key) {
            run(machine, "rpm --erase of a key", &Program::new("rpm").args(["--erase", &key]).within(LIMIT_S))?;
        }
        noted.remove(&key);
    }
    if noted.is_empty() { fsio::remove(&machine.path(KEYS)) } else { Ok(()) }
}

fn noted(machine: &Machine) -> Result<BTreeSet<String>, OpError> {
    let bytes = fsio::read(&machine.path(KEYS))?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
}
