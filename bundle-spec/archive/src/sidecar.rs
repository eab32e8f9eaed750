//! Files beside a bundle that carry its name: only those that this program wrote are replaced or removed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kubexm_files::{Access, Kind, is_stdout};

use crate::source::io_error;
use crate::volume_header::{LEN, MAGIC, MAX, VolumeHeader};
use crate::volumes::{split_name, volume_name};
use crate::{ArchiveError, frame, partial, sums};

/// The name in the first tar header.
const MANIFEST: &[u8] = b"manifest.json\0";
/// Bytes until its end.
const FIRST: u64 = (frame::RAW_CONTENT + MANIFEST.len()) as u64;
/// `NAME.sums` beside a bundle that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sums {
    Absent,
    /// Each line is of `NAME.tar.zst` or `NAME.tar.zst.NNN`: the names.
    Ours(Vec<String>),
    Foreign,
}

/// Which of these files a bundle that is written as `target` would replace or remove: those that have its name, the name of one
/// of its volumes, or that of its sums.
pub fn taken_by<'f>(target: &Path, files: &'f [PathBuf]) -> Option<&'f PathBuf> {
    // By identity: names may differ in case, links and folders.
    let identity = |path: &Path| fs::metadata(path).map(|there| (there.dev(), there.ino())).ok();
    let own = [target.to_owned(), sums::path_of(target)].into_iter();
    let taken: Vec<_> =
        own.chain((0..=MAX).map(|number| volume_name(target, number))).filter_map(|path| identity(&path)).collect();
    files.iter().find(|file| identity(file).is_some_and(|file| taken.contains(&file)))
}

/// A bundle or a volume of one, as an output.
pub const BUNDLE: Kind = Kind { name: "a bundle", recognise: Some(is_bundle), access: Access::Umask };

/// What a killed writer has left, to be written anew: a bundle's begin, or what a power cut has made of it.
const UNFINISHED: Kind = Kind { name: "an unfinished bundle", recognise: Some(is_unfinished), access: Access::Umask };

/// Refuses what a bundle that is written as `target`, in volumes where that is wanted, may not replace.
pub fn check_target(target: &Path, volumes: bool, force: bool) -> Result<(), ArchiveError> {
    if is_stdout(target) {
        return Ok(());
    }
    if !volumes {
        kubexm_files::check(target, &BUNDLE, force)?;
        return match partial::partial_path(target) {
            Some(partial) => Ok(kubexm_files::check(&partial, &UNFINISHED, force)?),
            None => Ok(()),
        };
    }
    kubexm_files::check_folder(target)?;
    // Whoever names the bundle would get this file, and not its volumes.
    kubexm_files::check(target, &BUNDLE, force)?;
    partials_of(target)?.values().try_for_each(|path| kubexm_files::check(path, &UNFINISHED, force))?;
    volumes_of(target)?.into_values().try_for_each(|volume| Ok(kubexm_files::check(&volume, &BUNDLE, force)?))
}

/// The files of an earlier bundle of that name in the other form, which are removed once this one is complete: volumes, if it is
/// written in one file, and one file, if it is written in volumes.
pub fn in_other_form(target: &Path, volumes: bool) -> Result<Vec<PathBuf>, ArchiveError> {
    match volumes {
        _ if is_stdout(target) => Ok(Vec::new()),
        true => Ok(one_file(target).into_iter().collect()),
        false => match sums_of(target)? {
            Sums::Ours(listed) => own_volumes(target, &listed),
            Sums::Absent | Sums::Foreign => Ok(Vec::new()),
        },
    }
}

/// Whether a file begins as a bundle or a volume does (SPEC.md, Frames: the first is manifest.json's). A damaged one is one.
fn is_bundle(file: &mut dyn Read) -> bool {
    let start = kubexm_files::head(file, FIRST);
    let manifest = || frame::begins_raw(start.get(..5).unwrap_or_default()) && start.ends_with(MANIFEST);
    start.starts_with(&MAGIC) || manifest()
}

/// The same of a file that is being written, of which a power cut may have left zeros.
fn is_unfinished(file: &mut dyn Read) -> bool {
    let start = kubexm_files::head(file, FIRST);
    is_bundle(&mut start.as_slice()) || start.iter().all(|byte| *byte == 0)
}

/// `NAME.sums` of a bundle that would be written in volumes, where it must not be replaced.
pub fn foreign_sums(target: &Path) -> Result<Option<PathBuf>, ArchiveError> {
    Ok((sums_of(target)? == Sums::Foreign).then(|| sums::path_of(target)))
}

/// The same, before volumes are written.
pub(crate) fn may_write_sums(target: &Path) -> Result<(), ArchiveError> {
    match foreign_sums(target)? {
        None => Ok(()),
        Some(path) => {
            let text = "it is not of volumes of this name; move it away, or choose another name for the bundle";
            Err(io_error("replace", &path)(io::Error::new(io::ErrorKind::AlreadyExists, text)))
        }
    }
}

