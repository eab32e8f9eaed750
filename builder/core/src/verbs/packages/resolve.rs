//! Which packages another operating system needs for some roots, from where, and why each.

use kubexm_packages::solve::{Because, Chosen, Pool, Root, Unsolvable};
use kubexm_spec::{Digest, ExitCode};
use serde::Serialize;
use tokio::runtime::Handle;

use crate::session::{Answered, Query, Session, SessionError};

/// The answer.
#[derive(Debug, Serialize)]
pub struct Resolved {
    schema: &'static str,
    pub os: &'static str,
    pub arch: &'static str,
    pub repositories: Vec<Repository>,
    pub notes: Vec<String>,
    pub solvable: bool,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The packages, or why there is no such set.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// `size` is of all files, in bytes.
    Solved {
        size: u64,
        packages: Vec<Package>,
    },
    Unsolvable {
        reasons: Vec<String>,
    },
}

/// The state of a repository that was read.
#[derive(Debug, Serialize)]
pub struct Repository {
    pub id: String,
    /// Of the signed file.
    pub digest: Digest,
    /// When the vendor made it, in seconds of Unix time.
    pub date: Option<i64>,
    pub signed: bool,
    /// Nobody signed it, it came over plain http, and the user accepts that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub trust_unsigned: bool,
}

/// A package that is needed.
#[derive(Debug, Serialize)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub arch: String,
    pub url: String,
    /// In bytes.
    pub size: u64,
    pub sha256: String,
    pub repository: Option<String>,
    pub module: Option<String>,
    pub because: Reason,
    /// What it takes the place of.
    pub replaces: Option<String>,
    /// The reason for people.
    #[serde(skip)]
    pub why: String,
}

/// Why a package is needed.
#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Reason {
    /// It was asked for.
    Root {
        root: String,
    },
    Needed {
        needed_by: String,
        wants: String,
    },
    /// Its installed version needs something that goes with an upgrade.
    InStep {
        in_step_with: String,
    },
}

/// Reads the repositories and solves.
pub fn resolve(session: &Session, query: &Query, roots: &[Root], runtime: &Handle) -> Result<Resolved, SessionError> {
    let Answered { profile, pool, snapshots, closure, notes } = runtime.block_on(session.packages(query, roots))?;
    let solvable = closure.is_ok();
    let outcome = match closure {
        Ok(closure) => {
            // What an index that nobody signs says of sizes may be anything.
            let sizes = closure.packages.iter().map(|chosen| pool.package(chosen.package).size);
            let size = sizes.fold(0, u64::saturating_add);
            Outcome::Solved { size, packages: closure.packages.iter().map(|chosen| package(&pool, chosen)).collect() }
        }
        Err(unsolvable) => Outcome::Unsolvable { reasons: reasons(&unsolvable) },
    };
    let repositories = snapshots.into_iter().map(|one| Repository {
        id: one.repository,
        digest: one.digest,
        date: one.date,
        signed: one.signed,
        trust_unsigned: one.trust_unsigned,
    });
    Ok(Resolved {
        schema: "kubexm.io/packages-resolve/v1",
        os: &profile.name,
        arch: query.arch.as_str(),
        repositories: repositories.collect(),
        notes,
        solvable,
        outcome,
    })
}

impl Resolved {
    /// How a program ends on it.
    pub const fn code(&self) -> ExitCode {
        if self.solvable { ExitCode::Ok } else { ExitCode::NoSource }
    }
}

fn package(pool: &Pool, chosen: &Chosen) -> Package {
    let package = pool.package(chosen.package);
    Package {
        name: package.name.to_string(),
        version: package.version.to_string(),
        arch: package.arch.to_string(),
        url: pool.url(package).to_string(),
        size: package.size,
        sha256: package.digest.hex(),
        repository: pool.repo(package).map(|repo| repo.id.to_string()),
        module: package.module.as_ref().map(ToString::to_string),
        because: reason(&chosen.because),
        replaces: chosen.replaces.as_ref().map(ToString::to_string),
        why: chosen.because.to_string(),
    }
}

/// Why there is no answer.
pub(super) fn reasons(unsolvable: &Unsolvable) -> Vec<String> {
    unsolvable.reasons.iter().map(ToString::to_string).collect()
}

pub(super) fn reason(because: &Because) -> Reason {
    match because {
        Because::Root(root) => Reason::Root { root: root.to_string() },
        Because::Needed { by, wants } => Reason::Needed { needed_by: by.to_string(), wants: wants.to_string() },
        Because::InStep { wants } => Reason::InStep { in_step_with: wants.to_string() },
    }
}
