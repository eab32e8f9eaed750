//! Requests to origins for newer versions, and their results.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_manifests::{Catalogue, Pin, Zone, version};
use kubexm_spec::Arch;
use kubexm_transport::Bearer;

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
    /// Newer versions by component, with a digest for each architecture that upstream publishes.
    pub components: BTreeMap<String, BTreeMap<String, BTreeMap<Arch, Pin>>>,
    /// Newer versions of features by name: their images must be compared before they can be carried, so no overlay
    /// contains them.
    pub features: BTreeMap<String, Vec<String>>,
    /// What people should know: withdrawn releases, minors that are not known, components without published digests.
    pub notes: Vec<String>,
    /// What ended the questions about one thing; those about others went on.
    pub failures: Vec<BuildError>,
}

/// A version, and none that comes before a release.
pub(super) fn is_release(text: &str) -> bool {
    version::is_version(text) && !version::bare(text).contains('-') && version::bare(text).contains('.')
}
