//! One solve's view: what may be chosen, what is installed, and the relations of those that were looked at.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use kubexm_spec::Family;

use super::limits::Limits;
use super::satisfy::{by_arch, by_name, by_provide};
use super::{Baseline, PackageId, Pool, Root, words};
use crate::family::compare;
use crate::model::{ArchWanted, Comparison, Constraint, MultiArch, Package, Provide, Relations, Requirement};

/// How many comparisons a relation counts as that is kept: it takes some 100 bytes of memory, and a few bytes may say it.
const KEPT: usize = 100;
/// How many comparisons a line of what is installed counts as: each is sorted or looked up by its name once.
const LINE: usize = 10;
/// So many bytes of a version are as quick to look at as the rest of a comparison.
const QUICK: usize = 64;

/// The pool's packages and, with ids after theirs, the installed ones.
pub(super) struct Universe<'a> {
    pub(super) pool: &'a Pool,
    installed: Vec<&'a Package>,
    held: &'a BTreeSet<Box<str>>,
    /// Places in `installed` by name.
    by_name: HashMap<&'a str, Vec<PackageId>>,
    by_provide: HashMap<&'a str, Vec<PackageId>>,
    by_file: HashMap<&'a str, Vec<PackageId>>,
    relations: RefCell<HashMap<PackageId, Option<Rc<Relations>>>>,
    /// Packages whose relations cannot be parsed, and why.
    unreadable: RefCell<HashMap<PackageId, String>>,
    /// Paths that were looked for and not found.
    no_file: RefCell<BTreeSet<Box<str>>>,
    pub(super) limits: Limits,
    /// Comparisons that are left.
    left: Cell<u64>,
}

impl<'a> Universe<'a> {
    /// For questions about packages that are chosen or installed already: few, and the answer must be right.
    pub(super) fn new(pool: &'a Pool, baseline: &'a Baseline) -> Self {
        Self::within(Limits { comparisons: u64::MAX, ..Limits::default() }, pool, baseline)
    }

    pub(super) fn within(limits: Limits, pool: &'a Pool, baseline: &'a Baseline) -> Self {
        let mut installed: Vec<&Package> = baseline.packages.iter().collect();
        installed.sort_by(|one, other| {
            (&one.name, &one.arch, &one.version).cmp(&(&other.name, &other.arch, &other.version))
        });
        let mut universe = Self {
            pool,
            installed,
            held: &baseline.held,
            by_name: HashMap::new(),
            by_provide: HashMap::new(),
            by_file: HashMap::new(),
            relations: RefCell::default(),
            unreadable: RefCell::default(),
            no_file: RefCell::default(),
            limits,
            left: Cell::new(limits.comparisons),
        };
        for id in universe.installed() {
            let package = universe.installed[id.index() - pool.len()];
            universe.spend((1 + package.provides.len() + package.files.len()).saturating_mul(LINE));
            universe.by_name.entry(&package.name).or_default().push(id);
            for provide in &package.provides {
                universe.by_provide.entry(&provide.name).or_default().push(id);
            }
            for file in &package.files {
                universe.by_file.entry(file).or_default().push(id);
            }
        }
        universe
    }

    /// Counts comparisons.
    pub(super) fn spend(&self, steps: usize) {
        self.left.set(self.left.get().saturating_sub(steps as u64));
    }

    /// Counts something that a few bytes say and that is kept.
    pub(super) fn keep(&self) {
        self.spend(KEPT);
    }

    /// How many comparisons there have been.
    pub(super) fn spent(&self) -> u64 {
        self.limits.comparisons - self.left.get()
    }

    /// Whether all comparisons of a solve are used up: what came so far is no answer. From then on nothing satisfies anything, so that
    /// what is left of a long list costs nothing.
    pub(super) fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// The reason to give up.
    pub(super) fn too_many_comparisons(&self) -> Box<str> {
        format!(
            "packages were compared {} times without an answer: the repositories have packages that need each other in more ways \
             than any vendor's; use another mirror",
            self.limits.comparisons
        )
        .into()
    }

    pub(super) fn family(&self) -> Family {
        self.pool.family()
    }

    /// How many ids there are.
    pub(super) fn len(&self) -> usize {
        self.pool.len() + self.installed.len()
    }

    #[expect(clippy::cast_possible_truncation, reason = "a pool has no more than u32::MAX packages")]
    pub(super) fn installed(&self) -> impl Iterator<Item = PackageId> + use<> {
        (self.pool.len() as u32..self.len() as u32).map(PackageId)
    }

    pub(super) fn is_installed(&self, id: PackageId) -> bool {
        id.index() >= self.pool.len()
    }

