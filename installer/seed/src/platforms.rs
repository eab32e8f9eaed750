//! What of a multi-platform image is pushed, and what its tag then names
//! ([decision 0043](../../../../docs/decisions/0043-what-a-seeded-tag-names.md)).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubexm_spec::{Digest, Platform};

use crate::contents::Image;
use crate::document::{self, Document, Links};
use crate::error::SeedError;
use crate::form::Form;

/// What is pushed of an image.
#[derive(Debug)]
pub struct Pushed {
    /// Children before who names them, so that no registry misses one.
    pub documents: Vec<Arc<Document>>,
    /// What the tag names.
    pub target: Digest,
    pub form: Form,
}

/// What is pushed of an image for these platforms; none where it has none of them.
pub fn choose(image: &Image, platforms: &BTreeSet<Platform>, sparse: bool) -> Result<Option<Pushed>, SeedError> {
    let what = format!("image {}", image.reference);
    let lost = || SeedError::Internal(format!("{what}: a document that was read is missing"));
    let Some(target) = image.documents.get(&image.target) else { return without_index(image, platforms) };
    let Links::Index(entries) = &target.links else {
        let ours = image.manifests.keys().any(|platform| platforms.contains(platform));
        let documents = vec![Arc::clone(&target.document)];
        return Ok(ours.then_some(Pushed { documents, target: image.target, form: Form::Whole }));
    };
    // Platforms of the bundle that were not asked for are left out; what has no platform of ours (attestations) is taken along.
    let unwanted: BTreeSet<Digest> = image
        .manifests
        .iter()
        .filter(|(platform, _)| !platforms.contains(platform))
        .map(|(_, digest)| *digest)
        .collect();
    let manifests: BTreeSet<Digest> = image
        .manifests
        .iter()
        .filter(|(platform, _)| platforms.contains(platform))
        .map(|(_, digest)| *digest)
        .collect();
    if manifests.is_empty() {
        return Ok(None);
    }
    let mut order = Vec::new();
    let mut kept = BTreeMap::new();
    for entry in entries {
        let takes = !unwanted.contains(&entry.digest) || manifests.contains(&entry.digest);
        let whole = takes && below(image, entry.digest, &mut order);
        kept.insert(entry.digest, whole);
    }
    let all = kept.values().all(|whole| *whole);
    let documents = |digests: &[Digest]| -> Result<Vec<Arc<Document>>, SeedError> {
        let one = |digest: &Digest| image.documents.get(digest).map(|parsed| Arc::clone(&parsed.document));
        digests.iter().map(|digest| one(digest).ok_or_else(lost)).collect()
    };
    if all || sparse {
        order.push(image.target);
        let form = if all { Form::Whole } else { Form::Sparse };
        return Ok(Some(Pushed { documents: documents(&order)?, target: image.target, form }));
    }
    if manifests.len() == 1 {
        let only: Vec<Digest> = manifests.into_iter().collect();
        return Ok(Some(Pushed { documents: documents(&only)?, target: only[0], form: Form::OnePlatform }));
    }
    let complete: BTreeSet<Digest> = kept.into_iter().filter(|(_, whole)| *whole).map(|(digest, _)| digest).collect();
    let reduced = Arc::new(document::with_entries(&target.document, |digest| complete.contains(digest), &what)?);
    let mut all = documents(&order)?;
    all.push(Arc::clone(&reduced));
    Ok(Some(Pushed { documents: all, target: reduced.digest, form: Form::Reduced }))
}

/// What is pushed of an image whose index a delta leaves out, and the registry has another one in place of: the manifest of
/// the only platform.
fn without_index(image: &Image, platforms: &BTreeSet<Platform>) -> Result<Option<Pushed>, SeedError> {
    let wanted = image.manifests.iter().filter(|(platform, _)| platforms.contains(platform));
    let manifests: BTreeSet<Digest> = wanted.map(|(_, digest)| *digest).collect();
    let lacks = || SeedError::BaseLacks {
        what: format!("image {}", image.reference),
        digest: image.target,
        place: "the registry".to_owned(),
    };
    match manifests.iter().collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        [only] => {
            let document = Arc::clone(&image.documents.get(only).ok_or_else(lacks)?.document);
            Ok(Some(Pushed { documents: vec![document], target: **only, form: Form::OnePlatform }))
        }
        _ => Err(lacks()),
    }
}

/// Appends a document and all below it, children first; whether nothing that it names is missing.
fn below(image: &Image, digest: Digest, order: &mut Vec<Digest>) -> bool {
    let Some(parsed) = image.documents.get(&digest) else { return false };
    let start = order.len();
    let whole = match &parsed.links {
        Links::Manifest { .. } => true,
        Links::Index(entries) => entries.iter().all(|entry| below(image, entry.digest, order)),
    };
    if !whole {
        order.truncate(start);
        return false;
    }
    if !order.contains(&digest) {
        order.push(digest);
    }
    true
}
