//! A folder to be carried by hand: bundle, installers, sums, signature, one page of instructions.
//!
//! ```text
//! NAME.tar.zst[.001 …]   kubexm-install-linux-amd64 …   NAME.pub   NAME.sums   NAME.sums.sig   README.txt
//! ```
//!
//! `NAME.sums` covers every other file but its own signature. The page is written last: without it the folder is not whole.

mod error;
mod folder;
mod names;
mod readme;

use std::fs::File;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_archive::{Bundle, Signature, Signing, join, members, sums, verify};
use kubexm_signing::{sign_bundle, with_added};
use kubexm_spec::event::EventKind;
use kubexm_spec::{Arch, ArtifactKey, Digest, ExitCode, Platform, SignedAt, names as spec_names};

pub use error::HandOverError;

use crate::origins::installer::Installers;
use crate::{Report, disk};
use error::io_error;
use folder::{Folder, README};
use readme::Page;

/// What to hand over.
pub struct HandOver<'a> {
    /// A file, volumes or an address.
    pub bundle: &'a Bundle,
    /// The folder to make.
    pub folder: &'a Path,
    /// What file names begin with; the bundle's own when none is given.
    pub name: Option<&'a str>,
    /// The most bytes of a volume; without it the bundle stays in one file, or in its volumes.
    pub split: Option<u64>,
    /// `kubexm-install` for platforms, in place of those in the bundle.
    pub installers: &'a [PathBuf],
    /// Signs the sums, and the bundle in the folder.
    pub signer: Option<&'a Signer<'a>>,
    pub signed: SignedAt,
    /// Write into a folder that holds something.
    pub force: bool,
    /// Threads that verify.
    pub threads: usize,
}

/// Signs exact bytes; gives the signature, or the exit code and the reason.
pub type Sign<'a> = dyn Fn(&[u8]) -> Result<Signature, (ExitCode, String)> + 'a;

/// A key, wherever it is.
pub struct Signer<'a> {
    /// What signatures call it.
    pub key_id: String,
    /// `-----BEGIN PUBLIC KEY-----`.
    pub public_pem: String,
    /// Signs.
    pub sign: &'a Sign<'a>,
}

/// What lies in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// Every file but the sums and their signature, with its digest, in the order of the sums.
    pub files: Vec<(PathBuf, Digest)>,
    /// `NAME.sums`.
    pub sums: PathBuf,
    /// `NAME.sums.sig`.
    pub signature: Option<PathBuf>,
    /// Platforms that an installer is there for.
    pub platforms: Vec<Platform>,
}

/// What a hand-over is refused for before there is a bundle: the one that will be built as `bundle`. Leaves everything as it
/// was.
pub fn check_ahead(bundle: &Path, folder: &Path, installers: &[PathBuf], force: bool) -> Result<(), HandOverError> {
    names::stem(bundle, None)?;
    if std::path::absolute(bundle).is_ok_and(|bundle| std::path::absolute(folder).is_ok_and(|folder| bundle == folder))
    {
        return Err(HandOverError::BundleName { path: folder.to_owned() });
    }
    outside(folder, &[bundle.to_owned()])?;
    Installers::look(installers, None)?;
    Folder::try_out(folder, force)
}

