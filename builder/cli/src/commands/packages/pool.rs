//! What an operating system's repositories have, for the verbs that resolve.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use kubexm_builder::origins::packages::{Loaded, Options, PackagesError, Snapshot};
use kubexm_builder::packages::{Distribution, Mirrors, Solved};
use kubexm_manifests::os::{Profile, Profiles, Repository};
use kubexm_packages::deb::status;
use kubexm_packages::model::Comparison;
use kubexm_packages::rpm::installed as rpm;
use kubexm_packages::solve::{Baseline, Closure, Pool, Root, Unsolvable};
use kubexm_packages::trust::Keyring;
use kubexm_spec::{Arch, ExitCode, Family};
use kubexm_terminal::Failure;
use kubexm_transport::{HttpClient, HttpOptions};

use crate::commands::fetching::{self, store, transport};
use crate::commands::input;
use crate::commands::network;
use crate::commands::zone::choice;

/// For every verb that looks into repositories.
#[derive(Clone, Debug, clap::Args)]
pub struct From {
    /// Operating system: debian-12, ubuntu-22.04, rocky-9
    #[arg(long, value_name = "NAME")]
    pub os: String,
    /// Architecture: amd64, arm64
    #[arg(long, value_name = "ARCH", default_value = "amd64", value_parser = arch)]
    pub arch: Arch,
    /// A mirror of yours: NAME=URL takes the place of one repository (main, security, baseos); URL alone of the
    /// host of all of them, their paths kept. A folder will do: of a mirror, or a vendor's DVD or ISO that is mounted
    /// there. May be given several times
    #[arg(long, value_name = "[NAME=]URL")]
    pub mirror: Vec<String>,
    /// Certificates whose signatures the repositories must carry, in place of the vendor's
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Zone name (global, cn) or a zone file, whose mirrors are asked; comes before KMZONE
    #[arg(long, value_name = "NAME|FILE")]
    pub zone: Option<String>,
    /// What a host has installed: a copy of its /var/lib/dpkg/status, or what the command of `packages query` printed
    /// there. The answer is then what that host lacks
    #[arg(long, value_name = "FILE")]
    pub installed: Option<PathBuf>,
    /// Folder of the cache [default: $KUBEXM_HOME/cache]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// How many transfers at once
    #[arg(short = 'j', long, value_name = "N", default_value = "16")]
    pub jobs: NonZeroU16,
    /// Ask nobody: only what the cache holds
    #[arg(long)]
    pub offline: bool,
}

fn arch(text: &str) -> Result<Arch, String> {
    [Arch::Amd64, Arch::Arm64]
        .into_iter()
        .find(|arch| arch.as_str() == text || arch.uname() == text)
        .ok_or_else(|| format!("{text:?} is no architecture: wanted amd64 or arm64"))
}

/// An answer and what it was found in.
pub struct Resolved {
    /// Of the operating system.
    pub profile: &'static Profile,
    /// All packages.
    pub pool: Pool,
    /// The state of each repository.
    pub snapshots: Vec<Snapshot>,
    /// What is needed, or why it cannot be.
    pub closure: Result<Closure, Unsolvable>,
    /// What people should know.
    pub notes: Vec<String>,
}

/// `socat`, `socat=1.7.4.4-2`, `/usr/sbin/conntrack`.
pub fn root(text: &str) -> Result<Root, String> {
    let (name, version) = match text.split_once('=') {
        Some((name, version)) => (name, Some((Comparison::Equal, version.into()))),
        None => (text, None),
    };
    let wrong = name.is_empty()
        || name.starts_with('-')
        || text.contains(|c: char| c.is_whitespace() || "<>".contains(c))
        || version.as_ref().is_some_and(|(_, version): &(_, Box<str>)| version.is_empty() || version.starts_with('='));
    if wrong {
        return Err(format!("{text:?} is no package: wanted a name, or name=version"));
    }
    Ok(Root { name: name.into(), version })
}

