//! All packages that may be chosen, found by name, by what they provide and by path.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use kubexm_spec::Family;

use crate::model::{Deferred, Package, RepoId, compare};

/// One repository of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    /// What people call it: `bookworm-security/main`, `baseos`.
    pub id: String,
    /// What [`Package::location`] is relative to, without a slash at its end.
    pub base: String,
    /// The greater is asked first, whatever the versions in the others, as with apt's pins; where dnf's `priority` is meant, the
    /// sign is turned by who reads it. The same for all where nothing is said.
    pub priority: i32,
}

/// A package of a pool, by its place in [`Pool::packages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackageId(pub u32);

impl PackageId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// All packages of one distribution and architecture.
///
/// Packages of other architectures are left out. The order of the packages does not depend on the order in which they came,
/// and neither does any answer.
#[derive(Debug)]
pub struct Pool {
    family: Family,
    arch: Box<str>,
    repos: Vec<Repo>,
    /// By name, then the better one first.
    packages: Vec<Package>,
    provides: Vec<Entry>,
    files: Vec<Entry>,
    obsoletes: Vec<PackageId>,
}

/// One provided name or path: hash of the text, package, place in the package's list.
type Entry = (u64, PackageId, u32);

/// Of a build of this program always the same: it is never stored.
fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl Pool {
    /// Of packages for `arch` (in the family's own word, as [`Family::arch`] gives it) and for every architecture. A package's
    /// [`RepoId`] is its place in `repos`; one that names none of them is left out.
    pub fn new(family: Family, arch: &str, repos: Vec<Repo>, mut packages: Vec<Package>) -> Self {
        packages.retain(|package| {
            (&*package.arch == arch || &*package.arch == family.any_arch()) && usize::from(package.repo.0) < repos.len()
        });
        packages.sort_by(|one, other| one.name.cmp(&other.name).then_with(|| better(family, &repos, one, other)));
        packages.dedup();
        packages.truncate(u32::MAX as usize);
        let (mut provides, mut files, mut obsoletes) = (Vec::new(), Vec::new(), Vec::new());
        for (id, package) in (0..).map(PackageId).zip(&packages) {
            provides.extend((0..).zip(&package.provides).map(|(at, provide)| (hash(&provide.name), id, at)));
            files.extend((0..).zip(&package.files).map(|(at, file)| (hash(file), id, at)));
            if makes_obsolete(&package.relations) {
                obsoletes.push(id);
            }
        }
        provides.sort_unstable();
        files.sort_unstable();
        Self { family, arch: arch.into(), repos, packages, provides, files, obsoletes }
    }

    /// Whose rules hold.
    pub const fn family(&self) -> Family {
        self.family
    }

    /// For which architecture, in the family's word.
    pub fn arch(&self) -> &str {
        &self.arch
    }

    /// The repositories, as they were given.
    pub fn repos(&self) -> &[Repo] {
        &self.repos
    }

    /// All packages, by name; of one name the better one first.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The package of an id that this pool gave.
    ///
    /// # Panics
    /// When the id is another pool's and beyond this one's end.
    pub fn package(&self, id: PackageId) -> &Package {
        &self.packages[id.index()]
    }

    /// The repository that a package is from.
    pub fn repo(&self, package: &Package) -> Option<&Repo> {
        self.repos.get(usize::from(package.repo.0))
    }

    /// Where the file of a package is: address of the repository and location below it. An index of rpm's family may name a whole
    /// address (`xml:base`).
    pub fn url(&self, package: &Package) -> String {
        if package.location.contains("://") {
            return package.location.to_string();
        }
        let base = self.repo(package).map_or("", |repo| repo.base.trim_end_matches('/'));
        format!("{base}/{}", package.location.trim_start_matches('/'))
    }

    /// All versions of a name, the better one first: of the repository with the highest priority, then the highest version.
    pub fn named(&self, name: &str) -> impl DoubleEndedIterator<Item = PackageId> + use<> {
        let range = self.range(name);
        #[expect(clippy::cast_possible_truncation, reason = "a pool has no more than u32::MAX packages")]
        let ids = range.start as u32..range.end as u32;
        ids.map(PackageId)
    }

    /// The version that is taken where nothing speaks against it.
    pub fn candidate(&self, name: &str) -> Option<PackageId> {
        self.named(name).next()
    }

    /// Packages that provide a name, and which of their provides it is.
    pub(super) fn providing<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (PackageId, u32)> + 'a {
        found(&self.provides, name).filter(move |(id, at)| {
            self.packages[id.index()].provides.get(*at as usize).is_some_and(|provide| &*provide.name == name)
        })
    }

    /// Packages that have a path.
    pub(super) fn having<'a>(&'a self, path: &'a str) -> impl Iterator<Item = PackageId> + 'a {
        let has = move |(id, at): &(PackageId, u32)| {
            self.packages[id.index()].files.get(*at as usize).is_some_and(|file| &**file == path)
        };
        found(&self.files, path).filter(has).map(|(id, _)| id)
    }

    /// Packages that make others obsolete.
    pub(super) fn obsoleting(&self) -> &[PackageId] {
        &self.obsoletes
    }

    /// Names of packages and of what they provide that are near to what was written, the nearest first.
    pub fn near(&self, name: &str) -> Vec<&str> {
        let mut names: BTreeSet<&str> = self.packages.iter().map(|package| &*package.name).collect();
        names.extend(self.packages.iter().flat_map(|package| package.provides.iter().map(|provide| &*provide.name)));
        let mut near: Vec<(usize, &str)> = names
            .into_iter()
            .filter(|other| other.len().abs_diff(name.len()) <= 2)
            .map(|other| (strsim::osa_distance(name, other), other))
            .filter(|(distance, _)| *distance <= 1 + name.len() / 5)
            .collect();
        near.sort_unstable();
        near.truncate(3);
        near.into_iter().map(|(_, other)| other).collect()
    }

    fn range(&self, name: &str) -> Range<usize> {
        let start = self.packages.partition_point(|package| &*package.name < name);
        let len = self.packages[start..].partition_point(|package| &*package.name == name);
        start..start + len
    }
}

