//! A release's repositories read and solved, for both families alike.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use kubexm_manifests::os::{Profile, Profiles};
use kubexm_manifests::requirements::PackageNeed;
use kubexm_manifests::{RequireError, Zone};
use kubexm_packages::solve::{Baseline, Closure, Root, Unsolvable, solve};
use kubexm_packages::trust::Keyring;
use kubexm_spec::{Arch, Family};
use kubexm_transport::{FileCandidate, HttpClient, Store};

use super::{Mirrors, medium, mirrors};
use crate::BuildError;
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
    /// What the machine has already.
    pub baseline: Baseline,
}

/// Where each repository is asked, by its name.
type Places = BTreeMap<String, Vec<FileCandidate>>;

/// An answer, and what it was found in.
#[derive(Debug)]
pub struct Solved {
    /// All packages.
    pub loaded: Loaded,
    /// What is needed, or why it cannot be.
    pub closure: Result<Closure, Unsolvable>,
    /// Repositories that the medium does not have and that were not asked for elsewhere, a sentence each.
    pub left_out: Vec<String>,
}

impl<'a> Distribution<'a> {
    /// Of a machine that has nothing, by the vendor's own addresses and keys.
    pub fn new(profile: &'a Profile, profiles: &'a Profiles, arch: Arch) -> Self {
        let (mirrors, baseline) = (Mirrors::default(), Baseline::empty());
        Self { profile, profiles, arch, mirrors, keyring: None, baseline }
    }

    /// Of a release that a cluster needs packages of, as a zone leads to it.
    pub(super) fn of_need(need: &PackageNeed, zone: &Zone) -> Result<Self, BuildError> {
        let profiles = Profiles::embedded();
        let profile = profiles.get(&need.os).map_err(|unknown| {
            let (name, nearest) = (unknown.name, unknown.near);
            BuildError::Require(RequireError::UnknownOs { name, nearest })
        })?;
        let arch = need.platform.arch;
        Ok(Self { mirrors: Mirrors::of_zone(profile, arch, zone), ..Self::new(profile, profiles, arch) })
    }

    /// Reads the repositories, checks their signatures, and solves for what the machine has.
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
        let (suites, left_out) = self.suites()?;
        let loaded = deb::load(&suites, self.arch, http, store, options).await?;
        Ok(Solved { left_out, ..self.solved(loaded, roots).await? })
    }

    /// The suites that are asked, and what a medium does not have.
    pub(crate) fn suites(&self) -> Result<(Vec<deb::Suite>, Vec<String>), PackagesError> {
        let (places, mut left_out) = self.places()?;
        let of = |name: &str| places.get(name).cloned().unwrap_or_default();
        let mut suites = deb::suites(self.profile, self.profiles, self.arch, &of).map_err(PackagesError::Key)?;
        suites.retain(|suite| places.contains_key(&suite.name));
        if let Some(keyring) = &self.keyring {
            suites.iter_mut().for_each(|suite| suite.trust = Trust::Signed(keyring.clone()));
        }
        let is_there =
            |suite: &deb::Suite| self.mirrors.is_named(&suite.name) || medium::has_suite(&suite.bases, &suite.suite);
        let (there, lacking): (Vec<_>, Vec<_>) = suites.into_iter().partition(is_there);
        left_out.extend(lacking.iter().map(|suite| self.lacks(&suite.suite, &medium::folders(&suite.bases))));
        match there.is_empty() {
            true => Err(self.empty_medium(lacking.iter().flat_map(|suite| medium::folders(&suite.bases)).collect())),
            false => Ok((there, left_out)),
        }
    }

    /// The places of every repository that is somewhere, by its name, and what is not.
    fn places(&self) -> Result<(Places, Vec<String>), PackagesError> {
        let (mut places, mut left_out, mut looked) = (Places::new(), Vec::new(), Vec::new());
        for repository in &self.profile.repositories {
            match mirrors::found(&self.mirrors, &repository.name, self.profile.family) {
                mirrors::Found::At(all) => {
                    places.insert(repository.name.clone(), all);
                }
                mirrors::Found::Nowhere(folders) => {
                    left_out.push(self.lacks(&repository.name, &folders));
                    looked.extend(folders);
                }
            }
        }
        if places.is_empty() && !looked.is_empty() {
            return Err(self.empty_medium(looked));
        }
        Ok((places, left_out))
    }

    fn lacks(&self, what: &str, folders: &[PathBuf]) -> String {
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        format!(
            "{}: {what} is not on {}, and packages found only there are left out",
            self.profile.name,
            folders.join(", ")
        )
    }

    fn empty_medium(&self, mut folders: Vec<PathBuf>) -> PackagesError {
        folders.sort();
        folders.dedup();
        PackagesError::EmptyMedium { os: self.profile.name.clone(), folders, family: self.profile.family }
    }

    async fn rpm(
        &self,
        roots: &[Root],
        http: &HttpClient,
        store: &Store,
        options: &Options,
    ) -> Result<Solved, PackagesError> {
        let (repositories, left_out) = self.repositories()?;
        let streams = rpm::Streams::of(self.profile);
        let mut paths: BTreeSet<Box<str>> = BTreeSet::new();
        let mut round = 0;
        loop {
            let loaded = rpm::load(&repositories, self.arch, &streams, &paths, http, store, options).await?;
            let solved = self.solved(loaded, roots).await?;
            let wanted = match &solved.closure {
                Ok(closure) => &closure.needs_files,
                Err(unsolvable) => &unsolvable.needs_files,
            };
            let before = paths.len();
            paths.extend(wanted.iter().cloned());
            round += 1;
            if paths.len() == before || round == ROUNDS {
                return Ok(Solved { left_out, ..solved });
            }
        }
    }

    /// The repositories that are asked, and what a medium does not have.
    pub(crate) fn repositories(&self) -> Result<(Vec<rpm::Repository>, Vec<String>), PackagesError> {
        let (places, left_out) = self.places()?;
        let of = |name: &str| places.get(name).cloned().unwrap_or_default();
        let mut repositories =
            rpm::repositories(self.profile, self.profiles, self.arch, &of).map_err(PackagesError::Key)?;
        repositories.retain(|repository| places.contains_key(&repository.name));
        for repository in &mut repositories {
            let trusted = repository.bases.iter().map(|base| &base.url).filter(|url| self.mirrors.trusts_unsigned(url));
            repository.trust_unsigned = trusted.cloned().collect();
        }
        if let Some(keyring) = &self.keyring {
            repositories.iter_mut().for_each(|repository| repository.metadata = Some(keyring.clone()));
        }
        Ok((repositories, left_out))
    }

    /// Computing stays off the threads that wait for the network.
    async fn solved(&self, loaded: Loaded, roots: &[Root]) -> Result<Solved, PackagesError> {
        let (roots, baseline) = (roots.to_vec(), self.baseline.clone());
        let work = move || {
            let closure = solve(&loaded.pool, &roots, &baseline);
            Solved { loaded, closure, left_out: Vec::new() }
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| PackagesError::Worker(error.to_string()))
    }
}
