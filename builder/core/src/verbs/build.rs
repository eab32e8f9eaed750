//! A bundle, and the folder that it is handed over in.

use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, Options};
use kubexm_files::is_stdout;
use kubexm_manifests::{Checked as Comparison, Doubt, Notice};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitCode, Lock, SignedAt, names};
use serde::Serialize;
use tokio::runtime::Handle;

use super::hand_over::{self, HandedOver};
use super::outputs::{WrittenBundle, apart, check_bundle, note_replaced};
use super::signing_key::{Key, KeySource};
use crate::base::Base;
use crate::session::{Building, Fetching, Needed, Selection, Session, SessionError, is_address, lockfile};
use crate::summary::Summary;

/// What is built, and where to.
pub struct Request<'a> {
    pub selection: &'a Selection,
    pub fetching: &'a Fetching,
    /// The bundle's file, `-` for standard output; by its name when none.
    pub target: Option<&'a Path>,
    /// Replace a file that is not a bundle.
    pub force: bool,
    /// Build just what this lock says.
    pub lock: Option<&'a Path>,
    /// How the archive is written.
    pub options: Options,
    /// A delta on this bundle, manifest or inventory.
    pub base: Option<&'a Path>,
    /// Make a folder of it.
    pub hand_over: Option<hand_over::Request<'a>>,
    /// Signs the folder.
    pub key: &'a KeySource,
    /// Whether the bundle says where its artifacts are from.
    pub sources: bool,
    /// The program that builds: `kubexm-bundle 0.1.0`.
    pub tool: &'a str,
}

/// What was built.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Built<'n> {
    #[serde(flatten)]
    pub written: WrittenBundle,
    /// By number.
    pub artifacts: usize,
    #[serde(flatten)]
    pub summary: Summary,
    pub unverified: &'n [Doubt],
    pub verified: &'n [Comparison],
    pub notices: &'n [Notice],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hand_over: Option<HandedOver>,
    /// The command that comes next, by what was built; none of a bundle on standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// As it was named, without the numbers of volumes.
    #[serde(skip)]
    pub target: PathBuf,
}

/// The lock that is built, where one is named.
pub fn locked(lock: Option<&Path>) -> Result<Option<Lock>, SessionError> {
    lock.map(lockfile::read).transpose()
}

/// Builds it. Whatever can be refused is refused before anything is fetched.
pub fn build<'n>(
    session: &Session,
    needed: &'n Needed,
    lock: Option<&Lock>,
    request: &Request<'_>,
    runtime: &Handle,
) -> Result<Built<'n>, SessionError> {
    session.advise(&needed.warnings, &needed.notes);
    if let Some(zone) = needed.cluster.bundle.zone.as_ref().filter(|_| !request.sources) {
        let text = format!(
            "--no-sources leaves out the zone's name, and cluster.yaml, which is carried as it is, has it (spec.bundle.zone: {zone}); \
             name the zone by --zone or KMZONE instead"
        );
        session.report(EventKind::Warning { text });
    }
    let Checked { target, key, signed, base } = check(session, needed, request)?;
    note_replaced(session, &target, request.options.split)?;
    let origins = session.origins(request.fetching)?;
    let building = Building {
        locked: lock,
        target: &target,
        hand_over: request.hand_over.as_ref().map(|hand_over| hand_over.folder),
        jobs: request.fetching.jobs,
        options: request.options,
        base: base.as_ref(),
        sources: request.sources,
        tool: request.tool,
    };
    let built = session.build(needed, &origins, &building, runtime)?;
    let next = next(&target, request, key.is_some());
    let files = &built.written.files;
    let of_built = |folder| hand_over::of_built(session, files, folder, key.as_ref(), signed);
    Ok(Built {
        hand_over: request.hand_over.as_ref().map(of_built).transpose()?,
        written: WrittenBundle::from(&built.written),
        artifacts: built.lock.items.len(),
        summary: built.summary,
        unverified: &needed.doubts,
        verified: &needed.verified,
        notices: &needed.notices,
        next,
        target,
    })
}

