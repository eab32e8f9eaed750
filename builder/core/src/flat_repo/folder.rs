//! The packages of a folder: which files they are, and the metadata in each.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

use kubexm_packages::deb::archive;
use kubexm_packages::deb::control::Paragraph;
use kubexm_packages::rpm::file::Rpm;
use kubexm_packages::trust::{Keyring, Policy, TrustError, signed_rpm};
use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use super::error::{FlatError, io};
use super::model::{Listed, Options, What};

/// Names of a folder's package files, sorted. What is below it is not looked at.
pub(super) fn package_files(folder: &Path) -> Result<Vec<String>, FlatError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(io("read", folder))? {
        let entry = entry.map_err(io("read", folder))?;
        let name = entry.file_name();
        let shown = name.to_string_lossy().into_owned();
        if shown.starts_with('.') || !(shown.ends_with(".deb") || shown.ends_with(".rpm")) {
            continue;
        }
        let wrong = |why: &str| FlatError::Package { file: shown.clone(), why: why.to_owned() };
        if !entry.path().is_file() {
            return Err(wrong("is not a file (a folder, or a dangling link)"));
        }
        files.push(name.into_string().map_err(|_| wrong("has a name that is not UTF-8"))?);
    }
    files.sort();
    Ok(files)
}

/// What a package says of itself, once all of it is there. `own` has the key that signs the metadata.
pub(super) fn read(folder: &Path, file: String, options: &Options<'_>, own: &Keyring) -> Result<Listed, FlatError> {
    let path = folder.join(&file);
    // Names go into metadata as they are; these would mean something else there.
    if file.contains(|c: char| c.is_whitespace() || c.is_control() || "<>&\"'".contains(c)) {
        return Err(FlatError::Package { file, why: "has a name that metadata cannot hold".to_owned() });
    }
    let wrong = |why: String| FlatError::Package { file: file.clone(), why };
    let (size, digest) = hash(&path)?;
    let mut reader = BufReader::new(File::open(&path).map_err(io("read", &path))?);
    if file.ends_with(".deb") {
        let control = archive::control(&mut reader).map_err(|error| wrong(error.to_string()))?;
        reader.rewind().map_err(io("read", &path))?;
        archive::complete(reader, size).map_err(|error| wrong(error.to_string()))?;
        return Ok(Listed { file, size, digest, signer: None, doubt: None, what: What::Deb(control) });
    }
    let rpm = Rpm::read(&mut reader).map_err(|error| wrong(format!("cannot be listed: {error}")))?;
    reader.seek(SeekFrom::Start(rpm.range.1)).map_err(io("read", &path))?;
    let policy = Policy::at(options.now).of_packages();
    let (keys, policy) = options.vendor.as_ref().map_or((own, &policy), |vendor| (&vendor.keys, &vendor.policy));
    let (signer, doubt) = match signed_rpm(&rpm, reader, keys, policy) {
        Ok(by) => (Some(by.fingerprint), None),
        Err(
            source @ (TrustError::PayloadDiffers | TrustError::Unreadable { .. } | TrustError::BadSignature { .. }),
        ) => {
            return Err(FlatError::Trust { file, source });
        }
        Err(source) if options.vendor.is_some() => return Err(FlatError::Trust { file, source }),
        Err(source) => (None, Some(source.to_string())),
    };
    Ok(Listed { file, size, digest, signer, doubt, what: What::Rpm(Box::new(rpm)) })
}

/// Two files of one package and version with other bytes: which of them a host gets would be chance.
pub(super) fn no_twins(packages: &[Listed]) -> Result<(), FlatError> {
    let mut seen: BTreeMap<String, &Listed> = BTreeMap::new();
    for listed in packages {
        let label = listed.what.label();
        let Some(other) = seen.insert(label.clone(), listed).filter(|other| other.digest != listed.digest) else {
            continue;
        };
        let why = format!("and {} are both {label}, and differ; keep the right one", other.file);
        return Err(FlatError::Package { file: listed.file.clone(), why });
    }
    Ok(())
}

impl What {
    /// Name, version and architecture.
    fn label(&self) -> String {
        match self {
            Self::Deb(control) => ["Package", "Version", "Architecture"].map(|name| field(control, name)).join(" "),
            Self::Rpm(rpm) => [rpm.name(), rpm.version(), rpm.arch()].join(" "),
        }
    }
}

/// A field of a control paragraph; nothing of what is not there.
pub(super) fn field(control: &str, name: &'static str) -> String {
    Paragraph::of(control).get(name).ok().flatten().unwrap_or_default().to_owned()
}

/// Size and digest of a file.
pub(super) fn hash(path: &Path) -> Result<(u64, Digest), FlatError> {
    File::open(path).and_then(digest_of).map_err(io("read", path))
}

/// Size and digest of what is left to read.
fn digest_of(mut reader: impl Read) -> std::io::Result<(u64, Digest)> {
    let mut hasher = Hasher::default();
    let size = std::io::copy(&mut reader, &mut hasher)?;
    Ok((size, hasher.finish()))
}
