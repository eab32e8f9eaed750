//! Bundles on web servers, and the network settings for origins.

use std::sync::{Arc, PoisonError};

use kubexm_archive::{Bundle, ReadAt};
use kubexm_spec::digest::Hasher;
use kubexm_spec::{Digest, ExitCode};
use kubexm_transport::http::shown;
use kubexm_transport::{Credentials, FileCandidate, HttpFile, HttpOptions, TransportError, Watch, web_volumes};

use super::{Session, SessionError};

/// Bytes that are asked for at once where all of a file is read.
const PIECE: usize = 8 << 20;

impl Session {
    /// How to talk to origins. `transfer`: what is done is a transfer, and its waits are reported in any case.
    pub fn http_options(&self, transfer: bool) -> HttpOptions {
        let events = Arc::clone(&self.events);
        let watch =
            if transfer || !self.network.quiet { Watch::new(move |kind| events(kind)) } else { Watch::default() };
        HttpOptions { watch, proxies: self.environment.proxies, ..HttpOptions::default() }
    }

    /// Logins for registries.
    pub fn credentials(&self) -> Credentials {
        self.credentials.credentials()
    }

    /// Opens a bundle on a web server, in one file or in volumes; only what is read of it moves.
    pub(super) fn bundle_at(&self, address: &str) -> Result<Bundle, SessionError> {
        if address.starts_with("http://") && !self.network.plain_http {
            return Err(SessionError::PlainHttp { address: shown(address) });
        }
        let whole = self.network.whole.get(address).map_or(address, String::as_str);
        let (name, source) = web_volumes::open(whole, |address| self.file_at(address))?;
        Ok(Bundle::open_source(name, source)?)
    }

    fn file_at(&self, whole: &str) -> Result<Arc<HttpFile>, TransportError> {
        let candidate = FileCandidate {
            plain_http_allowed: self.network.plain_http,
            ca_file: self.network.ca_file.clone(),
            ..FileCandidate::new(whole)
        };
        let file = Arc::new(HttpFile::open(&candidate, self.http_options(false))?);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&file));
        Ok(file)
    }

    /// Name without folders and digest of a file that was opened by its address in this session; all of it is read.
    pub fn digest_at(&self, address: &str) -> Result<Option<(String, Digest)>, SessionError> {
        let wanted = shown(address);
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(file) = open.iter().find(|file| file.name() == wanted) else { return Ok(None) };
        let broken = |problem: String| SessionError::BrokenOff { name: wanted.clone(), problem };
        let (mut hasher, mut piece, mut done) = (Hasher::default(), vec![0; PIECE], 0);
        while done < file.len() {
            let read = file.read_at(&mut piece, done).map_err(|e| broken(format!("cannot be read: {e}")))?;
            if read == 0 {
                return Err(broken("it ends before its length".to_owned()));
            }
            hasher.update(&piece[..read]);
            done += read as u64;
        }
        let name = wanted.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Some((name, hasher.finish())))
    }

    /// Why a bundle could no longer be read over the network, if one was given up: what was read of it after that was taken
    /// for damage.
    pub fn broken_off(&self) -> Option<(ExitCode, String)> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().find_map(|file| file.failure())
    }
}
