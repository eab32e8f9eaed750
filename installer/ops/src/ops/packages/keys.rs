//! Keys that rpm trusts. A vendor's keys are imported with its packages, and removed with them. The site's key is never
//! imported: rpm would trust it for packages of every repository, and it is only needed for kubexm's metadata, for
//! which dnf has a separate key ring.
//!
//! rpm stores a key as a package, `gpg-pubkey-<end of its fingerprint>-<time of its creation>`.

use std::collections::BTreeSet;

use kubexm_packages::trust::Keyring;
use serde::{Deserialize, Serialize};

use super::run::{failed, run};
use crate::fsio::{self, Access};
use crate::system::Program;
use crate::{Machine, OpError};

/// Fingerprints of keys that were imported with kubexm's packages, for the rollback. Written before a key is imported.
const KEYS: &str = "/var/lib/kubexm/packages-keys.json";
/// Keys in the folder of a repository: the site's, which signs the metadata, and the vendors', which sign the packages.
const SITE: &str = "kubexm.asc";
pub(super) const VENDOR: &str = "vendor.asc";
const PACKAGE: &str = "gpg-pubkey-";
/// Timeout for rpm in seconds, including waiting for another rpm.
const LIMIT_S: u64 = 300;
/// The minimum number of digits of a fingerprint in rpm's names of keys.
const SHORTEST: usize = 8;

/// Keys that must not be trusted after a package manager has run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Watched {
    /// Fingerprints of the site's key.
    site: BTreeSet<String>,
    /// Keys that rpm trusted before; these are not removed.
    before: BTreeSet<String>,
}

impl Watched {
    /// Called before a package manager runs.
    pub(super) fn begin(machine: &Machine, repository: &str) -> Result<Self, OpError> {
        let site = read(machine, &format!("{repository}/{SITE}"))?.unwrap_or_default();
        Ok(Self { site, before: trusted(machine)? })
    }

    /// Removes keys that a package manager has imported by itself: with `gpgkey` it imports keys when it finds a
    /// signature by an unknown one.
    pub(super) fn end(&self, machine: &Machine) -> Result<(), OpError> {
        let ours = |key: &&String| !self.before.contains(*key) && self.site.iter().any(|one| is_of(key, one));
        trusted(machine)?.iter().filter(ours).try_for_each(|key| erase(machine, key))
    }
}

/// Keys that rpm trusts, by the names of their packages.
pub(super) fn trusted(machine: &Machine) -> Result<BTreeSet<String>, OpError> {
    let output = machine.try_run(&Program::new("rpm").args(["-q", "gpg-pubkey"]).within(LIMIT_S))?;
    let said = output.stdout();
    // Exit code 1: there are none.
    if output.code != 0 && !said.contains("not installed") {
        return Err(failed("rpm -q gpg-pubkey", &output));
    }
    Ok(said.lines().filter(|line| line.starts_with(PACKAGE)).map(|line| line.trim().to_owned()).collect())
}

/// Imports the vendor's keys if the repository has any; returns whether it has. Recorded before the import, so that a
/// rollback knows about them.
pub(super) fn import_vendor(machine: &Machine, repository: &str) -> Result<bool, OpError> {
    let path = format!("{repository}/{VENDOR}");
    let Some(vendor) = read(machine, &path)? else { return Ok(false) };
    let trusted = trusted(machine)?;
    let lacks = |fingerprint: &String| !trusted.iter().any(|key| is_of(key, fingerprint));
    let coming: Vec<String> = vendor.into_iter().filter(lacks).collect();
    if coming.is_empty() {
        return Ok(true);
    }
    let mut recorded = recorded(machine)?;
    recorded.extend(coming);
    note(machine, &recorded)?;
    run(machine, "rpm --import of the vendor's keys", &Program::new("rpm").args(["--import", &path]).within(LIMIT_S))?;
    Ok(true)
}

/// Removes the keys that were imported with kubexm's packages and were not trusted before.
pub(super) fn forget(machine: &Machine, before: &BTreeSet<String>) -> Result<(), OpError> {
    let mut recorded = recorded(machine)?;
    let going = |one: &&String| !before.iter().any(|key| is_of(key, one));
    let going: BTreeSet<String> = recorded.iter().filter(going).cloned().collect();
    if going.is_empty() {
        return Ok(());
    }
    let here = trusted(machine)?;
    here.iter().filter(|key| going.iter().any(|one| is_of(key, one))).try_for_each(|key| erase(machine, key))?;
    recorded.retain(|one| !going.contains(one));
    if recorded.is_empty() { fsio::remove(&machine.path(KEYS)) } else { note(machine, &recorded) }
}

fn erase(machine: &Machine, key: &str) -> Result<(), OpError> {
    run(machine, "rpm --erase of a key", &Program::new("rpm").args(["--erase", key]).within(LIMIT_S)).map(drop)
}

/// Whether a package of rpm is the key with this fingerprint: rpm uses its last 8 digits, or all.
fn is_of(package: &str, fingerprint: &str) -> bool {
    let end = package.strip_prefix(PACKAGE).and_then(|rest| rest.split('-').next()).unwrap_or_default();
    end.len() >= SHORTEST && fingerprint.ends_with(end)
}

/// Fingerprints in a file, in lower case; none if the file does not exist.
fn read(machine: &Machine, path: &str) -> Result<Option<BTreeSet<String>>, OpError> {
    let Some(bytes) = fsio::read(&machine.path(path))? else { return Ok(None) };
    let keys = Keyring::read(&bytes).map_err(|error| OpError::other(format!("{path} cannot be read: {error}")))?;
    Ok(Some(keys.fingerprints().iter().map(|one| one.to_lowercase()).collect()))
}

fn recorded(machine: &Machine) -> Result<BTreeSet<String>, OpError> {
    let Some(bytes) = fsio::read(&machine.path(KEYS))? else { return Ok(BTreeSet::new()) };
    serde_json::from_slice(&bytes).map_err(|error| {
        OpError::other(format!(
            "{KEYS} cannot be read: {error}; it records which keys came with packages: look at `rpm -q gpg-pubkey`, \
             erase what should not be there, then remove {KEYS}"
        ))
    })
}

fn note(machine: &Machine, recorded: &BTreeSet<String>) -> Result<(), OpError> {
    let text = serde_json::to_vec(recorded)
        .map_err(|error| OpError::other(format!("{KEYS} cannot be written as JSON: {error}")))?;
    machine.write_file(KEYS, &text, Access::mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn a_key_is_known_by_the_end_of_its_fingerprint_and_no_shorter() {
        let fingerprint = "21cb256ae16fc54c6e652949702d426d350d275d";
        assert!(is_of("gpg-pubkey-350d275d-6279464b", fingerprint));
        assert!(is_of(&format!("gpg-pubkey-{fingerprint}-6279464b"), fingerprint));
        assert!(!is_of("gpg-pubkey-350d275e-6279464b", fingerprint));
        assert!(!is_of("gpg-pubkey-75d-6279464b", fingerprint) && !is_of("gpg-pubkey", fingerprint));
    }
}
