//! kubexm's package repository for one operating system and platform: its index is made from the packages' metadata,
//! dated by the lock, signed by the site's key. The same packages, lock and key give the same bytes.

use std::io::{BufRead, BufReader};

use kubexm_archive::{Bundle, Unverified, members};
use kubexm_manifests::os::{Profile, Profiles};
use kubexm_packages::deb::{archive, index, publish};
use kubexm_packages::model::{Package, RepoId};
use kubexm_packages::rpm;
use kubexm_packages::rpm::file::Rpm;
use kubexm_packages::trust::{SignError, SiteKey};
use kubexm_recipes::modules::packages::source;
use kubexm_recipes::packages::{PUBLIC_KEY, RepositoryFile, VENDOR_KEYS, folder};
use kubexm_spec::lock::PackageSet;
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ArtifactKey, Family, error_chain};

use crate::error::SessionError;

/// `Suite` and `Codename` of kubexm's repositories.
const SUITE: &str = "kubexm";

/// A package of the bundle and its metadata.
#[derive(Debug)]
pub struct PackageFile {
    artifact: Artifact,
    size: u64,
    front: Front,
}

/// A package of which every byte was read and has the manifest's digest. Only [`read_verified`] creates one, and only of
/// these is metadata made that the site's key signs: the trailer, by which parts of a bundle are checked, is not signed.
#[derive(Debug)]
pub struct VerifiedPackage(PackageFile);

#[derive(Debug)]
enum Front {
    /// The control paragraph.
    Deb(String),
    Rpm(Box<Rpm>),
}

/// Reads the headers of a package in the bundle, and compares them with the manifest; the rest of it is not read.
pub fn read(bundle: &Bundle, artifact: &Artifact, family: Family) -> Result<Unverified<PackageFile>, SessionError> {
    let part = bundle.part(&members::blob_name(&artifact.digest), 0)?;
    let file = part.map(|reader| read_from(&mut BufReader::new(reader), bundle, artifact, family));
    file.transpose()
}

/// Reads every byte of a package in the bundle, and compares its digest and headers with the manifest.
pub fn read_verified(bundle: &Bundle, artifact: &Artifact, family: Family) -> Result<VerifiedPackage, SessionError> {
    let mut reader = BufReader::new(bundle.member(&members::blob_name(&artifact.digest))?);
    let file = read_from(&mut reader, bundle, artifact, family)?;
    // The last read compares the digest.
    std::io::copy(&mut reader, &mut std::io::sink())
        .map_err(|error| damaged(bundle, artifact, &format!("cannot be read: {}", error_chain(&error))))?;
    Ok(VerifiedPackage(file))
}

fn damaged(bundle: &Bundle, artifact: &Artifact, why: &dyn std::fmt::Display) -> SessionError {
    let what = format!("{} of {}: {} ", artifact.key, bundle.path().display(), artifact.name);
    SessionError::Packages { what, reason: why.to_string() }
}

fn read_from(
    reader: &mut impl BufRead,
    bundle: &Bundle,
    artifact: &Artifact,
    family: Family,
) -> Result<PackageFile, SessionError> {
    let damaged = |why: &dyn std::fmt::Display| damaged(bundle, artifact, why);
    // Any other name could clash with a file of the repository itself.
    let suffix = match family {
        Family::Deb => ".deb",
        Family::Rpm => ".rpm",
    };
    if !plain(&artifact.name) || !artifact.name.ends_with(suffix) {
        return Err(damaged(&"is not the file name of a package"));
    }
    let size = artifact.blobs.iter().filter(|blob| blob.digest == artifact.digest).map(|blob| blob.size).next();
    let size = size.ok_or_else(|| damaged(&"has no blob in the manifest"))?;
    let front = match family {
        Family::Deb => Front::Deb(archive::control(reader).map_err(|error| damaged(&error))?),
        Family::Rpm => {
            Front::Rpm(Box::new(Rpm::read(reader).map_err(|error| damaged(&format!("cannot be read: {error}")))?))
        }
    };
    let file = PackageFile { artifact: artifact.clone(), size, front };
    let arch = artifact.platform.map_or("", |platform| family.arch(platform.arch));
    let described = described(&[&file], family, arch, RepoId(0)).map_err(|why| damaged(&why))?;
    let ArtifactKey::Package { name, .. } = &artifact.key else { return Err(damaged(&"is not a package")) };
    match described.as_slice() {
        [one] if *one.name == **name && *one.version == *artifact.version => Ok(file),
        [one] => Err(damaged(&format!("is {one}, and should be {name} {}", artifact.version))),
        _ => Err(damaged(&format!("is not for {arch}"))),
    }
}

/// Characters that need no escaping in paths, apt lists and XML.
fn plain(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "+-._~:^%".contains(c);
    !name.is_empty() && !name.starts_with(['.', '-']) && name.chars().all(fine)
}

/// The packages as an index describes them; their location is the file's name.
pub fn described(files: &[&PackageFile], family: Family, arch: &str, repo: RepoId) -> Result<Vec<Package>, String> {
    match family {
        Family::Deb => {
            let list = deb_list(files).map_err(|error| error.to_string())?;
            index::read(list.as_bytes(), repo, arch).map_err(|error| error.to_string())
        }
        Family::Rpm => {
            let all = rpms(files).filter(|item| rpm::fits(arch, &item.rpm.arch()));
            all.map(|item| item.rpm.package(repo, item.location, item.size, item.digest))
                .collect::<Result<_, _>>()
                .map_err(|error| error.to_string())
        }
    }
}

