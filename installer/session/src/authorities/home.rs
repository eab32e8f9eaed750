//! The copy of the authorities in the home: a replacement is made beside it, and takes its place once the run was confirmed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use kubexm_engine::ClusterPki;
use kubexm_plan::{Authority, Plan};

use zeroize::Zeroizing;

use super::{Authorities, Change};
use crate::bundle::SITE_KEY;
use crate::error::SessionError;
use crate::files;
use crate::home::ClusterHome;

/// The pki folder that a run will use.
pub(crate) struct Staged {
    folder: PathBuf,
    /// The folder whose place it takes; none if it is that folder.
    place: Option<PathBuf>,
}

impl Authorities {
    /// The certificates that a run will use, for a comparison: nothing is written.
    pub fn view(&self, home: &ClusterHome) -> Result<ClusterPki, SessionError> {
        let view = |empty| ClusterPki::view(&home.pki(), empty);
        match &self.change {
            Change::None => Ok(view(false)),
            Change::Keep(sealed) => {
                let pki = view(false);
                pki.keep_sealed(sealed)?;
                Ok(pki)
            }
            Change::Replace(files, sealed) => {
                let pki = view(true);
                pki.fill(files, sealed)?;
                Ok(pki)
            }
            Change::New => {
                let pki = view(true);
                pki.keep_etcd_of(&view(false))?;
                Ok(pki)
            }
        }
    }

    /// Prepares the folder, under the cluster's lock, once the run was confirmed. Until it is committed, the home has what it
    /// had.
    pub fn stage(&self, home: &ClusterHome, plan: &Plan) -> Result<Staged, SessionError> {
        let staged = || {
            let folder = home.folder.join("pki.new");
            remove(&folder)?;
            Ok::<_, SessionError>((ClusterPki::open(&folder)?, Staged { folder, place: Some(home.pki()) }))
        };
        match &self.change {
            Change::None => Ok(Staged { folder: home.pki(), place: None }),
            Change::Keep(sealed) => {
                ClusterPki::open(&home.pki())?.keep_sealed(sealed)?;
                Ok(Staged { folder: home.pki(), place: None })
            }
            Change::Replace(files, sealed) => {
                let (pki, staged) = staged()?;
                pki.fill(files, sealed)?;
                Ok(staged)
            }
            Change::New => {
                let (pki, staged) = staged()?;
                pki.make(Authority::Registry, plan)?;
                pki.keep_etcd_of(&ClusterPki::view(&home.pki(), false))?;
                Ok(staged)
            }
        }
    }
}

impl Staged {
    /// Puts it in its place. A CA that was there and is another one is kept beside it, in a folder `pki.replaced-<seconds>`.
    pub fn commit(mut self, now: SystemTime) -> Result<(), SessionError> {
        let Some(place) = self.place.take() else { return Ok(()) };
        let ca = ClusterPki::file_of(Authority::Registry);
        let [was, is] = [&place, &self.folder].map(|folder| ClusterPki::certificates_in(folder));
        let was = was?.remove(&ca);
        let replaced = match was.is_some() && was != is?.remove(&ca) {
            true => {
                let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                Some(place.with_file_name(format!("pki.replaced-{seconds}")))
            }
            false => None,
        };
        keep_site_key(&place, &self.folder)?;
        match replaced {
            Some(aside) => rename(&place, &aside)?,
            None => remove(&place)?,
        }
        rename(&self.folder, &place)?;
        let folder = place.parent().unwrap_or(Path::new("."));
        fs::File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| SessionError::disk("sync", folder, &error))
    }
}

/// The key of package repositories is this home's and of no CA: hosts trust it, and another one would be a change on each of them.
fn keep_site_key(from: &Path, to: &Path) -> Result<(), SessionError> {
    let [from, to] = [from, to].map(|folder| folder.join(SITE_KEY));
    if to.exists() {
        return Ok(());
    }
    match fs::read(&from) {
        Ok(key) => files::write_private(&to, &Zeroizing::new(key)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(SessionError::disk("read", &from, &error)),
    }
}

impl Drop for Staged {
    /// What failed before leaves no key behind.
    fn drop(&mut self) {
        if self.place.is_some() {
            let _ = remove(&self.folder);
        }
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), SessionError> {
    fs::rename(from, to).map_err(|error| SessionError::disk("rename", from, &error))
}

fn remove(folder: &Path) -> Result<(), SessionError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(SessionError::disk("remove", folder, &error)),
        _ => Ok(()),
    }
}
