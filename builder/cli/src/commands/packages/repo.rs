//! `kubexm-bundle packages repo`.

use std::path::{Path, PathBuf};

use kubexm_builder::flat_repo::{self, Options, Published, Vendor};
use kubexm_builder::session::Session;
use kubexm_files::TEXT_LIMIT;
use kubexm_manifests::os::Profiles;
use kubexm_packages::trust::{Keyring, Policy};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitCode, Family};
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use super::super::clock;
use super::key::SignArgs;

/// Make a folder of .deb or .rpm files a signed repository
///
/// Writes metadata beside the packages, signed by a key of your own, and the public key: apt and
/// dnf then install from the folder, or from a web server that shows it, with all of their checks
/// on. Run it again after the folder has changed. With --os each .rpm must be signed by that
/// distribution, with --key by the keys of a file; without, what dnf would refuse is reported. A .deb
/// carries no signature of its own. Packages are never changed.
/// The metadata is dated now, or by SOURCE_DATE_EPOCH; the same packages, key and date give the
/// same bytes.
///
/// Examples:
///   kubexm-bundle packages repo debs --sign-key site.key
///   kubexm-bundle packages repo /srv/el9 --from ./rpms --os rocky-9 --sign-key site.key
///   kubexm-bundle packages repo /srv/docker --key docker.asc --sign-key site.key
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The folder of the repository
    folder: PathBuf,
    #[command(flatten)]
    sign: SignArgs,
    /// Folder to copy packages from first
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Operating system the packages are of: its family, and whose signatures each .rpm must carry
    #[arg(long, value_name = "NAME")]
    os: Option<String>,
    /// Public keys, ASCII-armored, of which one must have signed each .rpm: of who makes packages of your own
    #[arg(long, value_name = "FILE", conflicts_with = "os")]
    key: Option<PathBuf>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let key = args.sign.open()?;
    let now = session.now();
    let (family, vendor) = match (&args.os, &args.key) {
        (Some(name), _) => vendor(name, now)?,
        (None, Some(file)) => (Some(Family::Rpm), Some(signers(file, now)?)),
        (None, None) => (None, None),
    };
    let failed = |error: flat_repo::FlatError| Failure::from_error(error.exit_code(), &error);
    if let Some(from) = &args.from {
        flat_repo::gather(from, &args.folder).map_err(failed)?;
    }
    let vendored = vendor.is_some();
    let options = Options { key: &key, date: clock::seconds(now)?, family, vendor, now };
    let published = flat_repo::publish(&args.folder, &options).map_err(failed)?;
    let folder = std::path::absolute(&args.folder).unwrap_or_else(|_| args.folder.clone());
    let mut notes = doubts(&published);
    let source = match is_plain(&folder) {
        true => Some(source(published.family, &folder, vendored)),
        false => {
            notes.push(format!("{}: neither apt nor dnf can be determined of a folder whose path has such characters; move it, or let a web server show it", folder.display()));
            None
        }
    };
    if display.mode() == Mode::Json {
        display.answer(&document(&published, &folder, &key.fingerprint(), source.as_deref(), &notes).to_string());
        return Ok(());
    }
    let size = published.packages.iter().map(|package| package.size).fold(0, u64::saturating_add);
    display.answer(&format!(
        "{}: {} packages ({}), signed by {}",
        folder.display(),
        published.packages.len(),
        kubexm_terminal::bytes(size),
        key.fingerprint()
    ));
    if let Some(source) = source {
        display.answer(&format!("\nOn this machine it is used by\n{source}"));
    }
    for text in notes {
        display.emit(EventKind::Note { text });
    }
    Ok(())
}

/// What an operating system asks of packages.
fn vendor(name: &str, now: i64) -> Result<(Option<Family>, Option<Vendor>), Failure> {
    let profiles = Profiles::embedded();
    let profile = profiles.get(name).map_err(|error| Failure::from_error(error.exit_code(), &error))?;
    if profile.family == Family::Deb {
        return Ok((Some(Family::Deb), None));
    }
    let pins: Vec<String> = profile.repositories.iter().flat_map(|one| one.trust.packages.clone()).collect();
    if pins.is_empty() {
        let text = format!("nobody is known who signs packages of {name}; leave --os out, and look at them yourself");
        return Err(Failure::new(ExitCode::Config, text));
    }
    let armored: String = profiles.certificates(&pins).iter().map(|key| format!("{}\n", key.armored.trim())).collect();
    let keys = Keyring::read(armored.as_bytes()).and_then(|keys| keys.pinned(&pins));
    let keys = keys.map_err(|error| Failure::new(ExitCode::Internal, format!("keys of {name}: {error}")))?;
    let sha1 = profile.repositories.iter().any(|one| one.trust.sha1);
    let policy = Policy { sha1, ..Policy::at(now).of_packages() };
    Ok((Some(Family::Rpm), Some(Vendor { keys, armored, policy })))
}

/// The keys of a file, of which one must have signed each package.
fn signers(file: &Path, now: i64) -> Result<Vendor, Failure> {
    let wrong = |error: String| Failure::new(ExitCode::Config, format!("{}: {error}", file.display()));
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

fn document(
    published: &Published,
    folder: &Path,
    fingerprint: &str,
    source: Option<&str>,
    notes: &[String],
) -> serde_json::Value {
    let packages: Vec<_> = published
        .packages
        .iter()
        .map(|one| json!({"file": one.file, "size": one.size, "sha256": one.digest.hex(), "signer": one.signer}))
        .collect();
    json!({
        "schema": "kubexm.io/packages-repo/v1",
        "folder": folder,
        "family": published.family,
        "fingerprint": fingerprint,
        "packages": packages,
        "written": published.written,
        "source": source,
        "notes": notes,
    })
}
