//! Whether everything that a bundle needs is in it.

use kubexm_archive::Incomplete;
use kubexm_spec::{ExitCode, error_chain};

use super::subject::Subject;
use crate::complete;

/// Whether everything is there.
#[derive(Debug)]
pub enum Completeness {
    /// Damage was found, or only the file was looked at.
    NotAsked,
    /// A delta without its base.
    Unknown,
    /// What the bundle names and does not hold, and what its cluster needs and it does not list.
    Asked(Vec<String>),
    /// The texts that it is read from cannot be used.
    Unreadable { code: ExitCode, problem: String },
}

impl Completeness {
    pub(super) fn of(subject: &Subject) -> Self {
        if subject.lacks_its_base() {
            return Self::Unknown;
        }
        match missing(subject) {
            Ok(missing) => Self::Asked(missing),
            Err((code, problem)) => Self::Unreadable { code, problem },
        }
    }

    pub(super) fn code(&self) -> ExitCode {
        match self {
            Self::NotAsked => ExitCode::Ok,
            Self::Asked(missing) if missing.is_empty() => ExitCode::Ok,
            Self::Asked(_) | Self::Unknown => ExitCode::BundleIncomplete,
            Self::Unreadable { code, .. } => *code,
        }
    }
}

fn missing(subject: &Subject) -> Result<Vec<String>, (ExitCode, String)> {
    let bundle = subject.documents();
    let mut all = Vec::new();
    match kubexm_archive::check_references(bundle) {
        Ok(()) => {}
        Err(Incomplete::Missing { missing, more, .. }) => {
            all.extend(missing.iter().map(ToString::to_string));
            all.extend((more > 0).then(|| format!("and {more} more, which are not listed")));
        }
        Err(error) => return Err((error.exit_code(), error_chain(&error))),
    }
    let carried = complete::carried(bundle).map_err(|e| (e.exit_code(), error_chain(&e)))?;
    let needed = complete::missing(&carried, bundle.manifest());
    let needed = needed.map_err(|e| (ExitCode::BundleIncomplete, error_chain(&e)))?;
    all.extend(needed.iter().map(|r| format!("{} {} ({})", r.key, r.version, r.because)));
    all.extend(complete::packages(&carried, bundle).map_err(|e| (e.exit_code(), error_chain(&e)))?);
    Ok(all)
}
