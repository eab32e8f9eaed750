//! Why a package is needed for some roots.

use kubexm_packages::solve::{Root, why as of_closure};
use kubexm_spec::ExitCode;
use serde::Serialize;
use tokio::runtime::Handle;

use super::resolve::{Reason, reason, reasons};
use crate::session::{Answered, Query, Session, SessionError};

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    schema: &'static str,
    pub os: &'static str,
    pub arch: &'static str,
    /// As it was asked.
    pub package: String,
    pub solvable: bool,
    #[serde(rename = "in")]
    pub is_in: bool,
    /// Why no set of packages will do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<String>>,
    #[serde(flatten)]
    pub found: Option<Found>,
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Packages that are needed, by number.
    #[serde(skip)]
    pub count: usize,
}

/// A package that is needed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    pub version: Option<String>,
    /// From what was asked for to the package itself.
    pub chain: Vec<Link>,
    pub needed_by: Vec<Need>,
}

/// A package on the way, and why it is needed.
#[derive(Debug, Serialize)]
pub struct Link {
    pub name: String,
    pub because: Reason,
    /// Name, version and architecture.
    #[serde(skip)]
    pub package: String,
    /// The reason for people.
    #[serde(skip)]
    pub why: String,
}

/// A package that needs it, and in which words.
#[derive(Debug, Serialize)]
pub struct Need {
    pub name: String,
    pub wants: String,
}

/// Reads the repositories, solves, and looks for the package.
pub fn why(
    session: &Session,
    query: &Query,
    package: &str,
    roots: &[Root],
    runtime: &Handle,
) -> Result<Why, SessionError> {
    let Answered { profile, pool, closure, notes, .. } = runtime.block_on(session.packages(query, roots))?;
    let name = |id| pool.package(id).name.to_string();
    let found = closure.as_ref().ok().and_then(|closure| of_closure(&pool, closure, package)).map(|found| Found {
        version: found.chain.last().map(|one| pool.package(one.package).version.to_string()),
        chain: found
            .chain
            .iter()
            .map(|one| Link {
                name: name(one.package),
                because: reason(&one.because),
                package: pool.package(one.package).to_string(),
                why: one.because.to_string(),
            })
            .collect(),
        needed_by: found
            .needed_by
            .iter()
            .map(|(by, wants)| Need { name: name(*by), wants: wants.to_string() })
            .collect(),
    });
    Ok(Why {
        schema: "kubexm.io/packages-why/v1",
        os: &profile.name,
        arch: query.arch.as_str(),
        package: package.to_owned(),
        solvable: closure.is_ok(),
        is_in: found.is_some(),
        reasons: closure.as_ref().err().map(reasons),
        found,
        notes,
        count: closure.map_or(0, |closure| closure.packages.len()),
    })
}

impl Why {
    /// How a program ends on it.
    pub const fn code(&self) -> ExitCode {
        if self.is_in { ExitCode::Ok } else { ExitCode::NoSource }
    }
}
