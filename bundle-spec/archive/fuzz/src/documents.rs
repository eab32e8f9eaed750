//! Documents that come from elsewhere.

use std::path::Path;

use kubexm_archive::sums;
use kubexm_builder::charts::judge::{Known, judge};
use kubexm_builder::charts::{archive, documents, extract, index};
use kubexm_builder::oci::artifact::Artifact;
use kubexm_builder::oci::referrer::{self, LOOKS, Referrer, SIGNATURE_TYPE, Subject};
use kubexm_spec::cluster;
use kubexm_spec::inventory::Inventory;
use kubexm_spec::lock::Lock;
use kubexm_spec::{ArtifactKey, Digest, Reference, Sources, Statement};

/// The content of sources.json: what is understood is canonical, and keeps its padding.
pub(crate) fn sources(bytes: &[u8]) {
    if let Ok(sources) = Sources::parse(bytes) {
        assert_eq!(sources.to_padded(bytes.len()).unwrap(), bytes);
    }
}

/// What a signature says: one statement has one text.
pub(crate) fn statement(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(statement) = Statement::parse(text) {
        assert_eq!(statement.to_text(), text);
    }
}

/// `inventory.json`.
pub(crate) fn inventory(bytes: &[u8]) {
    if let Ok(inventory) = Inventory::parse(bytes) {
        assert_eq!(Inventory::parse(inventory.to_json().as_bytes()).unwrap(), inventory);
    }
}

/// `NAME.sums`, which lies beside a bundle on a medium.
pub(crate) fn sums(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(files) = sums::parse(text, Path::new("site.sums")) {
        assert!(files.iter().all(|(_, name)| !name.contains('\n')));
        // The digests are in the text, in their order; what stands behind them is a name, whatever it is.
        let again = sums::parse(&sums::text(&files), Path::new("site.sums")).unwrap();
        assert!(again.iter().map(|(digest, _)| digest).eq(files.iter().map(|(digest, _)| digest)));
    }
}

/// The manifest of a bundle in a registry.
pub(crate) fn artifact(bytes: &[u8]) {
    if let Ok(artifact) = Artifact::parse(bytes) {
        assert_eq!(Artifact::parse(&artifact.to_json().unwrap()).unwrap(), artifact);
        let _ = artifact.size();
    }
}

/// A list of what refers to a bundle in a registry, and the manifest of such a thing.
pub(crate) fn referrers(bytes: &[u8]) {
    let signature = Referrer::signature(Vec::new());
    let subject = Subject { digest: Digest::of(b"a bundle"), size: 8 };
    let own = Subject { digest: Digest::of(signature.to_json(subject)), size: 1 };
    let _ = referrer::parse(bytes, SIGNATURE_TYPE, &subject.digest);
    let Ok(known) = referrer::listed(bytes, SIGNATURE_TYPE) else { return };
    for ordered in [true, false] {
        let (looked_at, left_out) = referrer::looked_at(known.clone(), ordered);
        assert!(looked_at.len() <= LOOKS && looked_at.len() + left_out <= known.len());
        assert!(looked_at.iter().all(|digest| known.contains(digest)));
    }
    // What is added to a list that can be read is in it, and is added once.
    if let Ok(Some(list)) = referrer::with(Some(bytes), &[(&signature, own)]) {
        let now = referrer::listed(&list, SIGNATURE_TYPE).unwrap();
        assert!(now.contains(&own.digest));
        assert_eq!(referrer::with(Some(&list), &[(&signature, own)]), Ok(None));
    }
}

/// `cluster.yaml`.
pub(crate) fn cluster(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = cluster::parse(text);
    }
}

/// A lock: what is understood reads back from its own text.
pub(crate) fn lock(bytes: &[u8]) {
    if let Ok(lock) = Lock::parse(bytes) {
        let text = lock.to_text().unwrap();
        assert_eq!(Lock::parse(text.as_bytes()).unwrap(), lock);
        assert_eq!(Lock::parse(text.as_bytes()).unwrap().to_text().unwrap(), text);
        let _ = lock.blobs();
    }
}

/// A chart's archive, as it is and inside a gzip of our own.
pub(crate) fn chart(bytes: &[u8]) {
    let _ = archive::check(bytes);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, bytes).unwrap();
    let _ = archive::check(gzip.finish().unwrap().as_slice());
}

/// The index of a repository of charts.
pub(crate) fn chart_index(bytes: &[u8]) {
    let _ = index::find(bytes, "web", "1.2.3");
}

/// What helm prints, and YAML of others: whatever is found in it is a name that reads back as itself, and is judged.
pub(crate) fn rendering(bytes: &[u8]) {
    let Ok(documents) = documents::read(&String::from_utf8_lossy(bytes)) else { return };
    let found = extract::images(&documents);
    for name in found.pods.keys().chain(found.suspects.keys()) {
        assert_eq!(Reference::read(name).unwrap().to_string(), *name);
    }
    let mut known = Known::new(found.suspects.keys().map(String::as_str), found.broken.keys().map(String::as_str));
    known.learn(&found);
    if let Err(gap) = judge(&ArtifactKey::Chart("x".to_owned()), &found, &known) {
        assert!(
            gap.broken.is_empty() && gap.suspects.iter().all(|(name, _)| !Reference::read(name).unwrap().is_exact())
        );
    }
}
