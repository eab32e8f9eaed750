//! A flat repository of our own: a folder of .deb or .rpm files with signed metadata beside them, that apt and dnf use with their
//! checks on.
//!
//! folder of packages ─read→ what each says of itself ─publish→ metadata ─sign→ files, the one that is signed last

mod error;
mod folder;
mod model;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use kubexm_packages::deb::publish;
use kubexm_packages::trust::Keyring;
use kubexm_spec::Family;

pub use self::error::FlatError;
use self::error::io;
use self::model::What;
pub use self::model::{Listed, Options, Vendor};
use folder::{hash, no_twins, package_files, read};

/// The public key beside the metadata, ASCII-armored (rpm, apt 1.4 and later) and binary (every apt).
pub const PUBLIC_KEY: &str = "kubexm.asc";
/// See [`PUBLIC_KEY`].
pub const PUBLIC_KEY_BINARY: &str = "kubexm.gpg";
/// The vendor's public keys, where its packages' signatures were asked for: dnf checks them again.
pub const VENDOR_KEYS: &str = "vendor.asc";

/// What was written.
#[derive(Debug)]
pub struct Published {
    /// Of the packages.
    pub family: Family,
    /// By file name.
    pub packages: Vec<Listed>,
    /// Below the folder, in the order in which they were written.
    pub written: Vec<String>,
}

/// Makes a folder of packages a repository, or brings its metadata up to what the folder holds now. Package files are
/// not changed.
pub fn publish(folder: &Path, options: &Options<'_>) -> Result<Published, FlatError> {
    let files = package_files(folder)?;
    let is_deb = |file: &String| file.ends_with(".deb");
    let family = match (files.iter().any(is_deb), files.iter().all(is_deb)) {
        _ if files.is_empty() => return Err(FlatError::Empty(folder.to_owned())),
        (true, true) => Family::Deb,
        (false, _) => Family::Rpm,
        (true, false) => return Err(FlatError::Mixed(folder.to_owned())),
    };
    if options.family.is_some_and(|wanted| wanted != family) {
        return Err(FlatError::WrongFamily(folder.to_owned()));
    }
    let own = Keyring::read(&options.key.public_binary()?)
        .map_err(|source| FlatError::Trust { file: PUBLIC_KEY_BINARY.to_owned(), source })?;
    let packages: Vec<Listed> =
        files.into_iter().map(|file| read(folder, file, options, &own)).collect::<Result<_, FlatError>>()?;
    no_twins(&packages)?;
    // A signature from before its key was made would be refused.
    let signed = options.date.max(options.key.created());
    let metadata = match family {
        Family::Deb => deb(&packages, options, signed)?,
        Family::Rpm => rpm(&packages, options, signed)?,
    };
    let mut written = Vec::new();
    for (name, content) in &metadata {
        write(&folder.join(name), content)?;
        written.push(name.clone());
    }
    if family == Family::Rpm {
        sweep(folder, &written)?;
    }
    Ok(Published { family, packages, written })
}

/// Puts the packages of another folder into this one, each by a temporary file and a rename. One of the same name and bytes stays.
pub fn gather(from: &Path, folder: &Path) -> Result<(), FlatError> {
    fs::create_dir_all(folder).map_err(io("create", folder))?;
    let files = package_files(from)?;
    if files.is_empty() {
        return Err(FlatError::Empty(from.to_owned()));
    }
    for file in files {
        let (source, target) = (from.join(&file), folder.join(&file));
        if target.exists() && hash(&source)? == hash(&target)? {
            continue;
        }
        let mut reader = File::open(&source).map_err(io("read", &source))?;
        place(&target, |to| std::io::copy(&mut reader, to).map(drop))?;
    }
    Ok(())
}

type Files = Vec<(String, Vec<u8>)>;

