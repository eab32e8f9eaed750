//! Which packages another operating system needs: its repositories are read and solved over.

use std::path::{Path, PathBuf};

use kubexm_files::TEXT_LIMIT;
use kubexm_manifests::os::{Profile, Profiles, Repository};
use kubexm_packages::deb::status;
use kubexm_packages::rpm::installed as rpm;
use kubexm_packages::solve::{Baseline, Closure, Pool, Root, Unsolvable};
use kubexm_packages::trust::Keyring;
use kubexm_spec::{Arch, Family};
use kubexm_transport::{HttpClient, HttpOptions};

use super::{Session, SessionError};
use crate::origins::packages::{Loaded, Options, Snapshot};
use crate::packages::{Distribution, Mirrors, Solved};

/// An operating system and how its repositories are asked.
#[derive(Clone, Debug)]
pub struct Query {
    /// `debian-12`.
    pub os: String,
    /// Of its packages.
    pub arch: Arch,
    /// Mirrors of the user's own: `NAME=URL` or `URL`.
    pub mirrors: Vec<String>,
    /// Unsigned rpm metadata is accepted from these mirrors over plain http.
    pub trust_unsigned: bool,
    /// A file of certificates whose signatures the repositories must carry, in place of the vendor's.
    pub key: Option<PathBuf>,
    /// Name or file of a zone.
    pub zone: Option<String>,
    /// Packages that a host reported as installed.
    pub installed: Option<PathBuf>,
    /// Folder of the cache; the usual one when none.
    pub cache: Option<PathBuf>,
    /// Transfers at once.
    pub jobs: usize,
    /// Only what the cache holds.
    pub offline: bool,
}

/// An answer and what it was found in.
pub struct Answered {
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

impl Session {
    /// Reads the repositories and solves for these roots.
    pub async fn packages(&self, query: &Query, roots: &[Root]) -> Result<Answered, SessionError> {
        let profiles = Profiles::embedded();
        let profile = profiles.get(&query.os)?;
        if !profile.archs.contains(&query.arch) {
            let known = profile.archs.iter().map(|arch| arch.as_str()).collect();
            return Err(SessionError::NoArch { os: query.os.clone(), arch: query.arch, known });
        }
        let chosen = self.zone(query.zone.as_deref(), None)?;
        let mirrors = Mirrors::of_zone(profile, query.arch, &chosen.zone)
            .with(profile, query.arch, &query.mirrors, query.trust_unsigned)
            .map_err(SessionError::Mirror)?;
        let keyring = query.key.as_deref().map(keys).transpose();
        let installed = |file: &PathBuf| installed(file, profile, query.arch);
        let baseline = query.installed.as_ref().map_or_else(|| Ok(Baseline::empty()), installed)?;
        let keyring = keyring?;
        let distribution =
            Distribution { mirrors, keyring, baseline, ..Distribution::new(profile, profiles, query.arch) };
        let options = HttpOptions { parallel: query.jobs, offline: query.offline, ..self.http_options(false) };
        let http = HttpClient::new(options)?;
        let store = self.store(query.cache.as_deref())?;
        let Solved { loaded: Loaded { pool, snapshots }, closure, left_out } =
            distribution.solve(roots, &http, &store, &Options::at(self.now())).await?;
        let mut notes = chosen.notes;
        notes.extend(chosen.warnings);
        notes.extend(left_out);
        let nobody = snapshots.iter().filter(|snapshot| !snapshot.signed);
        notes.extend(nobody.map(|snapshot| unsigned(profile, &snapshot.repository)));
        let trusted = snapshots.iter().filter(|snapshot| snapshot.trust_unsigned);
        notes.extend(trusted.map(|snapshot| {
            let name = &snapshot.repository;
            format!("the metadata of {name} came over plain http: anybody on the network could have replaced it")
        }));
        Ok(Answered { profile, pool, snapshots, closure, notes })
    }
}

/// Certificates as gpg exports them, armored or not.
fn keys(file: &Path) -> Result<Keyring, SessionError> {
    let wrong = |problem: String| SessionError::File { path: file.to_owned(), problem };
    let bytes = kubexm_files::read(file, TEXT_LIMIT)?;
    Keyring::read(&bytes).map_err(|error| wrong(error.to_string()))
}

/// The most bytes of a list of installed packages: a hundred times what a large host has.
const INSTALLED_LIMIT: u64 = 256 << 20;

/// What a host has installed, from its own report.
fn installed(file: &Path, profile: &Profile, arch: Arch) -> Result<Baseline, SessionError> {
    let wrong = |problem: String| {
        let query = format!("`kubexm-bundle packages query --os {}` prints what to run on the host", profile.name);
        SessionError::File { path: file.to_owned(), problem: format!("{problem}; {query}") }
    };
    let text = kubexm_files::read(file, INSTALLED_LIMIT).map_err(|error| wrong(error.to_string()))?;
    let baseline: Baseline = match profile.family {
        Family::Deb => {
            status::read(text.as_slice(), profile.family.arch(arch)).map_err(|e| wrong(e.to_string()))?.into()
        }
        Family::Rpm => {
            let printed = rpm::reduced(&String::from_utf8_lossy(&text));
            let packages = rpm::read(&printed).map_err(|e| wrong(e.to_string()))?;
            Baseline { packages, ..Baseline::empty() }
        }
    };
    // Every host has some: this is the list of another family, or of a command that failed.
    if baseline.packages.is_empty() {
        return Err(wrong("it lists no package".to_owned()));
    }
    Ok(baseline)
}

/// The note about a repository with unsigned metadata.
fn unsigned(profile: &Profile, repository: &str) -> String {
    let signs_packages = |known: &Repository| known.name == repository && !known.trust.packages.is_empty();
    match profile.repositories.iter().any(signs_packages) {
        true => format!(
            "the metadata of {repository} is not signed; each of its packages is, and is to be compared with that"
        ),
        false => format!("nothing signs {repository}: only what a lock pins by sha256 is taken from it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_whose_packages_alone_are_signed_is_not_called_unsigned() {
        let profiles = Profiles::embedded();
        let recorded = |os: &str, repository: &str| unsigned(profiles.get(os).unwrap(), repository);
        assert!(recorded("rocky-9", "baseos").contains("each of its packages is"));
        assert!(recorded("rocky-9", "another").starts_with("nothing signs another"));
    }
}
