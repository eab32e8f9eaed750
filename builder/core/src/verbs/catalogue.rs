//! Gaps of the catalogue.

use std::path::PathBuf;

use kubexm_manifests::{check as gaps_of, unverified};
use kubexm_spec::ExitCode;
use serde::Serialize;

use crate::session::{Session, SessionError};

/// What is in the catalogue, and what is not.
#[derive(Debug, Serialize)]
pub struct Checked {
    schema: &'static str,
    pub overlays: Vec<String>,
    pub ok: bool,
    /// By number.
    pub components: usize,
    pub releases: usize,
    pub features: usize,
    /// Versions without a digest, images without a tag, sets that some cluster could not be made of.
    pub gaps: Vec<String>,
    /// What nobody has compared with its upstream, which is no gap.
    pub unverified: Vec<String>,
}

/// Checks the catalogue with overlays laid over it.
pub fn check(session: &Session, overlays: &[PathBuf]) -> Result<Checked, SessionError> {
    let catalogue = session.catalogue(overlays)?;
    let (gaps, unverified) = (gaps_of(&catalogue), unverified(&catalogue));
    Ok(Checked {
        schema: "kubexm.io/catalogue-check/v1",
        ok: gaps.is_empty(),
        components: catalogue.components.len(),
        releases: catalogue.releases.len(),
        features: catalogue.features.len(),
        overlays: catalogue.overlays,
        gaps,
        unverified,
    })
}

impl Checked {
    /// How a program ends on it.
    pub const fn code(&self) -> ExitCode {
        if self.ok { ExitCode::Ok } else { ExitCode::Config }
    }
}
