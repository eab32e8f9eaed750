//! Files that hold a credential: everyone with the bundle could read it, so they go in only when their name is allowed.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_spec::credential;

/// Bytes from the start of a file that are searched: a key or a kubeconfig is far smaller.
const LIMIT: u64 = 1 << 20;

/// A file with a credential in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// `a private key` …
    pub what: &'static str,
}

/// Those of the files that hold a credential. Files that cannot be read are skipped: the step that reads them reports
/// it.
pub fn search<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Vec<Found> {
    let found = |path: &Path| Some(Found { path: path.to_owned(), what: credential::find(&start(path)?)? });
    paths.into_iter().filter_map(found).collect()
}

fn start(path: &Path) -> Option<String> {
    // A pipe could wait for ever.
    if !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(LIMIT).read_to_end(&mut bytes).ok()?;
    // Programs have the same words in them, and hold no key.
    (!bytes.contains(&0)).then(|| String::from_utf8_lossy(&bytes).into_owned())
}