/// Makes the folder, and verifies the bundle in it.
pub fn hand_over(request: &HandOver<'_>, report: Report<'_>) -> Result<HandedOver, HandOverError> {
    let bundle = request.bundle;
    let stem = names::stem(bundle.path(), request.name)?;
    outside(request.folder, &bundle.files())?;
    let installers = installers(request)?;
    let folder = Folder::begin(request.folder, request.force)?;
    room(request, &installers, &folder)?;
    // Those of an earlier hand-over list more than volumes, and are not replaced by what writes these.
    absent(&folder.path().join(format!("{stem}.sums")))?;
    let phase = |name: &str| report(EventKind::Phase { name: name.to_owned() });

    phase("write");
    let written = write_bundle(request, &folder, &stem, report)?;
    if let Some(signer) = request.signer {
        sign_carried(signer, request, &written)?;
    }
    phase("verify");
    let there = Bundle::open_all(&written)?;
    same(request.bundle, &there)?;
    verify(&there, request.threads, &progress(report, "verify"))?;

    phase("sums");
    let mut lines = Vec::new();
    for path in &written {
        let name = file_name(path);
        lines.push((disk::digest(path).map_err(io_error("read", path))?, name));
    }
    let files: Vec<String> = lines.iter().map(|(_, name)| name.clone()).collect();
    for (name, _, source) in &installers {
        let digest = match source {
            From::File(path) => {
                let file = File::open(path).map_err(io_error("open", path))?;
                folder.put(name, 0o755, file)?
            }
            From::Bundle(digest) => folder.put(name, 0o755, bundle.blob(digest)?)?,
        };
        lines.push((digest, name.clone()));
    }
    let installers: Vec<(String, Platform)> =
        installers.into_iter().map(|(name, platform, _)| (name, platform)).collect();
    if let Some(signer) = request.signer {
        let name = format!("{stem}.pub");
        lines.push((folder.put(&name, 0o644, signer.public_pem.as_bytes())?, name));
    }
    let page = page(request, &there, &stem, &files, &installers);
    lines.push((Digest::of(&page), README.to_owned()));

    let sums = sums::text(&lines);
    let signature = match request.signer {
        Some(signer) => Some(raw_signature(signer, sums.as_bytes())?),
        None => None,
    };
    let sums_name = format!("{stem}.sums");
    folder.put(&sums_name, 0o644, sums.as_bytes())?;
    let signature_name = format!("{sums_name}.sig");
    match &signature {
        Some(signature) => drop(folder.put(&signature_name, 0o644, signature.as_slice())?),
        // That of an earlier hand-over is not of these sums.
        None => absent(&folder.path().join(&signature_name))?,
    }
    folder.put(README, 0o644, page.as_bytes())?;
    let handed_over = HandedOver {
        files: lines.into_iter().map(|(digest, name)| (folder.final_path(&name), digest)).collect(),
        sums: folder.final_path(&sums_name),
        signature: signature.map(|_| folder.final_path(&signature_name)),
        platforms: installers.into_iter().map(|(_, platform)| platform).collect(),
    };
    folder.finish()?;
    Ok(handed_over)
}

/// Files are replaced and signed in the folder: none of the bundle's own may lie there.
fn outside(folder: &Path, files: &[PathBuf]) -> Result<(), HandOverError> {
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    let lies_in = |path: &Path| path.parent().is_some_and(|parent| parent.canonicalize().is_ok_and(|p| p == folder));
    // A link in the folder, or to a file in it, counts too.
    let inside = |path: &&PathBuf| {
        std::path::absolute(path).is_ok_and(|path| lies_in(&path))
            || path.canonicalize().is_ok_and(|path| lies_in(&path))
    };
    match files.iter().find(inside) {
        Some(path) => Err(HandOverError::Inside { path: path.clone() }),
        None => Ok(()),
    }
}

/// The bundle and the installers fit, as far as that can be determined: others may write there too.
fn room(request: &HandOver<'_>, installers: &[(String, Platform, From)], folder: &Folder) -> Result<(), HandOverError> {
    let mut needed = request.bundle.size();
    for (_, _, source) in installers {
        needed = needed.saturating_add(match source {
            From::File(path) => path.metadata().map_err(io_error("examine", path))?.len(),
            From::Bundle(digest) => request.bundle.find(&members::blob_name(digest)).map_or(0, |blob| blob.size),
        });
    }
    let free = disk::free(folder.path()).map_err(io_error("examine", folder.path()))?;
    match needed > free {
        true => Err(HandOverError::NoRoom { path: request.folder.to_owned(), free, needed }),
        false => Ok(()),
    }
}

/// Where an installer comes from.
enum From {
    File(PathBuf),
    Bundle(Digest),
}

/// One for each platform of the bundle, and for those that one was given for, before anything is written. A bundle of extras
/// needs none, and for a delta the target side has those that it leaves out.
fn installers(request: &HandOver<'_>) -> Result<Vec<(String, Platform, From)>, HandOverError> {
    let manifest = request.bundle.manifest();
    let given = Installers::look(request.installers, None)?;
    let mut all = Vec::new();
    for platform in [Platform::LINUX_AMD64, Platform::LINUX_ARM64] {
        if !manifest.platforms.contains(&platform) && given.path(platform).is_err() {
            continue;
        }
        let carried = manifest.find(&ArtifactKey::Installer, platform).map(|artifact| artifact.digest);
        let source = match (given.path(platform), carried) {
            (Ok(path), _) => From::File(path.to_owned()),
            (Err(_), Some(digest)) if request.bundle.has_blob(&digest) => From::Bundle(digest),
            (Err(_), None) if manifest.cluster.is_none() => continue,
            // It is where the base is.
            (Err(_), Some(_)) => continue,
            (Err(_), None) => return Err(HandOverError::NoInstaller { platform }),
        };
        all.push((format!("{}-linux-{}", spec_names::INSTALLER, platform.arch), platform, source));
    }
    Ok(all)
}

