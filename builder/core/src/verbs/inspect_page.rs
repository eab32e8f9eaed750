//! What is inside a bundle, as one HTML page.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use kubexm_archive::Bundle;
use kubexm_archive::members::BLOBS;
use kubexm_manifests::{Doubt, doubts, require_of_bundle};
use kubexm_spec::{Digest, ExitCode, error_chain};

use super::diff::Difference;
use super::documents::{Known, Tool, subject};
use super::inspect::{Inspected, Traced};
use crate::page::{Contents, Delta, Page, SignedImage, Stated, Unverified};
use crate::session::{Session, SessionError};
use crate::{BuildError, complete, sbom, sources};

/// The page. `file` is how the bundle was named; with `base`, it shows the differences to that bundle, manifest or lock.
pub fn page(
    session: &Session,
    file: &Path,
    bundle: &Bundle,
    base: Option<&Path>,
    tool: Tool,
) -> Result<String, SessionError> {
    let difference = base.map(|base| Difference::between(session, base, file)).transpose()?;
    let (catalogue, sources) = (complete::catalogue(bundle)?, sources::of(bundle)?);
    let known = Known::of(bundle)?;
    let components = sbom::components(&subject(bundle, &catalogue, sources.as_ref(), &known, tool));
    let left_out = left_out(bundle);
    let stated = if sources.is_some() { Stated::Sources } else { Stated::Nothing };
    let about = Inspected::of(file, bundle)?;
    let page = Page {
        about: &about,
        contents: Contents::of(&components, stated, &|digest| left_out.contains_key(digest)),
        delta: bundle.layout().is_delta().then(|| Delta {
            base: bundle.layout().base,
            blobs: left_out.len(),
            bytes: left_out.values().fold(0, |sum: u64, size| sum.saturating_add(*size)),
        }),
        difference,
        signed: about.artifacts.iter().filter_map(signed).collect(),
        unverified: unverified(bundle).map_err(|error| error_chain(&error)),
        tool: format!("{} {}", tool.name, tool.version),
    };
    page.html().map_err(|e| SessionError::refused(ExitCode::Internal, format!("cannot write the page: {e:#}")))
}

fn signed<'a>(traced: &'a Traced<'_>) -> Option<SignedImage<'a>> {
    let (artifact, claim) = (traced.artifact, traced.claim()?);
    Some(SignedImage { name: &artifact.name, platform: artifact.platform, claim })
}

/// Blobs that a delta does not carry, with their sizes.
fn left_out(bundle: &Bundle) -> BTreeMap<Digest, u64> {
    let names: HashSet<&str> = bundle.layout().left_out.iter().map(|member| member.name.as_str()).collect();
    let members = bundle.manifest().members.iter();
    let left_out = members.filter(|member| member.name.starts_with(BLOBS) && names.contains(member.name.as_str()));
    left_out.map(|member| (member.sha256, member.size)).collect()
}

/// By the bundle's own cluster.yaml and catalogue, as a build of it would report.
fn unverified(bundle: &Bundle) -> Result<Vec<Unverified>, BuildError> {
    let carried = complete::carried(bundle)?;
    let requirements = require_of_bundle(&carried.cluster, &carried.catalogue)?;
    let row = |doubt: Doubt| Unverified { severe: doubt.is_severe(), about: doubt.about, text: doubt.text };
    Ok(doubts(&requirements, &carried.catalogue).into_iter().map(row).collect())
}
