//! What is verified: a bundle that can be read from any place, or one that passes once.

use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, DamageReport, Documents, Layout, Signature, Streamed, Verified};
use kubexm_spec::{Digest, ExitCode};

use super::request::Request;
use crate::session::{Session, SessionError};

/// A bundle, however it comes.
pub(super) enum Subject {
    /// Files, or an address.
    Seekable(Box<Bundle>),
    /// Standard input: it has passed already.
    Passed(Box<Streamed>),
}

/// Bytes done and in all.
pub(super) type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

impl Subject {
    pub fn open(
        session: &Session,
        request: &Request<'_>,
        stdin: impl Read + Send,
        threads: usize,
        progress: Progress<'_>,
    ) -> Result<Self, SessionError> {
        if request.bundles.iter().any(|path| path == Path::new("-")) {
            return Self::pass(request, stdin, threads, progress);
        }
        let bundle = session.bundle_on(request.bundles, request.bases)?;
        Ok(Self::Seekable(Box::new(bundle)))
    }

    fn pass(
        request: &Request<'_>,
        stdin: impl Read + Send,
        threads: usize,
        progress: Progress<'_>,
    ) -> Result<Self, SessionError> {
        let refused = |what: &str| {
            let text = format!("standard input is read once, front to end: {what}");
            Err(SessionError::refused(ExitCode::Usage, text))
        };
        if request.bundles.len() > 1 {
            return refused("give - alone, and the volumes as `cat NAME.tar.zst.* | kubexm-bundle verify -`");
        }
        if request.quick {
            return refused("--quick saves nothing there; leave it out, or give the file");
        }
        if !request.bases.is_empty() {
            return refused("a delta on a base is read from both; give the delta as a file");
        }
        let streamed = kubexm_archive::verify_stream(Path::new("-"), stdin, threads, progress)?;
        Ok(Self::Passed(Box::new(streamed)))
    }

    /// How the bytes are; a stream was read when it was opened.
    pub fn check(&self, quick: bool, threads: usize, progress: Progress<'_>) -> Result<Verified, DamageReport> {
        match self {
            Self::Seekable(bundle) if quick => kubexm_archive::verify_quick(bundle, threads, progress),
            Self::Seekable(bundle) => {
                let verified = kubexm_archive::verify(bundle, threads, progress)?;
                // What a delta takes from its bases must be right there as well.
                for base in bundle.bases() {
                    kubexm_archive::verify(base, threads, progress)?;
                }
                Ok(verified)
            }
            Self::Passed(streamed) => streamed.bytes.clone(),
        }
    }

    pub fn documents(&self) -> &dyn Documents {
        match self {
            Self::Seekable(bundle) => &**bundle,
            Self::Passed(streamed) => &**streamed,
        }
    }

    pub fn manifest_json(&self) -> &[u8] {
        match self {
            Self::Seekable(bundle) => bundle.manifest_json(),
            Self::Passed(streamed) => streamed.manifest_json(),
        }
    }

    pub fn manifest_digest(&self) -> Digest {
        Digest::of(self.manifest_json())
    }

    pub fn signatures(&self) -> &[Signature] {
        match self {
            Self::Seekable(bundle) => bundle.signatures(),
            Self::Passed(streamed) => streamed.signatures(),
        }
    }

    pub fn bundle_id(&self) -> Digest {
        match self {
            Self::Seekable(bundle) => bundle.bundle_id(),
            Self::Passed(streamed) => streamed.bundle_id(),
        }
    }

    pub fn layout(&self) -> &Layout {
        match self {
            Self::Seekable(bundle) => bundle.layout(),
            Self::Passed(streamed) => streamed.layout(),
        }
    }

    /// The files it lies in.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::Seekable(bundle) => bundle.files(),
            Self::Passed(_) => Vec::new(),
        }
    }

    /// Whether something is left out that no base was given for.
    pub fn lacks_its_base(&self) -> bool {
        match self {
            Self::Seekable(bundle) => bundle.layout().is_delta() && bundle.bases().is_empty(),
            Self::Passed(streamed) => streamed.layout().is_delta(),
        }
    }
}
