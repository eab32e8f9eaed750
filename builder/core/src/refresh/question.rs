//! Requests to origins for newer versions, and their results.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_manifests::{Catalogue, Pin, Zone, version};
use kubexm_spec::Arch;
use kubexm_transport::Bearer;
use serde::Serialize;

use crate::BuildError;
use crate::origins::Origins;

/// What is asked, and where.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// What is known.
    pub catalogue: &'a Catalogue,
    /// Where origins are rewritten to.
    pub zone: &'a Zone,
    /// Names of components and features; empty: all.
    pub only: &'a BTreeSet<String>,
    /// In which zone, through which clients.
    pub origins: &'a Origins,
    /// For GitHub's list of releases, which allows more requests with it.
    pub token: Option<&'a GitHubToken>,
}

impl Ask<'_> {
    /// Whether a component or feature is asked about.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.contains(name)
    }
}

/// Versions of a component, with a digest for each architecture that upstream publishes.
pub type Versions = BTreeMap<String, BTreeMap<Arch, Pin>>;

/// A token of GitHub's, sent to `api.github.com` over https and nowhere else.
#[derive(Clone, Debug)]
pub struct GitHubToken {
    pub bearer: Bearer,
    /// Where it is from, for messages: the variable or the file.
    pub from: String,
}

/// What was found, and what could not be looked up.
#[derive(Debug, Default)]
pub struct Refreshed {
    /// Newer versions by component.
    pub components: BTreeMap<String, Versions>,
    /// Newer versions of features' charts by name, the newest of each line: tags of their images are not known, so no overlay
    /// contains them.
    pub features: BTreeMap<String, Vec<String>>,
    /// What has nothing that could be asked.
    pub not_asked: BTreeMap<String, NotAsked>,
    /// What people should know: withdrawn and incomplete releases, minors that are not known.
    pub notes: Vec<String>,
    /// What ended the questions about one thing; those about others went on.
    pub failures: Vec<BuildError>,
}

/// Why nothing is asked about a component or feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotAsked {
    /// A feature of images alone.
    NoChart,
    /// Upstream publishes none.
    NoDigests,
    /// The catalogue has no address of a list.
    NoList,
    /// A chart in an OCI registry, which lists no versions with digests.
    NoIndex,
}

impl NotAsked {
    /// In words.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoChart => "images without a chart, of which upstream has no list of versions to ask",
            Self::NoDigests => "upstream publishes no digests: name version and digest in an overlay of your own",
            Self::NoIndex => "its chart is in an OCI registry, which has no list of versions with digests",
            Self::NoList => "the catalogue does not state where upstream lists versions",
        }
    }
}

/// A version, and none that comes before a release.
pub(super) fn is_release(text: &str) -> bool {
    version::is_version(text) && !version::bare(text).contains('-') && version::bare(text).contains('.')
}
