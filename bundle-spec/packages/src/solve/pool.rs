//! All packages that may be chosen, found by name, by what they provide and by path.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::OnceLock;

use kubexm_spec::Family;

use crate::deb::listing::{Listing, Sought};
use crate::family::compare;
use crate::model::{Deferred, Package, RepoId};
use crate::name::{NameHash, hash};

use super::order::{self, Listed, Ranked};

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
    slots: Vec<Slot>,
    listings: Vec<(RepoId, Listing)>,
    provides: Vec<Entry>,
    files: Vec<Entry>,
    obsoletes: Vec<PackageId>,
}

/// A package, or where it is listed until somebody asks for it.
#[derive(Debug)]
struct Slot {
    listed: Listed,
    made: OnceLock<Box<Package>>,
}

/// One provided name or path: hash of the text, package, place in the package's list.
type Entry = (NameHash, PackageId, u32);

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
        let slot = |package| Slot { listed: Listed(0, 0), made: OnceLock::from(Box::new(package)) };
        let slots = packages.into_iter().map(slot).collect();
        Self { family, arch: arch.into(), repos, slots, listings: Vec::new(), provides, files, obsoletes }
    }

    /// Of Debian's listings, which are for `arch`: the same pool as of their packages, but each is created on first
    /// use.
    /// A listing of no known repository is left out.
    pub fn of_listings(arch: &str, repos: Vec<Repo>, mut listings: Vec<(RepoId, Listing)>) -> Self {
        let family = Family::Deb;
        listings.retain(|(repo, listing)| usize::from(repo.0) < repos.len() && listing.arch() == arch);
        let order = order::of(&listings, |one, other| rank(family, &repos, one, other));
        let (mut provides, mut slots) = (Vec::new(), Vec::with_capacity(order.len()));
        for (id, listed) in (0..).map(PackageId).zip(order) {
            let (_, listing) = &listings[listed.0 as usize];
            provides.extend((0..).zip(listing.provided(listed.1)).map(|(at, hash)| (*hash, id, at)));
            slots.push(Slot { listed, made: OnceLock::new() });
        }
        provides.sort_unstable();
        let (files, obsoletes) = (Vec::new(), Vec::new());
        Self { family, arch: arch.into(), repos, slots, listings, provides, files, obsoletes }
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

    /// How many packages there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// All packages, by name; of one name the better one first. Those not used yet are created on the way.
    pub fn packages(&self) -> impl ExactSizeIterator<Item = &Package> {
        self.slots.iter().map(|slot| self.made(slot))
    }

    /// The package of an id that this pool gave.
    ///
    /// # Panics
    /// When the id is another pool's and beyond this one's end.
    pub fn package(&self, id: PackageId) -> &Package {
        self.made(&self.slots[id.index()])
    }

    fn made<'a>(&'a self, slot: &'a Slot) -> &'a Package {
        slot.made.get_or_init(|| {
            let (repo, listing) = &self.listings[slot.listed.0 as usize];
            Box::new(listing.package(slot.listed.1, *repo))
        })
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
            self.package(*id).provides.get(*at as usize).is_some_and(|provide| &*provide.name == name)
        })
    }

    /// Packages that have a path.
    pub(super) fn having<'a>(&'a self, path: &'a str) -> impl Iterator<Item = PackageId> + 'a {
        let has = move |(id, at): &(PackageId, u32)| {
            self.package(*id).files.get(*at as usize).is_some_and(|file| &**file == path)
        };
        found(&self.files, path).filter(has).map(|(id, _)| id)
    }

    /// Packages that make others obsolete.
    pub(super) fn obsoleting(&self) -> &[PackageId] {
        &self.obsoletes
    }

    /// Names of packages and of what they provide that are near to what was written, the nearest first.
    pub fn near(&self, name: &str) -> Vec<&str> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for package in self.packages() {
            names.insert(&package.name);
            names.extend(package.provides.iter().map(|provide| &*provide.name));
        }
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
        let sought = Sought::new(name);
        let order = |slot: &Slot| match slot.made.get() {
            Some(package) => (*package.name).cmp(name),
            None => self.listings[slot.listed.0 as usize].1.compare_name(slot.listed.1, &sought),
        };
        let start = self.slots.partition_point(|slot| order(slot).is_lt());
        let len = self.slots[start..].partition_point(|slot| order(slot).is_eq());
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
    rank(family, repos, &ranked(family, one), &ranked(family, other))
        .then_with(|| one.location.cmp(&other.location))
        .then_with(|| one.digest.cmp(&other.digest))
}

fn ranked(family: Family, package: &Package) -> Ranked<'_> {
    Ranked { repo: package.repo, version: &package.version, any_arch: &*package.arch == family.any_arch() }
}

fn rank(family: Family, repos: &[Repo], one: &Ranked<'_>, other: &Ranked<'_>) -> Ordering {
    let priority = |RepoId(repo)| repos.get(usize::from(repo)).map(|repo: &Repo| repo.priority);
    priority(other.repo)
        .cmp(&priority(one.repo))
        .then_with(|| compare(family, other.version, one.version))
        // A package of the architecture itself before one of all: libsolv's prune_to_best_arch.
        .then_with(|| one.any_arch.cmp(&other.any_arch))
        .then_with(|| one.repo.cmp(&other.repo))
        .then_with(|| one.version.cmp(other.version))
}
