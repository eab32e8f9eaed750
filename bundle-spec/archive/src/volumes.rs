//! The volumes of a split bundle, read in place: in any order, from several folders.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubexm_spec::Digest;

use crate::ArchiveError;
use crate::source::{self, FileSource, Origin, ReadAt, io_error, read_some};
use crate::volume_header::{self, LEN, Refusal, VolumeHeader};

/// How the names of bundles end.
const SUFFIX: &str = ".tar.zst";

/// The name of a bundle and the number, of a volume's name `NAME.tar.zst.001`.
pub(crate) fn split_name(path: &Path) -> Option<(PathBuf, u32)> {
    let digits = path.extension()?.to_str()?;
    let number = (digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())??;
    Some((path.with_extension(""), number))
}

/// The name of a volume.
pub(crate) fn volume_name(target: &Path, number: u32) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".{number:03}"));
    name.into()
}

/// Opens what a user named: one file, some volumes, folders that hold a bundle.
pub(crate) fn open(paths: &[PathBuf]) -> Result<Origin, ArchiveError> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(in_folder(path)?);
        } else {
            match split_name(path) {
                // One volume stands for all that lie beside it.
                Some((name, _)) if paths.len() == 1 => found.extend(beside(&name, path)?),
                // The name that was given to `build --split -o`.
                None if is_absent(path) => found.extend(volumes_of(path)?),
                _ => found.push(path.clone()),
            }
        }
    }
    let first = paths.first().map(PathBuf::as_path).unwrap_or(Path::new(""));
    match &found[..] {
        [] => {
            let reason = format!("no {SUFFIX} and no volume of one lies in it");
            Err(ArchiveError::NotABundle { path: first.to_owned(), reason })
        }
        [one] if split_name(one).is_none() => single(one),
        many => joined(many),
    }
}

fn single(path: &Path) -> Result<Origin, ArchiveError> {
    Ok(Origin { name: path.to_owned(), source: Arc::new(FileSource::open(path)?) })
}

/// Bundles and volumes in a folder; refused when there are several bundles.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    let failed = |e: io::Error| io_error("look into", folder)(e);
    let mut names = BTreeMap::<PathBuf, Vec<PathBuf>>::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = split_name(&path).map_or_else(|| path.clone(), |(name, _)| name);
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && name.as_os_str().as_encoded_bytes().ends_with(SUFFIX.as_bytes()) && path.is_file() {
            names.entry(name).or_default().push(path);
        }
    }
    if names.len() > 1 {
        let names: Vec<_> = names.keys().map(|name| name.display().to_string()).collect();
        let problem = format!("it holds several bundles ({}); name the one to be used", names.join(", "));
        return Err(ArchiveError::Volumes { path: folder.to_owned(), problem });
    }
    Ok(names.into_values().flatten().collect())
}

