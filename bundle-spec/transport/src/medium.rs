//! Files of a folder of this machine: a mounted medium, an unpacked ISO, a copied mirror. Compared with size and digest as what
//! comes over a network is, and nothing outside the folder is read.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::Url;

use crate::address::shown;
use crate::{Fetched, FileCandidate, Head, Progress, Store, TransportError, Want};

/// What an address of a file of this machine begins with (RFC 8089).
pub const SCHEME: &str = "file://";
/// How often progress is reported.
const TICK: Duration = Duration::from_millis(100);

impl FileCandidate {
    /// A folder of this machine, by its absolute path; what is addressed below it may be read, and nothing else.
    ///
    /// # Errors
    /// A path that is not absolute, or the root of this machine.
    pub fn folder(path: &Path) -> Result<Self, TransportError> {
        let wrong = |problem: &str| TransportError::Setting {
            what: format!("folder {}", path.display()),
            problem: problem.to_owned(),
        };
        let url = Url::from_file_path(path).map_err(|()| wrong("is not an absolute path"))?;
        if url.path() == "/" {
            return Err(wrong(
                "is the root of this machine's file system; name the folder that the medium is mounted on",
            ));
        }
        let url = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { folder: Some(url.clone()), ..Self::new(url) })
    }

    /// The folder of an address of one.
    ///
    /// # Errors
    /// What is no `file:///…`, and what [`FileCandidate::folder`] refuses.
    pub fn folder_at(url: &str) -> Result<Self, TransportError> {
        let path = Url::parse(url).ok().filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok());
        let path = path.ok_or_else(|| TransportError::Setting {
            what: format!("address {}", shown(url)),
            problem: "is not an absolute path of this machine (file:///mnt/iso)".to_owned(),
        })?;
        Self::folder(&path)
    }

    /// Something below it.
    #[must_use]
    pub fn below(&self, path: &str) -> Self {
        let url = format!("{}/{}", self.url.trim_end_matches('/'), path.trim_start_matches('/'));
        Self { url, ..self.clone() }
    }

    /// The folder, as a path of this machine.
    pub fn local_folder(&self) -> Option<PathBuf> {
        Url::parse(self.folder.as_deref()?).ok()?.to_file_path().ok()
    }

    /// Whether it is a file of this machine.
    pub fn is_local(&self) -> bool {
        self.url.starts_with("file:")
    }

    /// Whether a local file, or folder, is there; false of any other address.
    pub fn is_there(&self) -> bool {
        self.is_local() && Place::of(self).and_then(|place| place.path()).is_ok()
    }
}

/// A file below a folder.
#[derive(Clone, Debug)]
struct Place {
    /// For people.
    origin: String,
    folder: PathBuf,
    below: String,
}

impl Place {
    fn of(candidate: &FileCandidate) -> Result<Self, TransportError> {
        let wrong = |problem: &str| TransportError::Setting {
            what: format!("address {}", shown(&candidate.url)),
            problem: problem.to_owned(),
        };
        // What an index or a redirect names by itself has none.
        let folder = candidate.folder.as_deref().ok_or_else(|| {
            wrong(
                "a file of this machine is read only below a folder that a zone or --mirror names, and this one is below none",
            )
        })?;
        let below = candidate.url.strip_prefix(folder).filter(|below| below.is_empty() || below.starts_with('/'));
        let below = below.ok_or_else(|| wrong("is outside the folder that was named"))?.trim_start_matches('/');
        let path = candidate
            .local_folder()
            .ok_or_else(|| wrong("is not an absolute path of this machine (file:///mnt/iso)"))?;
        Ok(Self { origin: candidate.url.clone(), folder: path, below: below.to_owned() })
    }

    /// Where it is, all links followed.
    fn path(&self) -> Result<PathBuf, TransportError> {
        let folder = fs::canonicalize(&self.folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => self.missing(format!(
                "there is no folder {}; mount the medium there, or name another one",
                self.folder.display()
            )),
            _ => self.unreadable(&error),
        })?;
        let mut last = None;
        for name in self.names() {
            // Not even to a folder below: an index has no reason for it.
            if Path::new(&name).components().any(|part| matches!(part, Component::ParentDir)) {
                return Err(self.outside());
            }
            match fs::canonicalize(folder.join(&name)) {
                Ok(path) if path.starts_with(&folder) => return Ok(path),
                Ok(_) => return Err(self.outside()),
                Err(error) => last = Some(error),
            }
        }
        Err(match last {
            Some(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                self.unreadable(&error)
            }
            _ => self.missing("no such file".to_owned()),
        })
    }

    /// The path below the folder: as an index writes it, and with what an address escapes. apt names files `a_1%3a2_all.deb`.
    fn names(&self) -> Vec<String> {
        let mut names = vec![self.below.clone()];
        if let Some(decoded) = decoded(&self.below) {
            names.push(decoded);
        }
        names
    }

    /// A pipe or a device is not waited for.
    fn open(&self) -> Result<(File, u64), TransportError> {
        let path = self.path()?;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(&path);
        let file = file.map_err(|error| self.unreadable(&error))?;
        let meta = file.metadata().map_err(|error| self.unreadable(&error))?;
        if !meta.is_file() {
            return Err(self.missing("it is not a regular file".to_owned()));
        }
        Ok((file, meta.len()))
    }

    fn missing(&self, reason: String) -> TransportError {
        TransportError::Missing { origin: self.origin.clone(), reason }
    }

    fn outside(&self) -> TransportError {
        TransportError::Outside { origin: self.origin.clone(), folder: self.folder.clone() }
    }

    fn unreadable(&self, error: &io::Error) -> TransportError {
        TransportError::BadMedium { origin: self.origin.clone(), reason: error.to_string() }
    }
}