/// `Packages`, `Release` and its signatures: `InRelease`, which is what apt reads, comes last.
fn deb(packages: &[Listed], options: &Options<'_>, signed: i64) -> Result<Files, FlatError> {
    let wrong = |error: String| FlatError::Package { file: "a package".to_owned(), why: error };
    let mut entries = Vec::new();
    let mut architectures: Vec<String> = Vec::new();
    for listed in packages {
        let What::Deb(control) = &listed.what else { continue };
        let architecture = folder::field(control, "Architecture");
        if architecture != "all" && !architectures.contains(&architecture) {
            architectures.push(architecture);
        }
        entries.push(publish::Entry {
            control: control.clone(),
            file_name: listed.file.clone(),
            size: listed.size,
            digest: listed.digest,
        });
    }
    if architectures.is_empty() {
        architectures.push("all".to_owned());
    }
    let index = publish::packages(&entries).map_err(|error| wrong(error.to_string()))?.into_bytes();
    let packed = kubexm_packages::compression::gzip(&index);
    let about =
        publish::About { origin: "KubeXM".to_owned(), suite: "kubexm".to_owned(), architectures, date: options.date };
    let release = publish::release(&about, &[("Packages", &index), ("Packages.gz", &packed)]);
    let clear = options.key.clearsigned(&release, signed)?;
    let apart = options.key.detached(release.as_bytes(), signed)?;
    let mut files = keys(options)?;
    files.extend([
        ("Packages".to_owned(), index),
        ("Packages.gz".to_owned(), packed),
        ("Release".to_owned(), release.into_bytes()),
        ("Release.gpg".to_owned(), apart.into_bytes()),
        ("InRelease".to_owned(), clear.into_bytes()),
    ]);
    Ok(files)
}

/// `repodata/` and the signature of `repomd.xml`.
fn rpm(packages: &[Listed], options: &Options<'_>, signed: i64) -> Result<Files, FlatError> {
    let items: Vec<_> = packages
        .iter()
        .filter_map(|listed| match &listed.what {
            What::Rpm(rpm) => Some(kubexm_packages::rpm::publish::Item {
                rpm,
                location: &listed.file,
                size: listed.size,
                digest: listed.digest,
            }),
            What::Deb(_) => None,
        })
        .collect();
    let date = u64::try_from(options.date).unwrap_or(0);
    let metadata = kubexm_packages::rpm::publish::metadata(&items, date)
        .map_err(|error| FlatError::Package { file: "a package".to_owned(), why: error.to_string() })?;
    let mut files = keys(options)?;
    files.extend(options.vendor.iter().map(|vendor| (VENDOR_KEYS.to_owned(), vendor.armored.clone().into_bytes())));
    let last = metadata.last().map(|one| options.key.detached(&one.bytes, signed)).transpose()?;
    files.extend(metadata.into_iter().map(|one| (one.path, one.bytes)));
    files.extend(last.map(|signature| ("repodata/repomd.xml.asc".to_owned(), signature.into_bytes())));
    Ok(files)
}

fn keys(options: &Options<'_>) -> Result<Files, FlatError> {
    Ok(vec![
        (PUBLIC_KEY.to_owned(), options.key.public()?.into_bytes()),
        (PUBLIC_KEY_BINARY.to_owned(), options.key.public_binary()?),
    ])
}

/// Removes what an earlier run left in `repodata/`.
fn sweep(folder: &Path, written: &[String]) -> Result<(), FlatError> {
    let repodata = folder.join("repodata");
    for entry in fs::read_dir(&repodata).map_err(io("read", &repodata))? {
        let entry = entry.map_err(io("read", &repodata))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Only what has our names: a digest, and what it is of.
        let ours = name.len() > 64 && name.ends_with(".xml.gz") && name[..64].bytes().all(|b| b.is_ascii_hexdigit());
        if ours && !written.contains(&format!("repodata/{name}")) {
            fs::remove_file(entry.path()).map_err(io("remove", &entry.path()))?;
        }
    }
    Ok(())
}

fn write(target: &Path, content: &[u8]) -> Result<(), FlatError> {
    place(target, |file| file.write_all(content))
}

/// A file by a temporary one, fsync and rename; readable by all, since servers and apt's own user read it.
fn place(target: &Path, fill: impl FnOnce(&mut File) -> std::io::Result<()>) -> Result<(), FlatError> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(io("create", folder))?;
    kubexm_files::check_regular(target)?;
    let mut temporary =
        tempfile::Builder::new().prefix(".kubexm.").tempfile_in(folder).map_err(io("write into", folder))?;
    let written = fill(temporary.as_file_mut())
        .and_then(|()| temporary.as_file().set_permissions(fs::Permissions::from_mode(0o644)))
        .and_then(|()| temporary.as_file().sync_all());
    written.map_err(io("write", target))?;
    temporary.persist(target).map_err(|error| io("write", target)(error.error))?;
    File::open(folder).and_then(|open| open.sync_all()).map_err(io("write", folder))
}