    pub(super) fn package(&self, id: PackageId) -> &'a Package {
        match id.index().checked_sub(self.pool.len()) {
            Some(at) => self.installed[at],
            None => self.pool.package(id),
        }
    }

    /// `socat 1.7.4.4-2`.
    pub(super) fn shown(&self, id: PackageId) -> Box<str> {
        let package = self.package(id);
        format!("{} {}", package.name, package.version).into()
    }

    /// Two packages of one slot cannot be there at once: the name, and for what is installed of foreign architectures that too.
    pub(super) fn slot(&self, id: PackageId) -> (&'a str, &'a str) {
        let package = self.package(id);
        (&package.name, if self.is_foreign(id) { &package.arch } else { "" })
    }

    fn is_foreign(&self, id: PackageId) -> bool {
        let arch = &*self.package(id).arch;
        self.is_installed(id) && arch != self.pool.arch() && arch != self.family().any_arch()
    }

    /// The installed package of a name and of our architecture; the newest where there are several (rpm's kernels).
    pub(super) fn installed_as(&self, name: &str) -> Option<PackageId> {
        let own = self.by_name.get(name)?.iter().copied().filter(|id| !self.is_foreign(*id));
        own.max_by(|one, other| compare(self.family(), &self.package(*one).version, &self.package(*other).version))
    }

    /// Whether a package of the pool may be chosen: it is readable, and no step back or beside for what is installed.
    pub(super) fn may_be_chosen(&self, id: PackageId) -> bool {
        if self.relations(id).is_none() {
            return false;
        }
        if self.is_installed(id) {
            return true;
        }
        let package = self.package(id);
        // Held at its version, or excluded though it is not there (rpm's family).
        if self.held.contains(&package.name) {
            return false;
        }
        let no_newer =
            |installed: PackageId| compare(self.family(), &package.version, &self.package(installed).version).is_le();
        // Packages that may be installed for several architectures at once must have one version in all of them.
        let out_of_step = |other: &PackageId| {
            let other_package = self.package(*other);
            self.is_foreign(*other)
                && package.multi_arch == MultiArch::Same
                && other_package.multi_arch == MultiArch::Same
                && other_package.version != package.version
        };
        !self.installed_as(&package.name).is_some_and(no_newer)
            && !self.by_name.get(&*package.name).is_some_and(|all| all.iter().any(out_of_step))
    }

    /// The versions of a name that may be there, the better one first; what is installed before all.
    pub(super) fn versions(&self, name: &str) -> Vec<PackageId> {
        let of_pool = self.pool.named(name).filter(|id| {
            self.spend(1);
            self.may_be_chosen(*id)
        });
        self.installed_as(name).into_iter().chain(of_pool).collect()
    }

    /// The one version of a name that is taken where nothing speaks against it, or to which what is installed would be upgraded.
    pub(super) fn is_candidate(&self, id: PackageId) -> bool {
        let may_be = |other: &PackageId| {
            self.spend(1);
            self.is_spent() || self.may_be_chosen(*other)
        };
        !self.is_installed(id)
            && self.may_be_chosen(id)
            && self.pool.named(&self.package(id).name).find(may_be) == Some(id)
    }

    /// What a package needs and cannot stand; none where it cannot be read.
    pub(super) fn relations(&self, id: PackageId) -> Option<Rc<Relations>> {
        if let Some(known) = self.relations.borrow().get(&id) {
            return known.clone();
        }
        let read = match self.package(id).relations() {
            Ok(relations) => {
                self.spend(relations.count().saturating_mul(KEPT));
                Some(Rc::new(relations))
            }
            // What is installed is there, whatever we think of its words.
            Err(_) if self.is_installed(id) => Some(Rc::default()),
            Err(error) => {
                self.unreadable.borrow_mut().insert(id, error.to_string());
                None
            }
        };
        self.relations.borrow_mut().insert(id, read.clone());
        read
    }

    pub(super) fn unreadable(&self, id: PackageId) -> Option<String> {
        self.unreadable.borrow().get(&id).cloned()
    }

    /// Whether it is called so, in such a version.
    pub(super) fn is_named(&self, id: PackageId, wanted: &Constraint) -> bool {
        self.spend(more(wanted.version.as_ref()));
        by_name(self.family(), self.package(id), wanted)
    }

    /// Whether this package satisfies it.
    pub(super) fn satisfies(&self, id: PackageId, wanted: &Constraint) -> bool {
        let (family, package) = (self.family(), self.package(id));
        self.spend(1);
        if self.is_spent() || !by_arch(family, self.pool.arch(), package, wanted) {
            return false;
        }
        if self.is_named(id, wanted) {
            return true;
        }
        self.spend(package.provides.len());
        let provides = |one: &Provide| {
            one.name == wanted.name && !self.is_spent() && {
                self.spend(more(wanted.version.as_ref()) + more(one.version.as_ref()));
                by_provide(family, one, wanted)
            }
        };
        if package.provides.iter().any(provides) {
            return true;
        }
        if !wanted.name.starts_with('/') {
            return false;
        }
        self.spend(package.files.len());
        package.files.contains(&wanted.name)
    }

    /// Whether one of the things that this package provides satisfies it, by its place: what else it provides is not looked at.
    fn provide_satisfies(&self, (id, at): (PackageId, u32), wanted: &Constraint) -> bool {
        let (family, package) = (self.family(), self.package(id));
        let provide = package.provides.get(at as usize);
        self.spend(1 + more(wanted.version.as_ref()) + more(provide.and_then(|provide| provide.version.as_ref())));
        !self.is_spent()
            && by_arch(family, self.pool.arch(), package, wanted)
            && provide.is_some_and(|provide| by_provide(family, provide, wanted))
    }

    /// All that satisfy it, whether they may be chosen or not, the preferred first: with apt by their own name,
    /// then by priority and name; with libsolv by name.
    pub(super) fn satisfying(&self, wanted: &Constraint) -> Vec<PackageId> {
        // A name that nothing has is looked up all the same.
        self.spend(1);
        if self.is_spent() {
            return Vec::new();
        }
        let name = &*wanted.name;
        let fits = |id: &PackageId| self.satisfies(*id, wanted);
        let mut all: Vec<PackageId> = self.pool.named(name).filter(fits).collect();
        all.extend(self.by_name.get(name).into_iter().flatten().copied().filter(fits));
        let by_name = all.len();
        all.extend(self.pool.providing(name).filter(|found| self.provide_satisfies(*found, wanted)).map(|(id, _)| id));
        all.extend(self.by_provide.get(name).into_iter().flatten().copied().filter(fits));
        if name.starts_with('/') {
            all.extend(self.pool.having(name).filter(fits));
            all.extend(self.by_file.get(name).into_iter().flatten().copied().filter(fits));
            if all.is_empty() {
                self.no_file.borrow_mut().insert(wanted.name.clone());
            }
        }
        if self.family() == Family::Rpm {
            // libsolv does not care whether a package is called what it provides.
            all.sort_unstable();
            all.dedup();
            return all;
        }
        let mut named = all[..by_name].to_vec();
        named.sort_unstable();
        let mut others = all.split_off(by_name);
        others.sort_unstable();
        others.dedup();
        others.retain(|id| named.binary_search(id).is_err());
        others.sort_by_key(|id| (!self.package(*id).essential, self.package(*id).priority));
        all.extend(others);
        all
    }

    /// A package that would satisfy it but for its architecture or its `Multi-Arch`, and what it is instead.
    pub(super) fn of_wrong_arch(&self, wanted: &Constraint) -> Option<(Box<str>, Box<str>)> {
        let unqualified = Constraint { arch: ArchWanted::Own, ..wanted.clone() };
        let wrong = self.satisfying(&unqualified).into_iter().find(|id| !self.satisfies(*id, wanted))?;
        let is = match &wanted.arch {
            ArchWanted::Any => "its Multi-Arch is not `allowed`, as `:any` wants".into(),
            _ => format!("it is of {}", self.package(wrong).arch).into(),
        };
        Some((self.shown(wrong), is))
    }

    /// Packages that by themselves make it true, where it is about one package; none where several must act together.
    pub(super) fn single(&self, wanted: &Requirement) -> Option<Vec<PackageId>> {
        Some(match wanted {
            Requirement::One(one) => self.satisfying(one),
            Requirement::Any(all) => {
                let (mut found, mut seen) = (Vec::new(), HashSet::new());
                for one in all {
                    found.extend(self.single(one)?.into_iter().filter(|id| seen.insert(*id)));
                }
                found
            }
            Requirement::With(all) => {
                let mut sets = all.iter().map(|one| self.single(one));
                let mut found = sets.next().flatten()?;
                for set in sets {
                    let set: HashSet<PackageId> = set?.into_iter().collect();
                    found.retain(|id| set.contains(id));
                }
                found
            }
            Requirement::Without(one, other) => {
                let mut found = self.single(one)?;
                let not: HashSet<PackageId> = self.single(other)?.into_iter().collect();
                found.retain(|id| !not.contains(id));
                found
            }
            Requirement::All(all) => match all.as_slice() {
                [one] => self.single(one)?,
                _ => return None,
            },
            Requirement::If { .. } | Requirement::Unless { .. } => return None,
        })
    }

    /// Paths that were looked for and that no package has.
    pub(super) fn needs_files(&self) -> Vec<Box<str>> {
        self.no_file.borrow().iter().cloned().collect()
    }

    pub(super) fn wanted_by(root: &Root) -> Requirement {
        Requirement::One(Constraint { name: root.name.clone(), arch: ArchWanted::Own, version: root.version.clone() })
    }

    pub(super) fn words(&self, wanted: &Requirement) -> Box<str> {
        words::requirement(self.family(), wanted).into()
    }
}

/// What the length of a version adds to a comparison.
fn more(version: Option<&(Comparison, Box<str>)>) -> usize {
    version.map_or(0, |(_, version)| version.len() / QUICK)
}
