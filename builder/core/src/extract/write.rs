//! Writing a plan below a folder: each file verified while it is written, brought to the disk, then named.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use kubexm_archive::Bundle;
use kubexm_files::{Access, Kind, Writer, check_regular};
use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;

use super::work::Work;
use super::{Content, ExtractError, Output, Plan, io_error};

/// A file of a bundle: one that is there may be the operator's own.
pub(super) const EXTRACTED: Kind = Kind { name: "a file of the bundle", recognise: None, access: Access::Umask };

/// How many bytes are read at once.
const PIECE: usize = 1 << 20;

/// One file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extracted {
    /// With the folder.
    pub path: PathBuf,
    /// In bytes.
    pub size: u64,
    /// Of the content.
    pub sha256: Digest,
}

/// Writes everything below `folder`, or refuses before anything is written when something is there and `force` is not.
///
/// A new folder gets its name when everything is in it. Into one that is there, files come one by one, `index.json` of a layout
/// last: what is cut off leaves complete files only. Run again after an interruption, what is complete is used in both.
/// `progress` gets bytes of content that were written since it was called last.
pub fn write(
    bundle: &Bundle,
    plan: &Plan,
    folder: &Path,
    force: bool,
    progress: &dyn Fn(u64),
) -> Result<Vec<Extracted>, ExtractError> {
    if folder.exists() && !folder.is_dir() {
        return Err(ExtractError::TargetNotAFolder { path: folder.to_owned() });
    }
    apart(bundle, plan.keys().map(|path| folder.join(path)))?;
    let work = Work::begin(folder, plan)?;
    let mut there = match work.is_new() {
        true => BTreeMap::new(),
        false => replaceable(bundle, plan, folder, force)?,
    };
    let mut folders = BTreeSet::from([work.path().to_owned()]);
    let mut written = Vec::new();
    let (last, first): (Vec<_>, Vec<_>) = plan.iter().partition(|(path, _)| path.ends_with("index.json"));
    for (path, output) in first.into_iter().chain(last) {
        parents(work.path(), path, &mut folders)?;
        let target = work.path().join(path);
        let done = match work.is_new() {
            true => complete(bundle, output, &target)?,
            false => there.remove(&target),
        };
        let file = match done {
            Some(file) => {
                progress(file.size);
                file
            }
            None => one(bundle, output, &target, force || work.is_new(), progress)?,
        };
        written.push(Extracted { path: folder.join(path), ..file });
    }
    for folder in folders {
        File::open(&folder).and_then(|open| open.sync_all()).map_err(io_error("write out", &folder))?;
    }
    work.finish()?;
    Ok(written)
}

/// A file that an interrupted run left, if its bytes are the right ones.
fn complete(bundle: &Bundle, output: &Output, target: &Path) -> Result<Option<Extracted>, ExtractError> {
    let Some(there) = check_regular(target)? else { return Ok(None) };
    let (size, sha256) = match &output.content {
        Content::Made(bytes) => (bytes.len() as u64, Digest::of(bytes)),
        Content::Member(name) => match bundle.manifest().members.iter().find(|member| member.name == *name) {
            Some(member) => (member.size, member.sha256),
            // Of the bundle's own head, which is small.
            None => return Ok(None),
        },
    };
    let same = there.len() == size && crate::disk::digest(target).map_err(io_error("read", target))? == sha256;
    Ok(same.then(|| Extracted { path: target.to_owned(), size, sha256 }))
}

/// None of the targets is a file that the bundle is read from, under whatever name.
pub(super) fn apart(bundle: &Bundle, targets: impl Iterator<Item = PathBuf>) -> Result<(), ExtractError> {
    let identity = |path: &Path| fs::metadata(path).map(|there| (there.dev(), there.ino())).ok();
    let read: Vec<_> = sources(bundle).into_iter().filter_map(|file| Some((identity(&file)?, file))).collect();
    for path in targets {
        let Some(there) = identity(&path) else { continue };
        if let Some((_, file)) = read.iter().find(|(own, _)| *own == there) {
            return Err(ExtractError::Input { file: file.clone(), path });
        }
    }
    Ok(())
}

