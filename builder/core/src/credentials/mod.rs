//! Files that hold a credential: everyone with the bundle could read it, so they go in only when their name is allowed.

mod der;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use kubexm_spec::{credential, from_utf16};

/// Bytes from the start of a file that are searched: a key or a kubeconfig is far smaller.
const LIMIT: u64 = 1 << 20;
/// The same of a text: a Secret may be anywhere in a long list of objects.
const TEXT_LIMIT: u64 = 16 << 20;

/// A file with a credential in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// `a private key` …
    pub what: &'static str,
}

/// Those of the files that hold a credential. Files that cannot be read are skipped: the step that reads them reports
/// it. Archives are not opened.
pub fn search<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Vec<Found> {
    let found = |path: &Path| Some(Found { path: path.to_owned(), what: of_file(path)? });
    paths.into_iter().filter_map(found).collect()
}

fn of_file(path: &Path) -> Option<&'static str> {
    // A pipe could wait for ever.
    let size = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let (bytes, rest) = start(path).ok()?;
    if bytes.contains(&0) {
        // Programs have the same words in them, and hold no key.
        return der::find(&bytes, size).or_else(|| in_text(&from_utf16(&bytes)?));
    }
    der::find(&bytes, size).or_else(|| {
        let mut bytes = bytes;
        // What cannot be read to its end is reported when it is packed.
        let _ = rest.take(TEXT_LIMIT - LIMIT).read_to_end(&mut bytes);
        in_text(&String::from_utf8_lossy(&bytes))
    })
}

fn in_text(text: &str) -> Option<&'static str> {
    credential::find(text).or_else(|| credential::has_secret_object(text).then_some("a Kubernetes Secret"))
}

fn start(path: &Path) -> io::Result<(Vec<u8>, File)> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    file.by_ref().take(LIMIT).read_to_end(&mut bytes)?;
    Ok((bytes, file))
}
