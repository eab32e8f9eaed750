//! From roots to the set of packages that they need, and why each is in it.
//!
//! First greedily, in the way of the family's own tool: apt's depth first, libsolv's by what is forced before what is a choice.
//! Whatever comes out is verified. Only where that fails, or where a boolean dependency leaves a choice that greed cannot make, a
//! SAT solver looks at the same model; and where there is no answer its conflict is reported in sentences.

mod asked;
mod baseline;
mod closure;
mod depth;
mod explain;
mod forced;
mod formula;
mod kept;
mod lacking;
mod limits;
mod node_plan;
mod order;
mod pool;
mod reasons;
mod sat;
mod sat_model;
mod satisfy;
mod selection;
mod universe;
mod unsolvable;
mod verify;
mod why;
mod words;

use std::fmt;

pub use baseline::{Baseline, CutOff};
pub use closure::solve;
pub use lacking::left_lacking;
pub use node_plan::{NodePlan, PackageState, node_plan, node_upgrade};
pub use pool::{PackageId, Pool, Repo};
pub use unsolvable::{Reason, Unsolvable};
pub use why::{Why, why};

use crate::model::Comparison;

/// Something that must be there: a package, or what a package provides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Root {
    /// `socat`, `iptables-nft`, and in rpm's family `/usr/sbin/conntrack` too.
    pub name: Box<str>,
    /// In which versions; any when none.
    pub version: Option<(Comparison, Box<str>)>,
}

impl Root {
    /// Any version.
    pub fn named(name: impl Into<Box<str>>) -> Self {
        Self { name: name.into(), version: None }
    }
}

/// What is needed for some roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closure {
    /// What has to be installed, by name; what a baseline has already is not in it.
    pub packages: Vec<Chosen>,
    /// Paths that something needs and no package is known to have. Where the repositories have lists of files that have not been
    /// read yet (rpm's filelists), the answer may be another one with them.
    pub needs_files: Vec<Box<str>>,
}

/// A package that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub package: PackageId,
    /// What it takes the place of, where a baseline has an older version.
    pub replaces: Option<Box<str>>,
    pub because: Because,
}

/// Why a package is needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Because {
    /// It was asked for.
    Root(Box<str>),
    /// Another package needs it.
    Needed {
        /// Its name; another package of the closure or of the baseline.
        by: Box<str>,
        /// In its family's words: `libwrap0 (>= 7.6-4~)`.
        wants: Box<str>,
    },
    /// Its installed version needs something that goes with an upgrade.
    InStep {
        /// In its family's words: `libxtables12 (= 1.8.9-2)`.
        wants: Box<str>,
    },
}

/// `asked for` or `socat needs libwrap0 (>= 7.6-4~)`.
impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(_) => f.write_str("asked for"),
            Self::Needed { by, wants } => write!(f, "{by} needs {wants}"),
            Self::InStep { wants } => write!(f, "its installed version needs {wants}, which is upgraded"),
        }
    }
}
