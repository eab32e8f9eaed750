//! Which files a copy is made of: the bundle's own, and its `NAME.sums` and signatures beside it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, detached_path_of, sums};
use kubexm_files::check_regular;
use kubexm_spec::Digest;
use rustix::fs::OFlags;

use super::CopyError;
use super::error::io_error;

/// One file to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) source: PathBuf,
    /// In the target folder.
    pub(crate) name: String,
    /// In bytes.
    pub(crate) size: u64,
    /// Whether it is one of the bundle's own, which may be a link: it was read as a bundle. What lies beside it is taken for what it is
    /// called, and a link could lead to any file of the reader.
    pub(crate) own: bool,
    /// What `NAME.sums` says of it, and where that is.
    pub(crate) sum: Option<(Digest, PathBuf)>,
}

impl Item {
    /// To be read.
    pub(crate) fn open(&self) -> Result<fs::File, CopyError> {
        let follow = if self.own { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = follow.bits().cast_signed();
        let opened = fs::OpenOptions::new().read(true).custom_flags(flags).open(&self.source);
        opened.map_err(io_error("open", &self.source))
    }
}

/// The bundle's files in order, then what lies beside them, sums and signatures last.
pub(crate) fn items(bundle: &Bundle) -> Result<Vec<Item>, CopyError> {
    let files = bundle.files();
    let Some(first) = files.first() else { return Err(CopyError::NoFiles { path: bundle.path().to_owned() }) };
    let folder = &first.parent().unwrap_or(Path::new("")).to_owned();
    let name = bundle.path().file_name().unwrap_or_default();
    let sums_path = sums::path_of(&folder.join(name));
    let listed = if check_regular(&sums_path)?.is_some() { sums::read(&sums_path)? } else { Vec::new() };

    let own = files.len();
    let mut sources = files;
    for (_, name) in &listed {
        // A hidden file has a meaning where it arrives: `.bash_profile`.
        if Path::new(name).file_name().is_none_or(|own| own != name.as_str()) || name.starts_with('.') {
            return Err(CopyError::Name { sums: sums_path, name: name.clone() });
        }
        if sources.iter().any(|source| source.file_name().is_some_and(|own| own == name.as_str())) {
            continue;
        }
        let source = folder.join(name);
        if check_regular(&source)?.is_none() {
            return Err(CopyError::Missing { sums: sums_path, name: name.clone() });
        }
        sources.push(source);
    }
    let mut sums_signature = sums_path.clone().into_os_string();
    sums_signature.push(".sig");
    let last = [detached_path_of(&folder.join(name)), PathBuf::from(sums_signature), sums_path.clone()];
    for path in last {
        if check_regular(&path)?.is_some() && !sources.contains(&path) {
            sources.push(path);
        }
    }
    let sum = |name: &str| listed.iter().find(|(_, listed)| listed == name).map(|(sum, _)| (*sum, sums_path.clone()));
    let mut seen = BTreeMap::new();
    let mut items = Vec::with_capacity(sources.len());
    for (place, source) in sources.into_iter().enumerate() {
        let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(one) = seen.insert(name.to_lowercase(), source.clone()) {
            return Err(CopyError::SameName { one, other: source });
        }
        let size = fs::metadata(&source).map_err(io_error("examine", &source))?.len();
        items.push(Item { own: place < own, sum: sum(&name), source, name, size });
    }
    Ok(items)
}

/// Bundles and volumes in the target that a reader would take for parts of this one.
pub(crate) fn foreign(items: &[Item], target: &Path) -> Result<Vec<String>, CopyError> {
    let ours = items.first().and_then(|item| stem(&item.name));
    let mut names = Vec::new();
    for entry in fs::read_dir(target).map_err(io_error("look into", target))? {
        let name = entry.map_err(io_error("look into", target))?.file_name().to_string_lossy().into_owned();
        let same = ours.is_some() && stem(&name) == ours;
        if same && !items.iter().any(|item| item.name.eq_ignore_ascii_case(&name)) && is_volume(&target.join(&name)) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Files in the target under names that are brought and with other bytes, which are no earlier copy: those that an earlier
/// copy's `NAME.sums` does not list. Of the bundle's own files, one with the same length as the right one is a damaged
/// copy.
pub(crate) fn occupied(items: &[Item], found: &[There], target: &Path) -> Vec<String> {
    let own = |name: &str| stem(name).is_some() && items.first().is_some_and(|first| stem(name) == stem(&first.name));
    let sums_there = items.iter().find(|item| item.name.ends_with(".sums")).map(|item| item.name.as_str());
    let listed = sums_there.and_then(|name| {
        let path = target.join(name);
        fs::symlink_metadata(&path).is_ok_and(|there| there.is_file()).then(|| sums::read(&path).ok()).flatten()
    });
    let listed: Vec<String> = listed.unwrap_or_default().into_iter().map(|(_, name)| name).collect();
    // Sums that list nothing of this name are another's.
    let listed = if listed.iter().any(|name| own(name)) { listed } else { Vec::new() };
    let is_earlier = |item: &Item| {
        let damaged = own(&item.name)
            && fs::symlink_metadata(target.join(&item.name))
                .is_ok_and(|there| there.is_file() && there.len() == item.size);
        // Sums and signatures are in no sums.
        let beside = !listed.is_empty() && (item.name.ends_with(".sums") || item.name.ends_with(".sig"));
        damaged || beside || listed.contains(&item.name)
    };
    let wrong = items.iter().zip(found).filter(|(_, there)| **there == There::Wrong);
    wrong.filter(|(item, _)| !is_earlier(item)).map(|(item, _)| item.name.clone()).collect()
}

/// The bundle that a file is of by its name, in small letters.
fn stem(name: &str) -> Option<String> {
    const SUFFIX: &str = ".tar.zst";
    let digits = name.rsplit_once('.').filter(|(_, end)| end.len() == 3 && end.bytes().all(|b| b.is_ascii_digit()));
    let stem = digits.map_or(name, |(stem, _)| stem).to_lowercase();
    stem.ends_with(SUFFIX).then_some(stem)
}

/// Anything but a volume with such a name is not reported, except for a whole bundle beside volumes.
fn is_volume(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && (start == 0x184D_2A5C_u32.to_le_bytes() || start == 0xFD2F_B528_u32.to_le_bytes())
}

/// What lies under a file's name in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum There {
    /// Nothing.
    Absent,
    /// The very bytes.
    Right(Digest),
    /// Something else.
    Wrong,
}