/// The bundle's files in the folder. Volumes are kept, unless another size is requested.
fn write_bundle(
    request: &HandOver<'_>,
    folder: &Folder,
    stem: &str,
    report: Report<'_>,
) -> Result<Vec<PathBuf>, HandOverError> {
    let target = names::bundle_file(folder.path(), stem);
    let files = request.bundle.files();
    if files.len() < 2 || request.split.is_some() {
        let written = join(request.bundle, &target, request.split, &progress(report, "write"))?;
        absent_others(&target, &written.files)?;
        return Ok(written.files);
    }
    let (mut written, mut done) = (Vec::new(), 0);
    for (path, number) in files.iter().zip(1..) {
        let name = format!("{stem}.tar.zst.{number:03}");
        folder.put(&name, 0o644, File::open(path).map_err(io_error("open", path))?)?;
        let copied = folder.path().join(&name);
        done += copied.metadata().map_err(io_error("examine", &copied))?.len();
        progress(report, "write")(done, request.bundle.size());
        written.push(copied);
    }
    absent_others(&target, &written)?;
    Ok(written)
}

/// With --force: what an earlier hand-over of the same name has left and this one does not have.
fn absent_others(target: &Path, written: &[PathBuf]) -> Result<(), HandOverError> {
    if !written.contains(&target.to_owned()) {
        absent(target)?;
    }
    let volume = |number: usize| PathBuf::from(format!("{}.{number:03}", target.display()));
    let first = if written.contains(&target.to_owned()) { 1 } else { written.len() + 1 };
    for path in (first..=999).map(volume) {
        if !path.exists() {
            break;
        }
        absent(&path)?;
    }
    Ok(())
}

/// What is signed is what was given, and not what is found: the folder may lie with a server that answers as it likes.
fn sign_carried(signer: &Signer<'_>, request: &HandOver<'_>, written: &[PathBuf]) -> Result<(), HandOverError> {
    let Some(first) = written.first() else { return Ok(()) };
    let open = Signing::open(first)?;
    same(request.bundle, open.bundle())?;
    // One that is there already by this key may not hold: it is replaced.
    let new = sign_bundle(request.bundle, request.signed, |bytes| sign(signer, bytes))?;
    let all = with_added(request.bundle.signatures().to_vec(), new);
    open.replace(&all, &|_, _| {})?;
    Ok(())
}

fn same(given: &Bundle, found: &Bundle) -> Result<(), HandOverError> {
    match given.bundle_id() == found.bundle_id() {
        true => Ok(()),
        false => Err(HandOverError::AnotherBundle { path: found.path().to_owned() }),
    }
}

fn sign(signer: &Signer<'_>, bytes: &[u8]) -> Result<Signature, HandOverError> {
    (signer.sign)(bytes).map_err(|(code, problem)| HandOverError::Sign { code, problem })
}

/// DER of ECDSA, the 64 bytes of Ed25519: what openssl takes.
fn raw_signature(signer: &Signer<'_>, bytes: &[u8]) -> Result<Vec<u8>, HandOverError> {
    let signature = sign(signer, bytes)?;
    STANDARD.decode(&signature.sig).map_err(|e| HandOverError::Sign {
        code: ExitCode::Internal,
        problem: format!("the signature is not base64: {e}"),
    })
}

fn page(
    request: &HandOver<'_>,
    there: &Bundle,
    stem: &str,
    files: &[String],
    installers: &[(String, Platform)],
) -> String {
    let manifest = there.manifest();
    let ascii = |text: &str| text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
    let cluster = manifest.cluster.as_ref();
    let installers: Vec<(String, Arch)> = installers.iter().map(|(name, p)| (name.clone(), p.arch)).collect();
    let algorithm = request.signer.and_then(|signer| {
        there.signatures().iter().find(|signature| signature.key_id == signer.key_id).map(|s| s.alg.clone())
    });
    readme::text(&Page {
        stem,
        files,
        cluster: cluster.map(|c| ascii(&format!("Kubernetes {}, {}, {}", c.kubernetes, c.runtime, c.network))),
        installers: &installers,
        signed: algorithm.as_deref(),
        bundle_signed: !there.signatures().is_empty(),
        delta: there.layout().is_delta(),
        manifest: there.manifest_digest().hex(),
    })
}

fn progress<'r>(report: Report<'r>, what: &'static str) -> impl Fn(u64, u64) + Sync + 'r {
    move |done, total| {
        let (what, unit) = (what.to_owned(), "bytes".to_owned());
        report(EventKind::Progress { what, done, total: Some(total), unit });
    }
}

fn absent(path: &Path) -> Result<(), HandOverError> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io_error("remove", path)(e)),
        _ => Ok(()),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