fn deb_list(files: &[&PackageFile]) -> Result<String, kubexm_packages::deb::control::ControlError> {
    let entries = files.iter().filter_map(|file| match &file.front {
        Front::Deb(control) => Some(publish::Entry {
            control: control.clone(),
            file_name: file.artifact.name.clone(),
            size: file.size,
            digest: file.artifact.digest,
        }),
        Front::Rpm(_) => None,
    });
    publish::packages(&entries.collect::<Vec<_>>())
}

fn rpms<'a>(files: &[&'a PackageFile]) -> impl Iterator<Item = rpm::publish::Item<'a>> {
    files.iter().filter_map(|file| match &file.front {
        Front::Rpm(rpm) => Some(rpm::publish::Item {
            rpm,
            location: &file.artifact.name,
            size: file.size,
            digest: file.artifact.digest,
        }),
        Front::Deb(_) => None,
    })
}

/// The metadata of a repository before it is signed, made of verified packages only.
#[derive(Debug)]
pub struct Unsigned {
    family: Family,
    /// In seconds of Unix time.
    date: i64,
    /// Files without a signature of their own; the source file is last.
    files: Vec<RepositoryFile>,
    /// `Release` or `repomd.xml`, which lists the other files.
    signed: String,
}

impl Unsigned {
    /// The metadata of a set.
    pub fn of(set: &PackageSet, profile: &Profile, packages: &[VerifiedPackage]) -> Result<Self, String> {
        let packages: Vec<&PackageFile> = packages.iter().map(|package| &package.0).collect();
        let packages = packages.as_slice();
        let (family, date) = (profile.family, set.date);
        let folder = folder(&set.os, set.platform.arch);
        let file = |path: &str, text: String| RepositoryFile { path: path.to_owned(), text };
        let mut files = Vec::new();
        let (signed, list) = match family {
            Family::Deb => {
                let list = deb_list(packages).map_err(|error| error.to_string())?;
                let about = publish::About {
                    origin: "KubeXM".to_owned(),
                    suite: SUITE.to_owned(),
                    architectures: vec![family.arch(set.platform.arch).to_owned()],
                    date,
                };
                let release = publish::release(&about, &[("Packages", list.as_bytes())]);
                files.push(file("Packages", list));
                (release, format!("deb [signed-by={folder}/{PUBLIC_KEY}] file:{folder} ./\n"))
            }
            Family::Rpm => {
                let items: Vec<_> = rpms(packages).collect();
                let dated = u64::try_from(date).unwrap_or(0);
                let mut written = rpm::publish::plain(&items, dated).map_err(|error| error.to_string())?;
                let index = written.pop().ok_or("it has no index")?;
                for one in written {
                    files.push(file(&one.path, utf8(one.bytes)?));
                }
                let vendor = vendor_keys(profile);
                let list = dnf_source(&folder, !vendor.is_empty());
                files.extend((!vendor.is_empty()).then(|| file(VENDOR_KEYS, vendor)));
                (utf8(index.bytes)?, list)
            }
        };
        files.push(file(source(family), list));
        Ok(Self { family, date, files, signed })
    }

    /// All files of the repository; the source file, which makes the repository known, comes after the signed ones.
    pub fn signed(&self, key: &SiteKey) -> Result<Vec<RepositoryFile>, SignError> {
        // A signature that is older than its key would be refused.
        let made = self.date.max(key.created());
        let file = |path: &str, text: String| RepositoryFile { path: path.to_owned(), text };
        let mut files = vec![file(PUBLIC_KEY, key.public()?)];
        files.extend(match self.family {
            Family::Deb => vec![file("InRelease", key.clearsigned(&self.signed, made)?)],
            Family::Rpm => vec![
                file("repodata/repomd.xml", self.signed.clone()),
                file("repodata/repomd.xml.asc", key.detached(self.signed.as_bytes(), made)?),
            ],
        });
        files.extend(self.files.iter().cloned());
        Ok(files)
    }
}

fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// The public keys of the vendors that sign a distribution's packages; empty if nobody does.
fn vendor_keys(profile: &Profile) -> String {
    let all = profile.repositories.iter().flat_map(|repository| repository.trust.packages.iter().cloned());
    let all: Vec<String> = all.collect();
    Profiles::embedded().certificates(&all).iter().map(|key| format!("{}\n", key.armored.trim_end())).collect()
}

/// The .repo file for yum 3 and dnf. Unsigned packages are checked only by the signed metadata; the lock has the digest
/// of each. It names only the site's key, for the metadata; the vendors' keys are passed to rpm during the
/// installation.
fn dnf_source(folder: &str, signed_packages: bool) -> String {
    let check = u8::from(signed_packages);
    // Without module filtering, so that exactly the resolved packages are installed.
    format!(
        "[kubexm]\nname=KubeXM\nbaseurl=file://{folder}\nenabled=0\ngpgcheck={check}\nrepo_gpgcheck=1\n\
         gpgkey=file://{folder}/{PUBLIC_KEY}\nmodule_hotfixes=1\nmetadata_expire=0\nskip_if_unavailable=0\n"
    )
}
