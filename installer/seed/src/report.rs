//! What was, or would be, put into the registry: typed, and as `--json` shows it.

use kubexm_spec::{Digest, ExitCode, Platform};
use serde::Serialize;

use crate::form::Form;
use crate::totals::Totals;

/// The schema of a report.
pub const SCHEMA: &str = "kubexm.io/seed/v1";

/// How a thing came to be in the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It was there, with the right digest.
    Present,
    /// It was pushed.
    Pushed,
    /// It was there under another digest, and its tag was moved.
    Moved,
    /// It would be pushed (`--dry-run`).
    Missing,
}

/// One line of the map: what upstream calls it, and what it is called in the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mapped {
    /// `image`, `chart` or `file`.
    pub kind: &'static str,
    /// `quay.io/calico/node:v3.30.1`, `chart/cilium`.
    pub from: String,
    /// `registry.corp:8443/quay.io/calico/node:v3.30.1`.
    pub to: String,
    /// What `to` resolves to.
    pub digest: Digest,
    /// What upstream's name points at, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_digest: Option<Digest>,
    /// Of an image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<Platform>,
    /// How an image differs from upstream's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<Form>,
    /// Signatures, attestations and SBOMs that go along.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub referrers: Vec<Digest>,
    /// How it came to be there.
    pub state: State,
    /// Its repository and tag there.
    #[serde(skip)]
    pub(crate) repository: String,
    #[serde(skip)]
    pub(crate) tag: Option<String>,
}

/// The end of a seed, or of a dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SeedReport {
    schema: &'static str,
    /// Registry and prefix.
    pub target: String,
    /// Digest of the bundle's manifest.json.
    pub bundle: Digest,
    /// Whether nothing was pushed on purpose.
    pub dry_run: bool,
    /// What was pushed; in a dry run, what would be at most.
    pub totals: Totals,
    /// Every image, chart and file.
    pub entries: Vec<Mapped>,
    /// References that were compared with what they should name after the push.
    pub audited: u64,
    /// What differs from upstream, and what was left out.
    pub notes: Vec<String>,
    /// Why what is missing may not be pushed (a dry run).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
}

/// What a registry answers to who would push, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// With its causes.
    pub text: String,
    /// How the seed would end.
    #[serde(skip)]
    pub code: ExitCode,
}

impl SeedReport {
    pub(crate) fn new(target: String, bundle: Digest, dry_run: bool) -> Self {
        let (totals, entries, notes) = (Totals::default(), Vec::new(), Vec::new());
        Self { schema: SCHEMA, target, bundle, dry_run, totals, entries, audited: 0, notes, refused: None }
    }

    /// How many entries came to be there in a way.
    pub fn count(&self, state: State) -> usize {
        self.entries.iter().filter(|entry| entry.state == state).count()
    }
}
