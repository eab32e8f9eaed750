//! Whether images are signed as the bundle's own cluster.yaml demands.

use kubexm_spec::{ExitCode, error_chain};
use serde::Serialize;

use super::subject::Subject;
use crate::image_signatures::{Carried, of_bundle};

/// What was found of the images.
#[derive(Debug, Serialize)]
pub struct Images {
    /// None where it was not checked.
    pub ok: Option<bool>,
    /// Whether it was looked at: not by a quick check, which does not read what cluster.yaml demands either.
    pub checked: bool,
    /// Signed as demanded, by number; each platform counts.
    pub signed: usize,
    /// Accepted by a rule without a check, by number.
    pub accepted: usize,
    /// A line for each image that is not signed as demanded.
    pub problems: Vec<String>,
    #[serde(skip)]
    code: ExitCode,
}

impl Images {
    /// Of a quick check.
    pub(super) const fn not_checked() -> Self {
        Self { ok: None, checked: false, signed: 0, accepted: 0, problems: Vec::new(), code: ExitCode::Ok }
    }

    /// None where nothing is demanded.
    pub(super) fn of(subject: &Subject) -> Option<Self> {
        match of_bundle(subject.documents()) {
            Ok(None) => None,
            Ok(Some(Carried { signed, accepted, problems })) => {
                let ok = problems.is_empty();
                let code = if ok { ExitCode::Ok } else { ExitCode::ImageUnsigned };
                Some(Self { ok: Some(ok), checked: true, signed, accepted, problems, code })
            }
            Err(error) => {
                // A key in the bundle that cannot be used is not a key of the command line.
                let code = match error.exit_code() {
                    ExitCode::Config | ExitCode::InlineSecret => ExitCode::ImageUnsigned,
                    code => code,
                };
                let problems = vec![error_chain(&error)];
                Some(Self { ok: Some(false), checked: true, signed: 0, accepted: 0, problems, code })
            }
        }
    }

    pub(super) const fn code(&self) -> ExitCode {
        self.code
    }
}