/// After a bundle was written in one file: removes the volumes of an earlier split bundle of that name, if this
/// program wrote them.
pub(crate) fn tidy_after_one(target: &Path) -> Result<(), ArchiveError> {
    if let Sums::Ours(listed) = sums_of(target)? {
        for path in own_volumes(target, &listed)? {
            fs::remove_file(&path).map_err(io_error("remove", &path))?;
        }
        if volumes_of(target)?.is_empty() {
            let sums = sums::path_of(target);
            fs::remove_file(&sums).map_err(io_error("remove", &sums))?;
        }
    }
    remove_partials(target, 0)
}

/// After a bundle was written in volumes: removes an earlier one in one file of that name, which would be taken for it.
pub(crate) fn tidy_after_volumes(target: &Path) -> Result<(), ArchiveError> {
    match one_file(target) {
        Some(file) => fs::remove_file(&file).map_err(io_error("remove", target)),
        None => Ok(()),
    }
}

/// The bundle in one file that has this name.
fn one_file(target: &Path) -> Option<PathBuf> {
    let is_file = fs::symlink_metadata(target).is_ok_and(|found| found.is_file());
    (is_file && File::open(target).is_ok_and(|mut file| is_bundle(&mut file))).then(|| target.to_owned())
}

/// The volumes of this name that are listed, if all of them are of one bundle.
fn own_volumes(target: &Path, listed: &[String]) -> Result<Vec<PathBuf>, ArchiveError> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let there = volumes_of(target)?.into_values();
    let ours: Vec<_> = there.filter(|path| listed.contains(&name(path))).collect();
    let mut ids: Vec<_> = ours.iter().map(|path| header_of(path).map(|header| header.bundle_id)).collect();
    ids.dedup();
    Ok(if matches!(ids[..], [Some(_)]) { ours } else { Vec::new() })
}

/// Removes what killed writers have left of volumes with higher numbers, unless somebody writes them now.
pub(crate) fn remove_partials(target: &Path, last: u32) -> Result<(), ArchiveError> {
    partials_of(target)?.range(last.saturating_add(1)..).try_for_each(|(_, path)| partial::remove_stale(path))
}

/// Unfinished volumes of the target, by their numbers.
fn partials_of(target: &Path) -> Result<BTreeMap<u32, PathBuf>, ArchiveError> {
    let number = |name: &str| number_of(target, name.strip_prefix('.')?.strip_suffix(partial::SUFFIX)?);
    Ok(names_beside(target)?.into_iter().filter_map(|(path, name)| Some((number(&name)?, path))).collect())
}

fn sums_of(target: &Path) -> Result<Sums, ArchiveError> {
    let path = sums::path_of(target);
    match fs::symlink_metadata(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Sums::Absent),
        Err(e) => return Err(io_error("examine", &path)(e)),
        Ok(there) if !there.is_file() || there.len() > sums::SUMS_LIMIT => return Ok(Sums::Foreign),
        Ok(_) => {}
    }
    let names: Vec<String> = match sums::read(&path) {
        Ok(lines) => lines.into_iter().map(|(_, name)| name).collect(),
        Err(ArchiveError::Damaged { .. }) => return Ok(Sums::Foreign),
        Err(ArchiveError::Io { source, .. }) if source.kind() == io::ErrorKind::InvalidData => {
            return Ok(Sums::Foreign);
        }
        Err(error) => return Err(error),
    };
    let own = target.file_name().unwrap_or_default().to_string_lossy();
    let ours = |name: &String| *name == own || number_of(target, name).is_some();
    let all = !names.is_empty() && names.iter().all(ours);
    Ok(if all { Sums::Ours(names) } else { Sums::Foreign })
}

/// Files with the names of volumes.
fn volumes_of(target: &Path) -> Result<BTreeMap<u32, PathBuf>, ArchiveError> {
    let volumes = names_beside(target)?.into_iter();
    Ok(volumes.filter_map(|(path, name)| Some((number_of(target, &name)?, path))).collect())
}

/// The number of a volume of the target, of its name.
fn number_of(target: &Path, name: &str) -> Option<u32> {
    let (own, number) = split_name(Path::new(name))?;
    (Some(own.as_os_str()) == target.file_name()).then_some(number)
}

fn names_beside(target: &Path) -> Result<Vec<(PathBuf, String)>, ArchiveError> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |e: io::Error| io_error("look into", folder)(e);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        names.push((target.with_file_name(&name), name.to_string_lossy().into_owned()));
    }
    Ok(names)
}

/// The header of a volume; none for another file.
fn header_of(path: &Path) -> Option<VolumeHeader> {
    if !fs::symlink_metadata(path).is_ok_and(|there| there.is_file()) {
        return None;
    }
    let mut start = [0; LEN];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).ok()?;
    VolumeHeader::decode(&start).ok()
}
