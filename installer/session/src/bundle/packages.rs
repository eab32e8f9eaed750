//! The packages in a bundle: their metadata, and the repositories that kubexm makes of them.
//!
//! ```text
//! lock ─lock::packages→ CarriedPackages ─read(what hosts lack)→ with pools ─publish(the site's key)→ with repositories
//! ```
//!
//! Of each package only the front is read. A look at the hosts reads what some host lacks; a plan has all of them, for the depot.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;

use kubexm_archive::Bundle;
use kubexm_packages::model::RepoId;
use kubexm_packages::solve::{Pool, Repo};
use kubexm_plan::Facts;
use kubexm_recipes::packages::{self, CarriedPackages, CarriedSet};
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ArtifactKey, Family};

use super::opened::Opened;
use super::repository::{self, PackageFile, Unsigned};
use super::site_key;
use crate::error::SessionError;
use crate::home::ClusterHome;

/// What some host lacks.
#[derive(Debug, Default)]
pub struct Carried {
    /// As recipes take it.
    pub packages: CarriedPackages,
    /// Metadata of sets that were read, by their place.
    unsigned: BTreeMap<usize, Unsigned>,
}

impl Carried {
    /// Reads the sets of which a host lacks something. Blocking work goes to threads of its own.
    pub async fn read(opened: &Opened, facts: &BTreeMap<String, Facts>) -> Result<Self, SessionError> {
        let sets: Vec<_> = opened.packages.sets.iter().map(|carried| carried.set.clone()).collect();
        let mut read = Self { packages: CarriedPackages::unread(&sets), unsigned: BTreeMap::new() };
        for place in lacking(opened, facts) {
            let Some(carried) = read.packages.sets.get_mut(place) else { continue };
            let (bundle, wanted) = (opened.bundle.clone(), artifacts(&opened.bundle, carried));
            let family = carried.profile.family;
            let files =
                tokio::task::spawn_blocking(move || files(&bundle, &wanted, family)).await.map_err(crashed)??;
            let unsigned = unsigned(carried, &files)?;
            let damaged = |why| damaged(carried, why);
            let described = repository::described(&files, family, carried.pool.arch(), RepoId(0)).map_err(damaged)?;
            let repo = Repo { id: "bundle".to_owned(), base: String::new(), priority: 0 };
            carried.pool = Pool::new(family, family.arch(carried.set.platform.arch), vec![repo], described);
            read.unsigned.insert(place, unsigned);
        }
        Ok(read)
    }

    /// Signs the repositories of all sets: a host's own folder has its system's, and the depot serves every one. The key is made
    /// when it is first wanted.
    pub fn publish(&mut self, opened: &Opened, home: &ClusterHome) -> Result<(), SessionError> {
        if self.packages.sets.is_empty() {
            return Ok(());
        }
        let key = site_key::open(home)?;
        for (place, carried) in self.packages.sets.iter_mut().enumerate() {
            let metadata = match self.unsigned.remove(&place) {
                Some(read) => read,
                None => {
                    let wanted = artifacts(&opened.bundle, carried);
                    unsigned(carried, &files(&opened.bundle, &wanted, carried.profile.family)?)?
                }
            };
            carried.repository = metadata.signed(&key)?;
        }
        Ok(())
    }
}

/// The fronts of a set's packages.
fn files(bundle: &Bundle, wanted: &[Artifact], family: Family) -> Result<Vec<PackageFile>, SessionError> {
    in_parallel(wanted, |artifact| repository::read(bundle, artifact, family))
}

fn unsigned(carried: &CarriedSet, files: &[PackageFile]) -> Result<Unsigned, SessionError> {
    Unsigned::of(&carried.set, carried.profile, files).map_err(|why| damaged(carried, why))
}

fn damaged(carried: &CarriedSet, reason: String) -> SessionError {
    SessionError::Packages { what: format!("packages of {}: ", carried.set.os), reason }
}

/// Places of the sets that have what some host lacks.
fn lacking(opened: &Opened, facts: &BTreeMap<String, Facts>) -> BTreeSet<usize> {
    let cx = opened.plan_cx(facts, &opened.packages);
    let sets = facts.iter().filter_map(|(host, facts)| {
        let wanted = packages::lacking(&cx, host, facts).ok().flatten()?;
        opened.packages.sets.iter().position(|carried| std::ptr::eq(carried, wanted.carried))
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

/// The results in the order of the things; the first failure ends it.
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