/// The volumes of one bundle in the folder of one of them.
fn beside(name: &Path, volume: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    if !volume.is_file() {
        // For the system's own words.
        return FileSource::open(volume).map(|_| vec![volume.to_owned()]);
    }
    let folder = folder_of(name);
    let failed = |e: io::Error| io_error("look into", folder)(e);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if split_name(&path).is_some_and(|(other, _)| other.file_name() == name.file_name()) && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The volumes of a bundle that is named without their numbers.
fn volumes_of(name: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    let absent = |near| ArchiveError::NoSuchFile { path: name.to_owned(), near };
    let Ok(entries) = fs::read_dir(folder_of(name)) else { return Err(absent(Vec::new())) };
    let (mut found, mut near) = (Vec::new(), Vec::new());
    for path in entries.flatten().map(|entry| entry.path()) {
        match split_name(&path) {
            Some((other, _)) if other.file_name() == name.file_name() && path.is_file() => found.push(path),
            other => {
                let other = other.map_or(path, |(name, _)| name);
                let alike = other.file_name().filter(|_| is_alike(name, &other));
                near.extend(alike.map(|other| name.with_file_name(other)));
            }
        }
    }
    found.sort();
    near.sort();
    near.dedup();
    if found.is_empty() { Err(absent(near)) } else { Ok(found) }
}

/// A bundle whose name begins with the one that was typed, most often without its end.
fn is_alike(typed: &Path, other: &Path) -> bool {
    let bytes = |path: &Path| path.file_name().map(|name| name.as_encoded_bytes().to_vec()).unwrap_or_default();
    let (typed, other) = (bytes(typed), bytes(other));
    !typed.is_empty() && other.starts_with(&typed) && other.ends_with(SUFFIX.as_bytes())
}

fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn folder_of(name: &Path) -> &Path {
    name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// One volume among the others.
#[derive(Debug)]
struct Part {
    file: fs::File,
    path: PathBuf,
    start: u64,
    len: u64,
}

/// All volumes as one row of bytes: what `cat` makes of them.
#[derive(Debug)]
pub(crate) struct Volumes {
    parts: Vec<Part>,
    len: u64,
}

impl ReadAt for Volumes {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(part) = self.part(offset) else { return Ok(0) };
        let left = usize::try_from(part.start + part.len - offset).unwrap_or(usize::MAX).min(buffer.len());
        part.file.read_at(&mut buffer[..left], offset - part.start)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn files(&self) -> Vec<PathBuf> {
        self.parts.iter().map(|part| part.path.clone()).collect()
    }

    fn locate(&self, offset: u64) -> Option<(PathBuf, u64)> {
        let part = self.part(offset).or(self.parts.last())?;
        Some((part.path.clone(), offset - part.start))
    }

    fn has_changed(&self) -> bool {
        self.parts.iter().any(|part| part.file.metadata().is_ok_and(|metadata| metadata.len() != part.len))
    }
}

impl Volumes {
    fn part(&self, offset: u64) -> Option<&Part> {
        let at = self.parts.partition_point(|part| part.start <= offset).checked_sub(1)?;
        self.parts.get(at).filter(|part| offset < part.start + part.len)
    }
}

/// Puts the volumes in order, and names those that are missing, doubled, cut or of another bundle.
fn joined(paths: &[PathBuf]) -> Result<Origin, ArchiveError> {
    let mut volumes = BTreeMap::<u32, (PathBuf, u64, u64)>::new();
    let mut bundle: Option<(Digest, PathBuf)> = None;
    let wrong = |path: &Path, problem: String| ArchiveError::Volumes { path: path.to_owned(), problem };
    for path in paths {
        let (header, len) = header_of(path)?;
        let (id, first) = bundle.get_or_insert_with(|| (header.bundle_id, path.clone()));
        if *id != header.bundle_id {
            let problem = format!("it is a volume of another bundle than {}; give the volumes of one", first.display());
            return Err(wrong(path, problem));
        }
        if let Some((other, ..)) = volumes.get(&header.number) {
            if same_file(other, path) {
                continue;
            }
            let problem =
                format!("volume {} is there twice, also as {}; give one of them", header.number, other.display());
            return Err(wrong(path, problem));
        }
        volumes.insert(header.number, (path.clone(), header.offset, len));
    }
    let name = paths.first().map_or_else(PathBuf::new, |p| split_name(p).map_or_else(|| p.clone(), |(name, _)| name));
    let last = volumes.keys().next_back().copied().unwrap_or_default();
    let absent = (1..last).filter(|number| !volumes.contains_key(number));
    let missing: Vec<PathBuf> = absent.map(|number| volume_name(&name, number)).collect();
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|path| path.display().to_string()).collect();
        let problem = format!(
            "volumes are missing: {}; copy them to the same folder, or name their folder too",
            names.join(", ")
        );
        return Err(ArchiveError::VolumeMissing { path: name, missing, problem });
    }
    let mut parts: Vec<Part> = Vec::with_capacity(volumes.len());
    let mut end = 0;
    for (path, start, len) in volumes.into_values() {
        if start != end {
            let (cut, there) = parts.last().map_or((path.as_path(), 0), |part| (part.path.as_path(), part.len));
            let wanted = start.saturating_sub(end - there.min(end));
            let problem = format!("the volume is cut: it has {there} of {wanted} bytes; copy this one volume again");
            return Err(ArchiveError::VolumeMissing { path: cut.to_owned(), missing: vec![cut.to_owned()], problem });
        }
        let file = source::open(&path).map_err(io_error("open", &path))?;
        end = end.saturating_add(len);
        parts.push(Part { file, path, start, len });
    }
    Ok(Origin { name, source: Arc::new(Volumes { parts, len: end }) })
}

/// The header that a file begins with, and the file's length.
fn header_of(path: &Path) -> Result<(VolumeHeader, u64), ArchiveError> {
    let source = FileSource::open(path)?;
    let mut bytes = [0; LEN];
    let bytes = read_some(&source, &mut bytes, 0).map_err(io_error("read", path))?;
    match VolumeHeader::decode(bytes) {
        Ok(header) => Ok((header, source.len())),
        Err(Refusal::Newer(format)) => {
            Err(ArchiveError::Newer { path: path.to_owned(), what: format!("format {format}") })
        }
        Err(_) if bytes.len() < LEN => Err(ArchiveError::Truncated { path: path.to_owned(), at: source.len() }),
        Err(_) if split_name(path).is_some() || bytes.starts_with(&volume_header::MAGIC) => {
            Err(ArchiveError::Damaged {
                path: path.to_owned(),
                part: "volume header".to_owned(),
                offset: 0,
                problem: "it is not that of a volume".to_owned(),
            })
        }
        Err(_) => {
            let problem = "it is not a volume; give one bundle, or the volumes of one".to_owned();
            Err(ArchiveError::Volumes { path: path.to_owned(), problem })
        }
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    identity(one).is_some() && identity(one) == identity(other)
}
