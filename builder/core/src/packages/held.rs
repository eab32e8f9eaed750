//! Fetched package files, compared with the lock and their vendor before anything is packed.

use std::collections::HashMap;

use kubexm_manifests::os::{Profile, Profiles};
use kubexm_packages::trust::{Keyring, Policy};
use kubexm_spec::lock::{Content, LockItem};
use kubexm_spec::{ArtifactKey, Digest, Family, Lock, Trust};
use kubexm_transport::Store;

use super::address;
use crate::BuildError;
use crate::origins::packages::{File, PackagesError, Vendor, check};

/// Which package each blob of a lock is, and who must have signed it.
#[derive(Debug, Default)]
pub(crate) struct Held {
    files: HashMap<Digest, Vec<(String, File, Option<usize>)>>,
    vendors: Vec<Vendor>,
}

impl Held {
    /// Of a lock, at a time in seconds of Unix time.
    pub fn of(lock: &Lock, now: i64) -> Result<Self, BuildError> {
        let mut held = Self::default();
        let mut known: HashMap<(&str, &str), Option<usize>> = HashMap::new();
        for item in &lock.items {
            let ArtifactKey::Package { os, name } = &item.key else { continue };
            let (Content::File { file_name, digest, size }, Some(platform)) = (&item.content, item.platform) else {
                continue;
            };
            // Of a lock that was not made by this program; drift has reported it.
            let Ok(profile) = Profiles::embedded().get(os) else { continue };
            let address = address::own_address(item, os, platform, file_name);
            let repository = address.as_deref().and_then(|address| address::repository(profile, platform, address));
            let vendor = match repository {
                // Else nobody would be asked who signed it.
                None if item.trust == Trust::Gpg => {
                    return Err(BuildError::ForeignPackage {
                        item: item.name(),
                        os: os.clone(),
                        family: profile.family,
                    });
                }
                Some(repository) if item.trust == Trust::Gpg => {
                    match known.get(&(os.as_str(), repository.name.as_str())) {
                        Some(vendor) => *vendor,
                        None => {
                            let found = vendor(profile, &repository.trust.packages, repository.trust.sha1, now);
                            let found = found.map_err(|source| failed(item, PackagesError::Key(source)))?;
                            let at = found.map(|vendor| {
                                held.vendors.push(vendor);
                                held.vendors.len() - 1
                            });
                            known.insert((os, &repository.name), at);
                            at
                        }
                    }
                }
                _ => None,
            };
            let family = profile.family;
            let file = File {
                family,
                name: name.clone(),
                version: item.version.clone(),
                archs: vec![family.arch(platform.arch).to_owned(), family.any_arch().to_owned()],
                digest: *digest,
                size: *size,
                address: address.unwrap_or_default(),
            };
            held.files.entry(*digest).or_default().push((item.name(), file, vendor));
        }
        Ok(held)
    }

    /// Whether a blob is a package.
    pub fn has(&self, digest: &Digest) -> bool {
        self.files.contains_key(digest)
    }

    /// Looks at a blob that is in the store; what is no package passes.
    pub async fn check(&self, digest: &Digest, store: &Store) -> Result<(), BuildError> {
        for (of, file, vendor) in self.files.get(digest).into_iter().flatten() {
            let vendor = vendor.and_then(|at| self.vendors.get(at));
            let failed = |source| BuildError::Packages { of: of.clone(), source: Box::new(source) };
            check(file, vendor, store).await.map_err(failed)?;
        }
        Ok(())
    }
}

fn failed(item: &LockItem, source: PackagesError) -> BuildError {
    BuildError::Packages { of: item.name(), source: Box::new(source) }
}

/// Who signs the packages of a repository; none where they carry no signature of their own.
fn vendor(
    profile: &Profile,
    pins: &[String],
    sha1: bool,
    now: i64,
) -> Result<Option<Vendor>, kubexm_packages::trust::TrustError> {
    if profile.family == Family::Deb || pins.is_empty() {
        return Ok(None);
    }
    let certificates = Profiles::embedded().certificates(pins);
    let armored: Vec<&str> = certificates.iter().map(|key| key.armored.trim()).collect();
    let keys = Keyring::read(armored.join("\n").as_bytes())?.pinned(pins)?;
    let policy = Policy { sha1, ..Policy::at(now).of_packages() };
    Ok(Some(Vendor { keys, policy }))
}
