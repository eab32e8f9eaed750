//! Indexes and manifests of a bundle (OCI image-spec 1.1, and docker's schema 2 with the same fields), as they are pushed:
//! byte for byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use kubexm_archive::{Bundle, members};
use kubexm_spec::{Digest, json as json_text};
use kubexm_transport::oci::{MANIFEST_LIMIT, is_manifest};
use serde::Deserialize;
use serde_json::Value;

use crate::error::SeedError;

pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// What an index may take as memory, in bytes: one of 4 MiB with nothing but entries takes half of it.
const INDEX_MEMORY: usize = 128 << 20;
/// Most bytes of a type, two names of 127 at most (RFC 6838), and of a platform: it is kept for each repository that a document goes
/// into.
const TYPE_LENGTH: usize = 255;
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// One that is pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub digest: Digest,
    pub media_type: String,
    pub bytes: Bytes,
}

/// A document with what it names.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub document: Arc<Document>,
    pub links: Arc<Links>,
}

/// What a document names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Links {
    /// The entries of an index, in its order.
    Index(Vec<Entry>),
    /// Config and layers, and what the manifest is about.
    Manifest { blobs: BTreeMap<Digest, u64>, subject: Option<Digest>, artifact_type: Option<String> },
}

impl Links {
    /// How many.
    pub fn count(&self) -> usize {
        match self {
            Self::Index(entries) => entries.len(),
            Self::Manifest { blobs, .. } => blobs.len(),
        }
    }
}

/// A line of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub digest: Digest,
    pub media_type: String,
    /// `linux/arm64/v8`; none where the index does not say, and `unknown/unknown` for attestations.
    pub platform: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    media_type: Option<String>,
    artifact_type: Option<String>,
    manifests: Option<Vec<Linked>>,
    config: Option<Linked>,
    #[serde(default)]
    layers: Vec<Linked>,
    subject: Option<Linked>,
}

