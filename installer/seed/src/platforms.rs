//! What of a multi-platform image is pushed, and what its tag then names
//! ([decision 0043](../../../../docs/decisions/0043-what-a-seeded-tag-names.md)).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubexm_spec::{Digest, Platform};

use crate::contents::Image;
use crate::document::{Document, Links};
use crate::error::SeedError;
use crate::form::Form;
use crate::reduced::Reduced;

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
pub fn choose(
    image: &Image,
    platforms: &BTreeSet<Platform>,
    sparse: bool,
    reduced: &mut Reduced,
) -> Result<Option<Pushed>, SeedError> {
    let what = format!("image {}", image.reference);
    let lost = || SeedError::Internal(format!("{what}: a document that was read is missing"));
    let Some(target) = image.documents.get(&image.target) else { return without_index(image, platforms) };
    let Links::Index(entries) = &*target.links else {
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
    let mut below = Below::of(image);
    let mut kept = BTreeMap::new();
    for entry in entries {
        let takes = !unwanted.contains(&entry.digest) || manifests.contains(&entry.digest);
        let whole = takes && below.add(entry.digest);
        kept.insert(entry.digest, whole);
    }
    let mut order = below.order;
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
    let reduced = reduced.index(&target.document, complete, &what)?;
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

/// Documents with all below them, children first. Each is looked at once: an index may name another one as often as it has room.
struct Below<'i> {
    image: &'i Image,
    /// Whether nothing that a document names is missing.
    whole: BTreeMap<Digest, bool>,
    order: Vec<Digest>,
    there: BTreeSet<Digest>,
}

impl<'i> Below<'i> {
    const fn of(image: &'i Image) -> Self {
        Self { image, whole: BTreeMap::new(), order: Vec::new(), there: BTreeSet::new() }
    }

    /// Appends a document and all below it, if nothing is missing; whether that is so.
    fn add(&mut self, digest: Digest) -> bool {
        let whole = self.is_whole(digest);
        if whole {
            self.append(digest);
        }
        whole
    }

    fn is_whole(&mut self, digest: Digest) -> bool {
        if let Some(known) = self.whole.get(&digest) {
            return *known;
        }
        let whole = self.image.documents.get(&digest).is_some_and(|parsed| match &*parsed.links {
            Links::Manifest { .. } => true,
            Links::Index(entries) => entries.iter().all(|entry| self.is_whole(entry.digest)),
        });
        self.whole.insert(digest, whole);
        whole
    }

    fn append(&mut self, digest: Digest) {
        if !self.there.insert(digest) {
            return;
        }
        if let Some(Links::Index(entries)) = self.image.documents.get(&digest).map(|parsed| &*parsed.links) {
            entries.iter().for_each(|entry| self.append(entry.digest));
        }
        self.order.push(digest);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kubexm_spec::Reference;

    use super::*;
    use crate::document;

    #[test]
    fn an_index_that_is_named_many_times_is_walked_once() {
        let mut documents = BTreeMap::new();
        let mut keep = |text: String| {
            let parsed = document::parse(Bytes::from(text), "x").unwrap();
            let digest = parsed.document.digest;
            documents.insert(digest, parsed);
            digest
        };
        let manifest = keep(format!(r#"{{"config":{{"digest":"{}","size":1}}}}"#, Digest::of("config")));
        // Seven indexes in one another, each the one below it a thousand times: a walk of all would have 10^21 steps.
        let index = |digest: Digest| {
            let entry = format!(r#"{{"digest":"{digest}","size":1}}"#);
            format!(r#"{{"manifests":[{}]}}"#, vec![entry; 1000].join(","))
        };
        let whole = (0..7).fold(manifest, |below, _| keep(index(below)));
        let lacking = (0..7).fold(Digest::of("nowhere"), |below, _| keep(index(below)));
        let both = format!(
            r#"{{"manifests":[{{"digest":"{lacking}","size":1}},{{"digest":"{whole}","size":1}},{{"digest":"{manifest}","size":1}}]}}"#
        );
        let target = keep(both);
        let (reference, referrers) = (Reference::read("a.b/x:1").unwrap(), BTreeMap::new());
        let manifests = [(Platform::LINUX_AMD64, manifest)].into();
        let image = Image { reference, target, documents, manifests, referrers };
        let pushed = choose(&image, &[Platform::LINUX_AMD64].into(), true, &mut Reduced::default()).unwrap().unwrap();
        assert_eq!(pushed.documents.len(), 9, "the manifest, what is above it, and the target");
        assert_eq!(pushed.documents[0].digest, manifest);
        assert_eq!(pushed.form, Form::Sparse);
    }
}