impl From {
    /// Reads the repositories and solves.
    pub fn resolve(&self, roots: &[Root]) -> Result<Resolved, Failure> {
        let profiles = Profiles::embedded();
        let profile = profiles.get(&self.os).map_err(|error| Failure::from_error(error.exit_code(), &error))?;
        if !profile.archs.contains(&self.arch) {
            let known: Vec<&str> = profile.archs.iter().map(|arch| arch.as_str()).collect();
            let text = format!("{} is not there for {}, only for {}", self.os, self.arch.as_str(), known.join(", "));
            return Err(Failure::new(ExitCode::UnknownVersion, text));
        }
        let chosen = choice::choose(self.zone.as_deref(), None)?;
        let mirrors = Mirrors::of_zone(profile, self.arch, &chosen.zone)
            .with(profile, self.arch, &self.mirror)
            .map_err(|error| Failure::new(ExitCode::Usage, format!("--mirror: {error}")))?;
        let keyring = self.key.as_deref().map(|file| {
            // As gpg exports it, armored or not.
            let wrong = |error: String| Failure::new(ExitCode::Config, format!("{}: {error}", file.display()));
            let bytes = input::bytes(file)?;
            Keyring::read(&bytes).map_err(|error| wrong(error.to_string()))
        });
        let baseline =
            self.installed.as_deref().map_or(Ok(Baseline::empty()), |file| installed(file, profile, self.arch))?;
        let keyring = keyring.transpose()?;
        let distribution =
            Distribution { mirrors, keyring, baseline, ..Distribution::new(profile, profiles, self.arch) };
        let jobs = usize::from(self.jobs.get());
        let options = HttpOptions { parallel: jobs, offline: self.offline, ..network::options(false) };
        let http = HttpClient::new(options).map_err(transport)?;
        let store = store(self.cache.as_deref())?;
        let mut notes = chosen.notes;
        notes.extend(chosen.warnings);
        let options = Options::of_today();
        let solving = distribution.solve(roots, &http, &store, &options);
        let failed = |error: PackagesError| Failure::from_error(error.exit_code(), &error);
        let Solved { loaded: Loaded { pool, snapshots }, closure, left_out } =
            fetching::runtime()?.block_on(solving).map_err(failed)?;
        notes.extend(left_out);
        for snapshot in snapshots.iter().filter(|snapshot| !snapshot.signed) {
            notes.push(unsigned(profile, &snapshot.repository));
        }
        Ok(Resolved { profile, pool, snapshots, closure, notes })
    }
}

/// The most bytes of a list of installed packages: a hundred times what a large host has.
const INSTALLED_LIMIT: u64 = 256 << 20;

/// What a host has installed, by what it said.
fn installed(file: &Path, profile: &Profile, arch: Arch) -> Result<Baseline, Failure> {
    let wrong = |problem: String| {
        let query = format!("`kubexm-bundle packages query --os {}` prints what to run on the host", profile.name);
        Failure::new(ExitCode::Config, format!("{}: {problem}; {query}", file.display()))
    };
    let text = kubexm_files::read(file, INSTALLED_LIMIT).map_err(|error| wrong(error.to_string()))?;
    let baseline: Baseline = match profile.family {
        Family::Deb => {
            status::read(text.as_slice(), profile.family.arch(arch)).map_err(|e| wrong(e.to_string()))?.into()
        }
        Family::Rpm => {
            let said = rpm::reduced(&String::from_utf8_lossy(&text));
            let packages = rpm::read(&said).map_err(|e| wrong(e.to_string()))?;
            Baseline { packages, ..Baseline::empty() }
        }
    };
    // Every host has some: this is the list of another family, or of a command that failed.
    if baseline.packages.is_empty() {
        return Err(wrong("it lists no package".to_owned()));
    }
    Ok(baseline)
}

/// What it means that nobody has signed the metadata of a repository.
fn unsigned(profile: &Profile, repository: &str) -> String {
    let signs_packages = |known: &Repository| known.name == repository && !known.trust.packages.is_empty();
    match profile.repositories.iter().any(signs_packages) {
        true => format!(
            "the metadata of {repository} is not signed; each of its packages is, and is to be held against that"
        ),
        false => format!("nothing signs {repository}: only what a lock pins by sha256 is taken from it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_names_with_or_without_a_version() {
        assert_eq!(root("socat").unwrap(), Root::named("socat"));
        assert_eq!(root("socat=1:2").unwrap().version, Some((Comparison::Equal, "1:2".into())));
        for wrong in ["", "=1", "socat=", "-y", "a b"] {
            assert!(root(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_repository_whose_packages_alone_are_signed_is_not_called_unsigned() {
        let profiles = Profiles::embedded();
        let said = |os: &str, repository: &str| unsigned(profiles.get(os).unwrap(), repository);
        assert!(said("rocky-9", "baseos").contains("each of its packages is"));
        assert!(said("rocky-9", "another").starts_with("nothing signs another"));
    }
}
