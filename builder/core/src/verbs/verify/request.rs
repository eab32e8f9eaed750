//! What `verify` is asked, and by whose keys.

use std::path::{Path, PathBuf};

use kubexm_archive::Signature;
use kubexm_signing::{Policy, files};

use crate::session::SessionError;

/// What is verified, and what is demanded of it.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// A file, volumes, folders with volumes, an address, or `-`.
    pub bundles: &'a [PathBuf],
    /// Of a delta: bundles that have what it leaves out.
    pub bases: &'a [PathBuf],
    /// Only hold the file against its trailer, and check manifest and signatures.
    pub quick: bool,
    /// Files of public keys, of which one must have signed.
    pub keys: &'a [PathBuf],
    /// Files of detached signatures.
    pub signatures: &'a [PathBuf],
    /// A valid signature is demanded even without a key.
    pub require_signature: bool,
    /// Threads that hash; all cores when none.
    pub threads: Option<usize>,
}

impl Request<'_> {
    /// What messages call the bundle.
    pub fn name(&self) -> &Path {
        self.bundles.first().map_or(Path::new("-"), PathBuf::as_path)
    }

    pub(super) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
    }

    /// Reads the keys and the detached signatures: before a bundle is, which may take long.
    pub(super) fn demands(&self) -> Result<(Policy, Vec<Signature>), SessionError> {
        let keys = self.keys.iter().map(|path| files::public_key(path)).collect::<Result<_, _>>()?;
        let mut detached = Vec::new();
        for path in self.signatures {
            detached.extend(files::signatures(path)?);
        }
        Ok((Policy { keys, required: self.require_signature }, detached))
    }
}