/// The files of a bundle and of its bases.
fn sources(bundle: &Bundle) -> Vec<PathBuf> {
    bundle.bases().iter().flat_map(sources).chain(bundle.files()).collect()
}

/// The files that are there with the right bytes. Only regular files are replaced by others, and those with `force` only.
fn replaceable(
    bundle: &Bundle,
    plan: &Plan,
    folder: &Path,
    force: bool,
) -> Result<BTreeMap<PathBuf, Extracted>, ExtractError> {
    let (mut done, mut others) = (BTreeMap::new(), Vec::new());
    for (path, output) in plan {
        let target = folder.join(path);
        if check_regular(&target)?.is_none() {
            continue;
        }
        match complete(bundle, output, &target)? {
            Some(file) => drop(done.insert(target, file)),
            None => others.push(target),
        }
    }
    match others.first().filter(|_| !force) {
        Some(path) => Err(ExtractError::Exists { path: path.clone(), others: others.len() - 1 }),
        None => Ok(done),
    }
}

/// Makes the folders between, none of which may be a link: its target may be anywhere.
fn parents(folder: &Path, path: &Path, made: &mut BTreeSet<PathBuf>) -> Result<(), ExtractError> {
    let mut at = folder.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        at.push(part);
        if !made.insert(at.clone()) {
            continue;
        }
        match fs::create_dir(&at) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            result => result.map_err(io_error("create", &at))?,
        }
        if !fs::symlink_metadata(&at).map_err(io_error("examine", &at))?.is_dir() {
            return Err(ExtractError::NotAFolder { path: at });
        }
    }
    Ok(())
}

fn one(
    bundle: &Bundle,
    output: &Output,
    target: &Path,
    force: bool,
    progress: &dyn Fn(u64),
) -> Result<Extracted, ExtractError> {
    let mut writer = Writer::create(target, &EXTRACTED, force)?;
    let mut hashed = Hashed { hasher: Hasher::default(), size: 0, start: [0; 4] };
    let mut content = open(bundle, &output.content)?;
    let mut piece = vec![0; PIECE];
    loop {
        let len = content.read(&mut piece).map_err(io_error("read what goes to", target))?;
        let Some(piece) = piece.get(..len).filter(|piece| !piece.is_empty()) else { break };
        hashed.take(piece);
        writer.write_all(piece).map_err(io_error("write", target))?;
        progress(len as u64);
    }
    if output.program && hashed.start == *b"\x7fELF" {
        let file = writer.file_mut();
        let mode = file.metadata().map_err(io_error("examine", target))?.permissions().mode();
        // Whoever may read it may run it.
        let mode = Permissions::from_mode(mode | (mode & 0o444) >> 2);
        file.set_permissions(mode).map_err(io_error("make executable", target))?;
    }
    writer.commit()?;
    Ok(Extracted { path: target.to_owned(), size: hashed.size, sha256: hashed.hasher.finish() })
}

/// The bytes of a file; those of a member are verified by its reader.
pub(super) fn open<'a>(bundle: &Bundle, content: &'a Content) -> Result<Box<dyn Read + 'a>, ExtractError> {
    Ok(match content {
        Content::Member(name) => Box::new(bundle.member(name)?),
        Content::Made(bytes) => Box::new(bytes.as_slice()),
    })
}

/// What has passed.
struct Hashed {
    hasher: Hasher,
    size: u64,
    start: [u8; 4],
}

impl Hashed {
    fn take(&mut self, piece: &[u8]) {
        if self.size == 0 {
            let len = piece.len().min(self.start.len());
            self.start[..len].copy_from_slice(&piece[..len]);
        }
        self.hasher.update(piece);
        self.size += piece.len() as u64;
    }
}