impl Form {
    /// How many bytes the longest type or platform of those that are kept has.
    fn longest_type(&self) -> usize {
        let own = [&self.media_type, &self.artifact_type].into_iter().flatten().map(String::len);
        let linked = self.manifests.iter().flatten().chain(&self.config).map(Linked::longest_type);
        own.chain(linked).max().unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Linked {
    #[serde(default)]
    media_type: String,
    digest: Digest,
    size: u64,
    platform: Option<PlatformForm>,
}

impl Linked {
    fn longest_type(&self) -> usize {
        let platform = |of: &PlatformForm| of.os.len() + of.architecture.len() + of.variant.len();
        self.media_type.len().max(self.platform.as_ref().map_or(0, platform))
    }
}

#[derive(Deserialize)]
struct PlatformForm {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: String,
}

impl PlatformForm {
    fn text(&self) -> String {
        let parts = [&self.os, &self.architecture, &self.variant];
        parts.into_iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join("/")
    }
}

/// Reads a document out of the bundle; `what` names it in messages.
pub fn read(bundle: &Bundle, digest: Digest, what: &str) -> Result<Parsed, SeedError> {
    parse(bundle.read(&members::blob_name(&digest), MANIFEST_LIMIT)?.into(), what)
}

/// Reads a document.
pub fn parse(bytes: Bytes, what: &str) -> Result<Parsed, SeedError> {
    let wrong = |problem: String| SeedError::Document { what: what.to_owned(), problem };
    let form: Form = serde_json::from_slice(&bytes).map_err(|e| wrong(format!("is not an OCI document ({e})")))?;
    if form.longest_type() > TYPE_LENGTH {
        return Err(wrong(format!("has a media type or a platform of more than {TYPE_LENGTH} bytes")));
    }
    let (links, guess) = match (form.manifests, form.config) {
        (Some(_), Some(_)) => return Err(wrong("is an index and a manifest at once".to_owned())),
        (Some(entries), None) => {
            let entries = entries.into_iter().map(|linked| Entry {
                digest: linked.digest,
                media_type: linked.media_type,
                platform: linked.platform.map(|platform| platform.text()),
            });
            (Links::Index(entries.collect()), INDEX)
        }
        (None, Some(config)) => {
            let blobs = std::iter::once(&config).chain(&form.layers).map(|blob| (blob.digest, blob.size)).collect();
            let subject = form.subject.map(|subject| subject.digest);
            // Before OCI 1.1 the config's type said what an artifact is.
            let artifact_type = form.artifact_type.or(Some(config.media_type.clone()));
            let docker = config.media_type.starts_with("application/vnd.docker.");
            let guess = if docker { DOCKER_MANIFEST } else { MANIFEST };
            (Links::Manifest { blobs, subject, artifact_type }, guess)
        }
        (None, None) => return Err(wrong("is neither an index nor a manifest".to_owned())),
    };
    // Required of docker's, optional in OCI's.
    let media_type = form.media_type.unwrap_or_else(|| guess.to_owned());
    if !is_manifest(&media_type) {
        return Err(wrong(format!("has the media type {media_type:?}, which is that of no image")));
    }
    let document = Document { digest: Digest::of(&bytes), media_type, bytes };
    Ok(Parsed { document: Arc::new(document), links: Arc::new(links) })
}

/// An index with only those entries: another document, with a digest of its own.
pub fn with_entries(index: &Document, keep: impl Fn(&Digest) -> bool, what: &str) -> Result<Document, SeedError> {
    let wrong = |problem: &str| SeedError::Document { what: what.to_owned(), problem: problem.to_owned() };
    if json_text::memory_of(&index.bytes) > INDEX_MEMORY {
        return Err(wrong("has more values than an index of images has"));
    }
    let mut value: Value = serde_json::from_slice(&index.bytes).map_err(|_| wrong("is not JSON"))?;
    let entries = value.get_mut("manifests").and_then(Value::as_array_mut).ok_or_else(|| wrong("is not an index"))?;
    entries.retain(|entry| {
        entry["digest"].as_str().and_then(|text| text.parse().ok()).is_some_and(|digest| keep(&digest))
    });
    // serde_json's maps are sorted: the same bundle gives the same bytes.
    let bytes = Bytes::from(value.to_string().into_bytes());
    Ok(Document { digest: Digest::of(&bytes), media_type: index.media_type.clone(), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_with_fewer_entries_keeps_all_else_and_has_another_digest() {
        let (one, two) = (Digest::of("1"), Digest::of("2"));
        let text = format!(
            r#"{{"schemaVersion":2,"mediaType":"{INDEX}","annotations":{{"a":"b"}},"manifests":[
              {{"digest":"{one}","size":1,"mediaType":"{MANIFEST}","platform":{{"os":"linux","architecture":"arm64","variant":"v8"}}}},
              {{"digest":"{two}","size":1,"mediaType":"{MANIFEST}"}}]}}"#
        );
        let parsed = parse(Bytes::from(text), "x").unwrap();
        let Links::Index(entries) = &*parsed.links else { panic!() };
        assert_eq!(entries[0].platform.as_deref(), Some("linux/arm64/v8"));
        let less = with_entries(&parsed.document, |digest| *digest == one, "x").unwrap();
        assert_ne!(less.digest, parsed.document.digest);
        let again = parse(less.bytes.clone(), "x").unwrap();
        let Links::Index(kept) = &*again.links else { panic!() };
        assert_eq!(kept[..], entries[..1]);
        assert!(std::str::from_utf8(&less.bytes).unwrap().contains(r#""annotations":{"a":"b"}"#));
    }

    #[test]
    fn an_index_of_values_that_no_index_has_is_not_made_into_memory() {
        let text = format!(r#"{{"manifests":[],"x":[{}0]}}"#, r#"{"":0},"#.repeat(200_000));
        let parsed = parse(Bytes::from(text), "image x").unwrap();
        let error = with_entries(&parsed.document, |_| true, "image x").unwrap_err().to_string();
        assert!(error.contains("image x") && error.contains("more values"), "{error}");
    }

    #[test]
    fn a_type_that_is_longer_than_types_are_is_refused() {
        let (digest, config) = (Digest::of("1"), |media_type: &str| {
            format!(r#""config":{{"mediaType":"{media_type}","digest":"{}","size":1}}"#, Digest::of("2"))
        });
        let of = |length: usize| {
            let long = "a".repeat(length);
            [
                format!(r#"{{"artifactType":"{long}",{}}}"#, config("")),
                format!("{{{}}}", config(&long)),
                format!(r#"{{"manifests":[{{"mediaType":"{long}","digest":"{digest}","size":1}}]}}"#),
                format!(r#"{{"manifests":[{{"platform":{{"os":"{long}"}},"digest":"{digest}","size":1}}]}}"#),
            ]
        };
        assert!(of(TYPE_LENGTH).into_iter().all(|text| parse(Bytes::from(text), "x").is_ok()));
        for text in of(TYPE_LENGTH + 1) {
            let error = parse(Bytes::from(text), "image x").unwrap_err().to_string();
            assert!(error.contains("image x") && error.contains("more than 255 bytes"), "{error}");
        }
    }

    #[test]
    fn what_is_no_image_is_refused() {
        for text in ["[]", "{}", r#"{"manifests":[],"config":{"digest":"x","size":1}}"#, "\u{feff}{}"] {
            assert!(parse(Bytes::from(text.to_owned()), "x").is_err(), "{text}");
        }
        let typed = r#"{"mediaType":"text/html","manifests":[]}"#;
        assert!(parse(Bytes::from(typed), "x").unwrap_err().to_string().contains("text/html"));
    }
}
