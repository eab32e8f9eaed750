//! A folder of packages as a signed repository.

use std::path::{Path, PathBuf};

use kubexm_files::TEXT_LIMIT;
use kubexm_manifests::os::Profiles;
use kubexm_packages::trust::{Keyring, Policy};
use kubexm_spec::{ExitCode, Family};
use serde::Serialize;

use super::key::SiteKeySource;
use crate::flat_repo::{self, Options, Published, Vendor};
use crate::session::{Session, SessionError};

/// What is published.
pub struct Request<'a> {
    pub folder: &'a Path,
    /// Signs the metadata.
    pub sign: &'a SiteKeySource,
    /// A folder that packages are copied from first.
    pub from: Option<&'a Path>,
    /// The operating system that the packages are of.
    pub os: Option<&'a str>,
    /// Public keys of which one must have signed each .rpm.
    pub key: Option<&'a Path>,
    /// What the metadata is dated, in seconds of Unix time; now when none.
    pub date: Option<i64>,
}

/// A repository.
#[derive(Debug, Serialize)]
pub struct Repository {
    schema: &'static str,
    /// Absolute.
    pub folder: PathBuf,
    pub family: Family,
    /// Of the key that signed it.
    pub fingerprint: String,
    pub packages: Vec<Package>,
    /// Files of metadata.
    pub written: Vec<String>,
    /// The source file for the package manager; none where no source can name the folder.
    pub source: Option<String>,
    pub notes: Vec<String>,
}

/// A package of a repository.
#[derive(Debug, Serialize)]
pub struct Package {
    pub file: String,
    /// In bytes.
    pub size: u64,
    pub sha256: String,
    pub signer: Option<String>,
}

/// Makes the folder a repository.
pub fn publish(session: &Session, request: &Request<'_>) -> Result<Repository, SessionError> {
    let key = request.sign.open()?;
    let now = session.now();
    let (family, vendor) = match (request.os, request.key) {
        (Some(name), _) => vendor(name, now)?,
        (None, Some(file)) => (Some(Family::Rpm), Some(signers(file, now)?)),
        (None, None) => (None, None),
    };
    if let Some(from) = request.from {
        flat_repo::gather(from, request.folder)?;
    }
    let vendored = vendor.is_some();
    let options = Options { key: &key, date: request.date.unwrap_or(now), family, vendor, now };
    let published = flat_repo::publish(request.folder, &options)?;
    let folder = std::path::absolute(request.folder).unwrap_or_else(|_| request.folder.to_owned());
    let mut notes = doubts(&published);
    let source = match is_plain(&folder) {
        true => Some(source(published.family, &folder, vendored)),
        false => {
            notes.push(format!(
                "{}: apt and dnf cannot use a folder whose path has such characters; move it, or serve it over HTTP",
                folder.display()
            ));
            None
        }
    };
    let packages = published.packages.into_iter().map(|one| Package {
        file: one.file,
        size: one.size,
        sha256: one.digest.hex(),
        signer: one.signer,
    });
    Ok(Repository {
        schema: "kubexm.io/packages-repo/v1",
        folder,
        family: published.family,
        fingerprint: key.fingerprint().to_string(),
        packages: packages.collect(),
        written: published.written,
        source,
        notes,
    })
}

/// What an operating system asks of packages.
fn vendor(name: &str, now: i64) -> Result<(Option<Family>, Option<Vendor>), SessionError> {
    let profiles = Profiles::embedded();
    let profile = profiles.get(name)?;
    if profile.family == Family::Deb {
        return Ok((Some(Family::Deb), None));
    }
    let pins: Vec<String> = profile.repositories.iter().flat_map(|one| one.trust.packages.clone()).collect();
    if pins.is_empty() {
        let text = format!(
            "the keys that sign packages of {name} are not known; leave out --os, and check the signatures yourself"
        );
        return Err(SessionError::refused(ExitCode::Config, text));
    }
    let armored: String = profiles.certificates(&pins).iter().map(|key| format!("{}\n", key.armored.trim())).collect();
    let keys = Keyring::read(armored.as_bytes()).and_then(|keys| keys.pinned(&pins));
    let keys = keys.map_err(|error| SessionError::refused(ExitCode::Internal, format!("keys of {name}: {error}")))?;
    let sha1 = profile.repositories.iter().any(|one| one.trust.sha1);
    let policy = Policy { sha1, ..Policy::at(now).of_packages() };
    Ok((Some(Family::Rpm), Some(Vendor { keys, armored, policy })))
}

/// The keys of a file, of which one must have signed each package.
fn signers(file: &Path, now: i64) -> Result<Vendor, SessionError> {
    let wrong = |error: String| SessionError::File { path: file.to_owned(), problem: error };
    let bytes = kubexm_files::read(file, TEXT_LIMIT)?;
    let keys = Keyring::read(&bytes).map_err(|error| wrong(error.to_string()))?;
    // rpm imports no other.
    let armored = String::from_utf8(bytes).ok().filter(|text| text.contains("-----BEGIN PGP PUBLIC KEY BLOCK-----"));
    let armored =
        armored.ok_or_else(|| wrong("is not ASCII-armored; `gpg --export --armor` makes it so".to_owned()))?;
    Ok(Vendor { keys, armored, policy: Policy::at(now).of_packages() })
}

/// What dnf refuses with its checks on.
fn doubts(published: &Published) -> Vec<String> {
    let each = published.packages.iter().filter_map(|one| {
        let doubt = one.doubt.as_ref()?;
        Some(format!(
            "{}: {doubt}; dnf refuses it (gpgcheck=1): say whose signatures packages carry with --os or --key",
            one.file
        ))
    });
    each.collect()
}

/// Lines of apt's and dnf's sources are parted at blanks, and brackets are apt's own.
fn is_plain(folder: &Path) -> bool {
    folder
        .to_str()
        .is_some_and(|text| !text.contains(|c: char| c.is_whitespace() || c.is_control() || "[]#%?\"'\\".contains(c)))
}

/// The source file for the package manager, with its signature checks on.
fn source(family: Family, folder: &Path, vendored: bool) -> String {
    let folder = folder.display();
    match family {
        Family::Deb => format!("deb [signed-by={folder}/{}] file:{folder} ./", flat_repo::PUBLIC_KEY_BINARY),
        Family::Rpm => format!(
            "[kubexm]\nname=kubexm\nbaseurl=file://{folder}\nenabled=1\nrepo_gpgcheck=1\ngpgcheck=1\n\
             gpgkey=file://{folder}/{}{}\nmodule_hotfixes=1",
            flat_repo::PUBLIC_KEY,
            if vendored { format!(" file://{folder}/{}", flat_repo::VENDOR_KEYS) } else { String::new() },
        ),
    }
}
