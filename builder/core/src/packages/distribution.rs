//! A release's repositories read and solved, for both families alike.

use std::collections::BTreeSet;

use kubexm_manifests::os::{Profile, Profiles};
use kubexm_packages::solve::{Baseline, Closure, Root, Unsolvable, solve};
use kubexm_packages::trust::Keyring;
use kubexm_spec::{Arch, Family};
use kubexm_transport::{HttpClient, Store};

use super::Mirrors;
use crate::origins::packages::{Loaded, Options, PackagesError, Trust, deb, rpm};

/// Lists of files are read again for what a package of the last round needs; no distribution needs more than two.
const ROUNDS: usize = 6;

/// A release for one architecture, and where it is asked for.
#[derive(Clone, Debug)]
pub struct Distribution<'a> {
    /// Of the release.
    pub profile: &'a Profile,
    /// Has the vendors' keys.
    pub profiles: &'a Profiles,
    /// Of the machines.
    pub arch: Arch,
    /// Where its repositories are asked.
    pub mirrors: Mirrors,
    /// Whose signatures the metadata must carry, in place of the vendor's.
    pub keyring: Option<Keyring>,
}

/// An answer, and what it was found in.
#[derive(Debug)]
pub struct Solved {
    /// All packages.
    pub loaded: Loaded,
    /// What is needed, or why it cannot be.
    pub closure: Result<Closure, Unsolvable>,
}

impl Distribution<'_> {
    /// Reads the repositories, checks their signatures, and solves for a machine that has nothing.
    pub async fn solve(
        &self,
        roots: &[Root],
        http: &HttpClient,
        store: &Store,
        options: &Options,
    ) -> Result<Solved, PackagesError> {
        match self.profile.family {
            Family::Deb => self.deb(roots, http, store, options).await,
            Family::Rpm => self.rpm(roots, http, store, options).await,
        }
    }

    async fn deb(
        &self,
        roots: &[Root],
        http: &HttpClient,
        store: &Store,
        options: &Options,
    ) -> Result<Solved, PackagesError> {
        let mirrors = |name: &str| self.mirrors.of(name);
        let mut suites = deb::suites(self.profile, self.profiles, self.arch, &mirrors).map_err(PackagesError::Key)?;
        if let Some(keyring) = &self.keyring {
            suites.iter_mut().for_each(|suite| suite.trust = Trust::Signed(keyring.clone()));
        }
        let loaded = deb::load(&suites, self.arch, http, store, options).await?;
        Self::solved(loaded, roots).await
    }

    async fn rpm(
        &self,
        roots: &[Root],
        http: &HttpClient,
        store: &Store,
        options: &Options,
    ) -> Result<Solved, PackagesError> {
        let mirrors = |name: &str| self.mirrors.of(name);
        let mut repositories =
            rpm::repositories(self.profile, self.profiles, self.arch, &mirrors).map_err(PackagesError::Key)?;
        if let Some(keyring) = &self.keyring {
            repositories.iter_mut().for_each(|repository| repository.metadata = Some(keyring.clone()));
        }
        let streams = rpm::Streams::of(self.profile);
        let mut paths: BTreeSet<Box<str>> = BTreeSet::new();
        let mut round = 0;
        loop {
            let loaded = rpm::load(&repositories, self.arch, &streams, &paths, http, store, options).await?;
            let solved = Self::solved(loaded, roots).await?;
            let wanted = match &solved.closure {
                Ok(closure) => &closure.needs_files,
                Err(unsolvable) => &unsolvable.needs_files,
            };
            let before = paths.len();
            paths.extend(wanted.iter().cloned());
            round += 1;
            if paths.len() == before || round == ROUNDS {
                return Ok(solved);
            }
        }
    }

    /// Computing stays off the threads that wait for the network.
    async fn solved(loaded: Loaded, roots: &[Root]) -> Result<Solved, PackagesError> {
        let roots = roots.to_vec();
        let work = move || {
            let closure = solve(&loaded.pool, &roots, &Baseline::empty());
            Solved { loaded, closure }
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| PackagesError::Worker(error.to_string()))
    }
}
