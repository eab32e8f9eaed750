//! The words that both families share.
//!
//! Names and versions stay texts as the repository writes them; they are compared by the rules of their family ([`crate::family::compare`]).

use std::cmp::Ordering;
use std::fmt;

use kubexm_spec::Digest;

/// Which repository of a [`crate::solve::Pool`] a package is from: its place in the pool's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoId(pub u16);

/// One package of one repository, as its index describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// `conntrack`.
    pub name: Box<str>,
    /// With epoch and revision, as the family writes it: `1:1.4.7-1+b2`, `0:1.4.7-2.el9` (rpm's epoch 0 is left out).
    pub version: Box<str>,
    /// In the distribution's own words: `amd64`, `all`, `x86_64`, `noarch`, `i686`.
    pub arch: Box<str>,
    pub repo: RepoId,
    /// Below the repository's base address: `pool/main/c/conntrack-tools/conntrack_1.4.7-1+b2_amd64.deb`. A whole address where an index
    /// of rpm's family names another base.
    pub location: Box<str>,
    /// Of the file, in bytes.
    pub size: u64,
    /// Of the file.
    pub digest: Digest,
    /// Of what is unpacked, in bytes; 0 where the index does not say.
    pub installed_size: u64,
    /// What it is besides its own name. Its own name and version are not listed (rpm lists them; the reader leaves them out).
    pub provides: Vec<Provide>,
    /// Paths that an index lists (rpm's primary: what lies under `bin/` and `/etc`; all, once filelists are read).
    pub files: Vec<Box<str>>,
    /// Debian's `Multi-Arch`; [`MultiArch::No`] in the other family.
    pub multi_arch: MultiArch,
    /// rpm's module stream it belongs to (`container-tools:rhel8`); none outside modules.
    pub module: Option<Box<str>>,
    /// Debian's `Essential: yes`, or what is taken as installed everywhere.
    pub essential: bool,
    /// Debian's priority (`required`, `important`, `standard`, `optional`, `extra`) as 0–4; 3 where it does not say.
    pub priority: u8,
    /// What it needs and what it cannot stand, read when it is looked at.
    pub relations: Deferred,
}

/// Debian's `Multi-Arch` field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MultiArch {
    /// Satisfies its own architecture only.
    #[default]
    No,
    /// May be installed for several architectures.
    Same,
    /// Satisfies any architecture.
    Foreign,
    /// Those that need it say with `:any` whether any architecture will do.
    Allowed,
}

/// Something a package is besides its name: `mail-transport-agent`, `libc.so.6(GLIBC_2.4)(64bit)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provide {
    /// The name.
    pub name: Box<str>,
    /// In which version; none satisfies no versioned requirement in Debian's family, and any in rpm's.
    pub version: Option<(Comparison, Box<str>)>,
}

/// How versions are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `<<` in Debian's words, `<` in rpm's.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `=`.
    Equal,
    /// `>=`.
    GreaterOrEqual,
    /// `>>` or `>`.
    Greater,
}

impl Comparison {
    /// Whether `found` is in this relation to what is wanted, given their order.
    pub const fn holds(self, found_to_wanted: Ordering) -> bool {
        match self {
            Self::Less => found_to_wanted.is_lt(),
            Self::LessOrEqual => found_to_wanted.is_le(),
            Self::Equal => found_to_wanted.is_eq(),
            Self::GreaterOrEqual => found_to_wanted.is_ge(),
            Self::Greater => found_to_wanted.is_gt(),
        }
    }
}

/// A package or capability by name, in some versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Constraint {
    /// A package's name, a capability, or (rpm) a path.
    pub name: Box<str>,
    /// Which architecture's.
    pub arch: ArchWanted,
    /// In which versions; any when none.
    pub version: Option<(Comparison, Box<str>)>,
}

/// Debian's qualifier of a relation (`python3:any`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ArchWanted {
    /// None written: the architecture of who needs it.
    #[default]
    Own,
    /// `:any`: `Multi-Arch: allowed` of any architecture.
    Any,
    /// `:any` of a conflict: any architecture, whatever its `Multi-Arch`.
    Every,
    /// `:native`: that of the system.
    Native,
    /// `:amd64`.
    Named(Box<str>),
}

/// What must hold of the installed set. Debian writes alternatives, rpm boolean dependencies (rpm's boolean_dependencies).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Something that satisfies it is there.
    One(Constraint),
    /// All hold: rpm's `and`.
    All(Vec<Requirement>),
    /// One of them holds, the first is preferred: Debian's `|`, rpm's `or`.
    Any(Vec<Requirement>),
    /// `(then if condition else otherwise)`; without `otherwise` it holds where the condition does not.
    If {
        condition: Box<Requirement>,
        /// What must hold then.
        then: Box<Requirement>,
        /// What must hold else.
        otherwise: Option<Box<Requirement>>,
    },
    /// `(then unless condition else otherwise)`: `then` and not `condition`, or `otherwise` and `condition`. Without `otherwise`
    /// it does not hold where the condition does (libsolv's `REL_UNLESS`).
    Unless {
        condition: Box<Requirement>,
        /// What must hold where the condition does not.
        then: Box<Requirement>,
        /// What must hold where it does.
        otherwise: Option<Box<Requirement>>,
    },
    /// One and the same package satisfies all: rpm's `with`.
    With(Vec<Requirement>),
    /// One package satisfies the first and not the second: rpm's `without`.
    Without(Box<Requirement>, Box<Requirement>),
}

/// What a package needs and what it cannot stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relations {
    /// `Pre-Depends` before `Depends`; rpm's `Requires` in the order of the index, without `rpmlib(…)`.
    pub requires: Vec<Requirement>,
    /// Debian's `Conflicts` and `Breaks`, rpm's `Conflicts` (which may be boolean).
    pub conflicts: Vec<Requirement>,
    /// rpm's `Obsoletes`: by name of the package, never by what it provides. Empty in Debian's family (`Replaces` is about
    /// files).
    pub obsoletes: Vec<Constraint>,
}

impl Relations {
    /// How many packages and capabilities they name, each as often as it is named.
    pub fn count(&self) -> usize {
        let all = self.requires.iter().chain(&self.conflicts);
        all.map(Requirement::count).sum::<usize>() + self.obsoletes.len()
    }
}

impl Requirement {
    fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::All(all) | Self::Any(all) | Self::With(all) => all.iter().map(Self::count).sum(),
            Self::If { condition, then, otherwise } | Self::Unless { condition, then, otherwise } => {
                condition.count() + then.count() + otherwise.as_ref().map_or(0, |one| one.count())
            }
            Self::Without(one, other) => one.count() + other.count(),
        }
    }
}

/// Relations as they stand in an index, parsed when they are asked for: of sixty thousand packages a solve looks at hundreds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deferred {
    /// Parsed already.
    Ready(Box<Relations>),
    /// Debian's fields, unparsed; empty where the field is absent.
    Deb {
        /// `Pre-Depends`.
        pre_depends: Box<str>,
        /// `Depends`.
        depends: Box<str>,
        /// `Conflicts`.
        conflicts: Box<str>,
        /// `Breaks`.
        breaks: Box<str>,
    },
    /// rpm's dependencies, as [`crate::rpm::dependency::Lines`] writes them.
    Rpm(Box<str>),
}

/// A relation that does not follow its family's grammar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a relation between packages: {why}")]
pub struct RelationError {
    /// As written, cut to a readable length.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

/// `conntrack 1:1.4.7-1+b2 amd64`.
impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, self.version, self.arch)
    }
}