/// What a build needs of this machine beside the cache.
pub struct Checked {
    /// The bundle's file.
    pub target: PathBuf,
    key: Option<Key>,
    signed: SignedAt,
    /// What need not be carried.
    pub base: Option<Base>,
}

/// Whatever can be refused without an origin: places that may not be written, keys, installers and bases that cannot be read.
pub fn check(session: &Session, needed: &Needed, request: &Request<'_>) -> Result<Checked, SessionError> {
    let target = request.target.map_or_else(|| default_name(needed), Path::to_owned);
    // What is read is reported first: no --force helps there.
    apart(&target, &inputs(session, needed, request))?;
    check_bundle(&target, request.options.split, request.force)?;
    if is_stdout(&target) && request.hand_over.is_some() {
        let text = "--hand-over reads the bundle that was written; name a file with -o";
        return Err(SessionError::refused(ExitCode::Usage, text));
    }
    let key = request.key.open()?;
    if key.is_some() && request.hand_over.is_none() {
        let text = "a key signs what --hand-over makes; give that, or sign the bundle with `kubexm-bundle sign`";
        return Err(SessionError::refused(ExitCode::Usage, text));
    }
    let signed = request.key.signed_at(session)?;
    let base = request.base.map(|base| session.base(base)).transpose()?;
    session.check_fetching(request.fetching)?;
    if let Some(hand_over::Request { folder, installers, force, .. }) = request.hand_over {
        hand_over::check_ahead(&target, folder, installers, force)?;
        let cache = session.cache_folder(request.fetching.cache.as_deref())?;
        if is_within(&cache, folder) {
            let (cache, folder) = (cache.display(), folder.display());
            let text =
                format!("the cache {cache} would be in {folder}, the hand-over folder; name another with --hand-over");
            return Err(SessionError::refused(ExitCode::Usage, text));
        }
    }
    Ok(Checked { target, key, signed, base })
}

/// By their names, since neither need be there.
fn is_within(path: &Path, folder: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute(path).starts_with(absolute(folder))
}

/// A folder is copied to a medium, and a bundle is signed first.
fn next(target: &Path, request: &Request<'_>, signed: bool) -> Option<String> {
    // As a shell takes it.
    let shown = |path: &Path| {
        let text = path.display().to_string();
        let is_plain = |c: char| c.is_alphanumeric() || "/._-+=@:,%".contains(c);
        if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
    };
    let first = |target: &Path| match request.options.split {
        None => shown(target),
        Some(_) => shown(Path::new(&format!("{}.001", target.display()))),
    };
    match &request.hand_over {
        Some(hand_over) if signed => Some(format!("kubexm-bundle copy {} /media/STICK", shown(hand_over.folder))),
        _ if is_stdout(target) => None,
        _ => Some(format!("kubexm-bundle sign --key release.key {}", first(target))),
    }
}

/// Files on this machine that are read: a base above all, whose default name may be that of what is built.
fn inputs(session: &Session, needed: &Needed, request: &Request<'_>) -> Vec<PathBuf> {
    let mut files = session.inputs(request.selection);
    files.extend(needed.files());
    files.extend(request.fetching.helm.iter().chain(&request.key.key).chain(&request.key.password_file).cloned());
    files.extend(request.fetching.installers.iter().cloned());
    files.extend(request.lock.map(Path::to_owned));
    if let Some(base) = request.base.filter(|base| is_address(base).is_none()) {
        files.push(base.to_owned());
        // What is no bundle is a text, and read as that; what cannot be read is reported then.
        files.extend(Bundle::open(base).map(|base| base.files()).unwrap_or_default());
    }
    files
}

/// `<name>-<kubernetes version>-<arches>.tar.zst`.
fn default_name(Needed { cluster, requirements, .. }: &Needed) -> PathBuf {
    let version = requirements.versions.as_ref().map(|v| format!("-{}", v.kubernetes)).unwrap_or_default();
    let mut arches: Vec<&str> = cluster.bundle.platforms.iter().map(|p| p.arch.as_str()).collect();
    arches.sort_unstable();
    arches.dedup();
    let name = if cluster.name.is_empty() { names::BUILDER } else { &cluster.name };
    format!("{name}{version}-{}.tar.zst", arches.join("-")).into()
}
