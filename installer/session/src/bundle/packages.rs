//! The packages in a bundle: their metadata, and the repositories that kubexm generates for them.
//!
//! ```text
//! lock ─lock::read→ CarriedPackages ─read(what hosts are missing)→ with pools ─publish(the site's key)→ with
//! repositories
//! ```
//!
//! Preflight reads the headers of the packages that some host is missing. A plan needs all packages, for the depot, and
//! reads every byte: what the site's key signs was verified just before, whatever was verified earlier.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;

use kubexm_archive::{Bundle, Unverified};
use kubexm_packages::model::RepoId;
use kubexm_packages::solve::{Pool, Repo};
use kubexm_plan::Facts;
use kubexm_recipes::packages::{self, CarriedPackages, CarriedSet};
use kubexm_spec::ArtifactKey;
use kubexm_spec::manifest::Artifact;

use super::opened::Opened;
use super::repository::{self, PackageFile, Unsigned};
use super::site_key;
use crate::error::SessionError;
use crate::home::ClusterHome;

/// The packages that some host is missing.
#[derive(Debug, Default)]
pub struct Carried {
    /// In the form that recipes use.
    pub packages: CarriedPackages,
}

impl Carried {
    /// Reads the sets from which a host is missing something, or with which it is compared. Blocking work runs on separate threads.
    pub async fn read(opened: &Opened, facts: &BTreeMap<String, Facts>) -> Result<Self, SessionError> {
        let sets: Vec<_> = opened.packages.sets.iter().map(|carried| carried.set.clone()).collect();
        let mut read = Self { packages: CarriedPackages::unread(&sets) };
        for place in needed_sets(opened, facts) {
            let Some(carried) = read.packages.sets.get_mut(place) else { continue };
            let (bundle, wanted) = (opened.bundle.clone(), artifacts(&opened.bundle, carried));
            let family = carried.profile.family;
            let headers = move || in_parallel(&wanted, |artifact| repository::read(&bundle, artifact, family));
            let files = tokio::task::spawn_blocking(headers).await.map_err(crashed)??;
            // Headers decide which packages are asked for; what is signed and installed is verified byte by byte.
            let files: Vec<PackageFile> = files.into_iter().map(Unverified::without_verification).collect();
            let files: Vec<&PackageFile> = files.iter().collect();
            let damaged = |why| damaged(carried, why);
            let described = repository::described(&files, family, carried.pool.arch(), RepoId(0)).map_err(damaged)?;
            let repo = Repo { id: "bundle".to_owned(), base: String::new(), priority: 0 };
            carried.pool = Pool::new(family, family.arch(carried.set.platform.arch), vec![repo], described);
        }
        Ok(read)
    }

    /// Signs the repositories of all sets: a host gets the one for its system, and the depot serves all of them. The
    /// key is created when it is first needed.
    pub fn publish(&mut self, opened: &Opened, home: &ClusterHome) -> Result<(), SessionError> {
        if self.packages.sets.is_empty() {
            return Ok(());
        }
        let mut unsigned = Vec::new();
        for carried in &self.packages.sets {
            let (bundle, family) = (&opened.bundle, carried.profile.family);
            let wanted = artifacts(bundle, carried);
            let verified = in_parallel(&wanted, |artifact| repository::read_verified(bundle, artifact, family))?;
            let metadata = Unsigned::of(&carried.set, carried.profile, &verified);
            unsigned.push(metadata.map_err(|why| damaged(carried, why))?);
        }
        let key = site_key::open(home)?;
        for (carried, metadata) in self.packages.sets.iter_mut().zip(unsigned) {
            carried.repository = metadata.signed(&key)?;
        }
        Ok(())
    }
}

fn damaged(carried: &CarriedSet, reason: String) -> SessionError {
    SessionError::Packages { what: format!("packages of {}: ", carried.set.os), reason }
}

/// Indexes of the sets whose packages a plan looks at.
fn needed_sets(opened: &Opened, facts: &BTreeMap<String, Facts>) -> BTreeSet<usize> {
    let cx = opened.plan_cx(facts, &opened.packages);
    let sets = facts.iter().filter_map(|(host, facts)| {
        let needed = match opened.os_packages {
            true => opened.packages.of_system(facts)?,
            false => packages::missing_roots(&cx, host, facts).ok().flatten()?.carried,
        };
        opened.packages.sets.iter().position(|carried| std::ptr::eq(carried, needed))
    });
    sets.collect()
}

/// The packages of a set.
fn artifacts(bundle: &Bundle, carried: &CarriedSet) -> Vec<Artifact> {
    let of_set = |artifact: &&Artifact| {
        matches!(&artifact.key, ArtifactKey::Package { os, .. } if *os == carried.set.os)
            && artifact.platform == Some(carried.set.platform)
    };
    bundle.manifest().artifacts.iter().filter(of_set).cloned().collect()
}

/// Results in the order of the inputs; the first error ends the work.
fn in_parallel<T: Sync, R: Send>(
    all: &[T],
    work: impl Fn(&T) -> Result<R, SessionError> + Sync,
) -> Result<Vec<R>, SessionError> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let share = all.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let running: Vec<_> = all
            .chunks(share)
            .map(|part| scope.spawn(|| part.iter().map(&work).collect::<Result<Vec<_>, _>>()))
            .collect();
        let mut results = Vec::with_capacity(all.len());
        for part in running {
            results.extend(part.join().map_err(|_| crashed("a thread that read packages"))??);
        }
        Ok(results)
    })
}

fn crashed(what: impl std::fmt::Display) -> SessionError {
    SessionError::Crashed(what.to_string())
}

#[cfg(test)]
mod tests;
