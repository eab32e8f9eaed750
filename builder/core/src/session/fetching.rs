//! How things are fetched: the cache, how many at once, and where `kubexm-install` lies.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kubexm_spec::ExitCode;
use kubexm_transport::{HttpClient, HttpOptions, OciRegistry, RegistriesConf, Store};

use super::{Session, SessionError};
use crate::origins::Origins;
use crate::origins::in_place::InPlace;
use crate::origins::installer::Installers;

/// Options of everything that asks origins.
#[derive(Clone, Debug)]
pub struct Fetching {
    /// Folder of the cache; the usual one when none.
    pub cache: Option<PathBuf>,
    /// Transfers at once.
    pub jobs: usize,
    /// Bytes a second over all transfers, at most.
    pub limit_rate: Option<u64>,
    /// Only what the cache holds.
    pub offline: bool,
    /// Whether signatures, attestations and SBOMs of images are looked for and carried.
    pub referrers: bool,
    /// registries.conf; the environment's when none.
    pub registries_conf: Option<PathBuf>,
    /// `kubexm-install` of a platform, where it does not lie beside the program.
    pub installers: Vec<PathBuf>,
    /// The helm that charts are rendered with; the catalogue's when none.
    pub helm: Option<PathBuf>,
}

impl Default for Fetching {
    fn default() -> Self {
        Self {
            cache: None,
            jobs: 32,
            limit_rate: None,
            offline: false,
            referrers: true,
            registries_conf: None,
            installers: Vec::new(),
            helm: None,
        }
    }
}

impl Session {
    /// Clients, cache and installers.
    pub fn origins(&self, fetching: &Fetching) -> Result<Origins, SessionError> {
        self.origins_with(fetching, self.http_options(true))
    }

    /// Clients for questions rather than transfers: who does not answer soon is passed over.
    pub fn quick_origins(&self, fetching: &Fetching) -> Result<Origins, SessionError> {
        let options = HttpOptions {
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(10),
            retries: 1,
            backoff_max: Duration::from_secs(2),
            ..self.http_options(false)
        };
        self.origins_with(fetching, options)
    }

    /// Where `kubexm-install` of each platform lies.
    pub fn installers(&self, named: &[PathBuf]) -> Result<Installers, SessionError> {
        Ok(Installers::look(named, self.environment.programs.as_deref())?)
    }

    /// The cache: in this folder, or in the usual one. It is made where there is none.
    pub fn store(&self, folder: Option<&Path>) -> Result<Store, SessionError> {
        self.check_cache(folder)?;
        Ok(Store::open(self.environment.cache(folder)?)?.remembering())
    }

    /// The cache; one that is named has to be there.
    pub fn store_there(&self, folder: Option<&Path>) -> Result<Store, SessionError> {
        match folder {
            Some(folder) if folder.symlink_metadata().is_err() => {
                let text = format!("there is no folder {}; name the folder of a cache with --cache", folder.display());
                Err(SessionError::refused(ExitCode::Usage, text))
            }
            folder => self.store(folder),
        }
    }

    /// Where the cache is, or would be.
    pub fn cache_folder(&self, folder: Option<&Path>) -> Result<PathBuf, SessionError> {
        self.environment.cache(folder)
    }

    /// The cache, where there is one: it is not made, and nothing in it is written.
    pub fn store_at_hand(&self, folder: Option<&Path>) -> Option<Store> {
        let folder = self.environment.cache(folder).ok().filter(|folder| folder.is_dir())?;
        Store::open(folder).ok().map(Store::remembering)
    }

    /// What clients, cache and helm would be refused for. Nothing is made, and no origin is asked.
    pub fn check_fetching(&self, fetching: &Fetching) -> Result<(), SessionError> {
        fetching.helm.as_deref().map_or(Ok(()), check_program)?;
        self.registries(fetching)?;
        self.check_cache(fetching.cache.as_deref())
    }

    fn check_cache(&self, folder: Option<&Path>) -> Result<(), SessionError> {
        let named = folder.is_some();
        let cache = self.cache_folder(folder)?;
        check_folder(&cache).map_err(|problem| match named {
            true => SessionError::refused(ExitCode::Usage, format!("{problem}; name another folder with --cache")),
            false => SessionError::refused(
                ExitCode::Disk,
                format!("{problem}; name another folder for the cache with --cache"),
            ),
        })
    }

    fn registries(&self, fetching: &Fetching) -> Result<RegistriesConf, SessionError> {
        Ok(match &fetching.registries_conf {
            Some(file) => RegistriesConf::read(std::slice::from_ref(file), true)?,
            None => RegistriesConf::read(&self.environment.registries, false)?,
        })
    }

    fn origins_with(&self, fetching: &Fetching, options: HttpOptions) -> Result<Origins, SessionError> {
        let store = self.store(fetching.cache.as_deref())?;
        let options = HttpOptions {
            parallel: fetching.jobs,
            parallel_per_host: options.parallel_per_host.min(fetching.jobs),
            limit_rate: fetching.limit_rate,
            offline: fetching.offline,
            ..options
        };
        if let Some(helm) = &fetching.helm {
            check_program(helm)?;
        }
        let http = HttpClient::new(options)?;
        let registries = self.registries(fetching)?;
        let registry =
            OciRegistry::new(http.clone(), self.credentials()).with_registries(registries).with_store(store.clone());
        Ok(Origins {
            http,
            registry,
            lease: Some(store.lease()?),
            store,
            referrers: fetching.referrers,
            installers: self.installers(&fetching.installers)?,
            helm: fetching.helm.clone(),
            in_place: InPlace::default(),
            clock: Arc::clone(&self.clock),
        })
    }
}

/// A program that is run late, after what it works on was fetched.
fn check_program(path: &Path) -> Result<(), SessionError> {
    let failed = |source| SessionError::Unreadable { path: path.to_owned(), source };
    match std::fs::metadata(path).map_err(failed)?.is_file() {
        true => Ok(()),
        false => Err(failed(std::io::Error::other("it is not a regular file"))),
    }
}

/// Whether files can be made in a folder that may have to be made first: the nearest one that is there decides.
fn check_folder(path: &Path) -> Result<(), String> {
    let absolute = std::path::absolute(path).map_err(|error| format!("{} is no path: {error}", path.display()))?;
    let nearest = absolute.ancestors().find(|folder| folder.symlink_metadata().is_ok()).unwrap_or(&absolute);
    if !nearest.is_dir() {
        return Err(format!("{} is not a folder", nearest.display()));
    }
    let rights = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(nearest, rights)
        .map_err(|error| format!("{} cannot be written: {}", nearest.display(), std::io::Error::from(error)))
}