/// Whether a package makes others obsolete, without parsing all that it says.
fn makes_obsolete(relations: &Deferred) -> bool {
    match relations {
        Deferred::Ready(relations) => !relations.obsoletes.is_empty(),
        Deferred::Rpm(lines) => lines.lines().any(|line| line.starts_with('O')),
        Deferred::Deb { .. } => false,
    }
}

fn found<'a>(entries: &'a [Entry], text: &str) -> impl Iterator<Item = (PackageId, u32)> + use<'a> {
    let wanted = hash(text);
    let start = entries.partition_point(|(hash, _, _)| *hash < wanted);
    entries[start..].iter().take_while(move |(hash, _, _)| *hash == wanted).map(|&(_, id, at)| (id, at))
}

/// Of two packages of one name the better one first. What follows the versions only makes the order total.
fn better(family: Family, repos: &[Repo], one: &Package, other: &Package) -> Ordering {
    let priority = |RepoId(repo)| repos.get(usize::from(repo)).map(|repo: &Repo| repo.priority);
    priority(other.repo)
        .cmp(&priority(one.repo))
        .then_with(|| compare(family, &other.version, &one.version))
        // A package of the architecture itself before one of all: libsolv's prune_to_best_arch.
        .then_with(|| (&*one.arch == family.any_arch()).cmp(&(&*other.arch == family.any_arch())))
        .then_with(|| one.repo.cmp(&other.repo))
        .then_with(|| one.version.cmp(&other.version))
        .then_with(|| one.location.cmp(&other.location))
        .then_with(|| one.digest.cmp(&other.digest))
}