/// Without percent signs (RFC 3986, 2.1); none where there are none, or where bytes come of it that no path has.
fn decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let hex = behind.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Reads, and remembers how far it came and why it could not continue: the store would take that for a fault of its own disk.
struct Counted {
    file: io::Take<File>,
    done: Arc<AtomicU64>,
    failed: Option<io::Error>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.file.read(buffer) {
            Ok(read) => {
                self.done.fetch_add(read as u64, Ordering::Relaxed);
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let kind = error.kind();
                self.failed = Some(error);
                Err(kind.into())
            }
        }
    }
}

/// Copies a file into the store.
pub(crate) async fn fetch(
    candidate: &FileCandidate,
    want: &Want,
    store: &Store,
    progress: &Progress<'_>,
) -> Result<Fetched, TransportError> {
    let (place, want, store) = (Place::of(candidate)?, want.clone(), store.clone());
    let done = Arc::new(AtomicU64::new(0));
    let (counted, size) = (Arc::clone(&done), want.size);
    let mut copying = tokio::task::spawn_blocking(move || copy(&place, &want, &store, counted));
    loop {
        tokio::select! {
            copied = &mut copying => {
                let fetched = copied.map_err(|error| TransportError::Worker(error.to_string()))??;
                progress(fetched.size, Some(fetched.size));
                return Ok(fetched);
            }
            () = tokio::time::sleep(TICK) => progress(done.load(Ordering::Relaxed), size),
        }
    }
}

fn copy(place: &Place, want: &Want, store: &Store, done: Arc<AtomicU64>) -> Result<Fetched, TransportError> {
    let (file, size) = place.open()?;
    let wrong_size = |expected, found| TransportError::WrongSize { origin: place.origin.clone(), expected, found };
    if let Some(expected) = want.size.filter(|expected| *expected != size) {
        return Err(wrong_size(expected, size));
    }
    want.check_bound(&place.origin, Some(size))?;
    // One that grows meanwhile is another one.
    let mut reader = Counted { file: file.take(size.saturating_add(1)), done, failed: None };
    let inserted = store.insert(&mut reader, want.digest);
    if let Some(error) = reader.failed {
        return Err(place.unreadable(&error));
    }
    match inserted {
        Ok((_, found)) if found != size => Err(wrong_size(size, found)),
        Ok((digest, size)) => Ok(Fetched { digest, size, url: Some(place.origin.clone()) }),
        Err(TransportError::Mismatch { expected, found, .. }) => {
            Err(TransportError::Mismatch { origin: place.origin.clone(), expected, found })
        }
        Err(error) => Err(error),
    }
}

/// All of a small file, of at most `limit` bytes.
pub(crate) async fn read_small(candidate: &FileCandidate, limit: u64) -> Result<Vec<u8>, TransportError> {
    let place = Place::of(candidate)?;
    blocking(move || {
        let (file, _) = place.open()?;
        let mut body = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut body).map_err(|error| place.unreadable(&error))?;
        if body.len() as u64 > limit {
            let found = format!("more than {limit} bytes");
            return Err(TransportError::NotTheFile { origin: place.origin.clone(), found });
        }
        Ok(body)
    })
    .await
}

/// What there is to say of a file without reading it.
pub(crate) async fn head(candidate: &FileCandidate) -> Result<Head, TransportError> {
    let place = Place::of(candidate)?;
    let (_, size) = blocking(move || place.open()).await?;
    Ok(Head { size: Some(size), etag: None, content_type: None })
}

/// What is reported about places that all failed, each with the folder that it is below. A folder may be laid out in more ways than one:
/// that something is not where it would be in another way is no news where it was found.
pub(crate) fn failures_by_folder(tried: Vec<(Option<&str>, TransportError)>) -> Vec<TransportError> {
    let absent = |error: &TransportError| matches!(error, TransportError::Missing { .. });
    let found: Vec<String> =
        tried.iter().filter(|(_, error)| !absent(error)).filter_map(|(folder, _)| folder.map(str::to_owned)).collect();
    let is_news = |(folder, error): &(Option<&str>, TransportError)| {
        !absent(error) || folder.is_none_or(|folder| !found.iter().any(|one| one == folder))
    };
    tried.into_iter().filter(is_news).map(|(_, error)| error).collect()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransportError> + Send + 'static,
) -> Result<T, TransportError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| TransportError::Worker(error.to_string()))?
}
