//! A package file in the store, compared with its index entry and, where it carries one, with its vendor's signature.

use std::io::{BufRead, BufReader};

use kubexm_packages::deb::archive;
use kubexm_packages::deb::control::Paragraph;
use kubexm_packages::rpm::file::Rpm;
use kubexm_packages::trust::{Keyring, Policy, signed_rpm};
use kubexm_spec::{Digest, Family};
use kubexm_transport::Store;

use super::PackagesError;

/// A package file, as an index or a lock calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Whose rules hold.
    pub family: Family,
    /// `socat`.
    pub name: String,
    /// With epoch and revision.
    pub version: String,
    /// Architectures that will do, in the family's words.
    pub archs: Vec<String>,
    /// Of the file.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
    /// Where it is from, for people.
    pub address: String,
}

/// Whose signature an .rpm must carry.
#[derive(Clone, Debug)]
pub struct Vendor {
    /// The public keys.
    pub keys: Keyring,
    /// What is asked of signatures.
    pub policy: Policy,
}

/// Compares a package in the store with its name, version and architecture: an unsigned index, or a lock after a
/// merge, could give one package out as another. An .rpm must carry the vendor's signature, where one is asked for; a
/// .deb has none of its own.
pub async fn check(file: &File, vendor: Option<&Vendor>, store: &Store) -> Result<(), PackagesError> {
    let (file, vendor, store) = (file.clone(), vendor.cloned(), store.clone());
    let work = move || {
        let named = || format!("{} {}", file.name, file.version);
        let blob = store.open_blob(&file.digest);
        let blob = blob.map_err(|source| PackagesError::Fetch { repository: named(), source: Box::new(source) })?;
        let mut reader = BufReader::with_capacity(1 << 18, blob);
        match file.family {
            Family::Deb => file.is(&deb(&mut reader).map_err(|reason| file.damaged(reason))?),
            Family::Rpm => {
                let rpm = Rpm::read(&mut reader).map_err(|error| file.damaged(error.to_string()))?;
                // No more of it than that is read: whose it is is not known yet.
                file.is(&[rpm.name(), rpm.version(), rpm.arch()])?;
                let Some(Vendor { keys, policy }) = vendor else { return Ok(()) };
                let untrusted =
                    |source| PackagesError::Untrusted { repository: named(), url: file.address.clone(), source };
                signed_rpm(&rpm, reader, &keys, &policy).map(drop).map_err(untrusted)
            }
        }
    };
    tokio::task::spawn_blocking(work).await.map_err(|error| PackagesError::Worker(error.to_string()))?
}

/// Name, version and architecture that a .deb gives itself.
fn deb(reader: &mut impl BufRead) -> Result<[String; 3], String> {
    let control = archive::control(reader).map_err(|error| error.to_string())?;
    let paragraph = Paragraph::of(&control);
    let field = |name: &'static str| match paragraph.get(name) {
        Ok(value) => {
            value.map(|value| value.trim().to_owned()).ok_or_else(|| format!("its control file has no {name}"))
        }
        Err(error) => Err(error.to_string()),
    };
    Ok([field("Package")?, field("Version")?, field("Architecture")?])
}

impl File {
    fn is(&self, reported: &[String; 3]) -> Result<(), PackagesError> {
        let [name, version, arch] = reported;
        match *name == self.name && *version == self.version && self.archs.contains(arch) {
            true => Ok(()),
            false => Err(self.damaged(format!("it is {name} {version} {arch}, which is listed as another package"))),
        }
    }

    fn damaged(&self, reason: String) -> PackagesError {
        PackagesError::Package { package: format!("{} {}", self.name, self.version), reason }
    }
}
