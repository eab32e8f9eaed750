//! What of a bundle can go into a registry: its images with what is attached to them, charts, and the user's files.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use kubexm_archive::{Bundle, check_references};
use kubexm_spec::lock::{Content, Referrer};
use kubexm_spec::{ArtifactKey, Digest, Platform, Reference};
use kubexm_transport::oci::{MANIFEST_LIMIT, cosign_tags};

use crate::artifact::{self, Artifact};
use crate::blob_source::BlobFolder;
use crate::chart;
use crate::document::{self, Links, Parsed};
use crate::error::SeedError;
use crate::kept::Kept;
use crate::lock::lock;
use crate::rest::Rest;

/// How deep indexes may lie in one another.
const DEPTH: usize = 8;

/// Which kinds are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    pub images: bool,
    pub charts: bool,
    pub files: bool,
}

impl Default for Kinds {
    fn default() -> Self {
        Self { images: true, charts: true, files: true }
    }
}

/// The documents of a bundle that registries keep, in memory; blobs stay in the bundle.
#[derive(Debug)]
pub struct Contents {
    /// Of the bundle.
    pub(crate) name: String,
    pub(crate) platforms: Vec<Platform>,
    /// By upstream's full reference.
    pub(crate) images: BTreeMap<String, Image>,
    pub(crate) charts: Vec<NamedArtifact>,
    pub(crate) files: Vec<NamedArtifact>,
    /// Charts that a delta leaves out: what they are called in the registry is in them.
    pub(crate) left_out: Vec<String>,
}

/// A chart or a file, by the name that the bundle has for it.
#[derive(Debug)]
pub(crate) struct NamedArtifact {
    /// `chart/cilium`, `file/motd`.
    pub from: String,
    /// The chart's own name, the file's.
    pub name: String,
    pub artifact: Artifact,
}

/// An image: what its name points at, and every document of it that the bundle has.
#[derive(Debug)]
pub(crate) struct Image {
    pub reference: Reference,
    pub target: Digest,
    /// Target, nested indexes and manifests that the bundle has.
    pub documents: BTreeMap<Digest, Parsed>,
    /// The manifest of each platform that was locked.
    pub manifests: BTreeMap<Platform, Digest>,
    pub referrers: BTreeMap<Digest, Attached>,
}

/// A signature, an attestation, an SBOM.
#[derive(Clone, Debug)]
pub(crate) struct Attached {
    pub subject: Digest,
    /// `sha256-<hex>.sig`; none where its `subject` says it.
    pub tag: Option<String>,
    pub parsed: Parsed,
}

impl Contents {
    /// Reads the documents of a bundle, and checks that everything they name is in it. Trusted as far as the bundle is.
    pub fn read(bundle: &Bundle, kinds: Kinds) -> Result<Self, SeedError> {
        check_references(bundle).map_err(|error| SeedError::Incomplete(Box::new(error)))?;
        Self::of(&Bytes { bundle, rest: &Rest::new(), kept: RefCell::default() }, kinds)
    }

    /// The same of a delta whose rest is in the registry.
    pub(crate) fn read_with(bundle: &Bundle, rest: &Rest, kinds: Kinds) -> Result<Self, SeedError> {
        Self::of(&Bytes { bundle, rest, kept: RefCell::default() }, kinds)
    }

    fn of(from: &Bytes<'_>, kinds: Kinds) -> Result<Self, SeedError> {
        let bundle = from.bundle;
        let manifest = bundle.manifest();
        let lock = lock(bundle)?;
        let mut charts = BTreeMap::new();
        let mut contents = Self {
            name: manifest.name.clone(),
            platforms: manifest.platforms.clone(),
            images: BTreeMap::new(),
            charts: Vec::new(),
            files: Vec::new(),
            left_out: Vec::new(),
        };
        for item in &lock.items {
            match (&item.key, &item.content) {
                (_, Content::Image { reference, target, manifest, referrers, .. }) if kinds.images => {
                    let image = contents.image(from, reference, target.digest, manifest.digest)?;
                    let platform = item.platform.ok_or_else(|| SeedError::Document {
                        what: format!("image {reference}"),
                        problem: "its lock names no platform".to_owned(),
                    })?;
                    image.manifests.insert(platform, manifest.digest);
                    for one in referrers {
                        check_tag(reference, one)?;
                        let parsed = from.document(one.manifest.digest, &format!("{reference}, attached"))?;
                        let attached = Attached { subject: one.subject, tag: one.tag.clone(), parsed };
                        image.referrers.insert(one.manifest.digest, attached);
                    }
                }
                (ArtifactKey::Chart(_), Content::File { digest, .. }) if kinds.charts && !bundle.has_blob(digest) => {
                    contents.left_out.push(item.key.to_string());
                }
                (ArtifactKey::Chart(_), Content::File { digest, size, .. }) if kinds.charts => {
                    let named = item.key.to_string();
                    // Once, however many names have it.
                    let (name, artifact) = match charts.get(&(*digest, *size)) {
                        Some((name, artifact)) => (String::clone(name), Artifact::clone(artifact)),
                        None => {
                            let read = chart::chart(bundle.blob(digest)?, *digest, *size, &named)?;
                            from.kept.borrow_mut().bytes(read.1.memory(), &named)?;
                            charts.insert((*digest, *size), read.clone());
                            read
                        }
                    };
                    let from = named;
                    contents.charts.push(NamedArtifact { from, name, artifact });
                }
                (ArtifactKey::ExtraFile(name), Content::File { digest, size, .. }) if kinds.files => {
                    let artifact = artifact::file(&item.key, name, *digest, *size);
                    contents.files.push(NamedArtifact { from: item.key.to_string(), name: name.clone(), artifact });
                }
                _ => {}
            }
        }
        Ok(contents)
    }

    /// Whether there is nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.images.is_empty() && self.charts.is_empty() && self.files.is_empty()
    }

    fn image(
        &mut self,
        from: &Bytes<'_>,
        name: &str,
        target: Digest,
        manifest: Digest,
    ) -> Result<&mut Image, SeedError> {
        let what = || format!("image {name}");
        let wrong = |problem: &str| SeedError::Document { what: what(), problem: problem.to_owned() };
        if !self.images.contains_key(name) {
            let reference = Reference::read(name).ok_or_else(|| wrong("is not the name of an image"))?;
            let mut documents = BTreeMap::new();
            if from.has(&target) || target == manifest {
                collect(from, target, &what(), DEPTH, &mut documents)?;
            }
            let (manifests, referrers) = (BTreeMap::new(), BTreeMap::new());
            self.images.insert(name.to_owned(), Image { reference, target, documents, manifests, referrers });
        }
        match self.images.get_mut(name) {
            Some(image) if image.target == target => {
                // Where a delta leaves the index out, and the registry has another one in its place.
                collect(from, manifest, &what(), DEPTH, &mut image.documents)?;
                Ok(image)
            }
            _ => Err(wrong("has another content for each platform")),
        }
    }
}

/// An image of a host's content store, for one platform.
#[derive(Clone, Debug)]
pub struct StoredImage {
    /// Upstream's full reference.
    pub name: String,
    /// Manifest of the platform: what the tag is to name.
    pub manifest: Digest,
}

impl Contents {
    /// Images for one platform out of a content store: each by its manifest, since the index of upstream names platforms that
    /// are not there.
    pub fn stored(
        name: &str,
        platform: Platform,
        store: &BlobFolder,
        images: impl IntoIterator<Item = StoredImage>,
    ) -> Result<Self, SeedError> {
        let mut contents = Self {
            name: name.to_owned(),
            platforms: vec![platform],
            images: BTreeMap::new(),
            charts: Vec::new(),
            files: Vec::new(),
            left_out: Vec::new(),
        };
        for StoredImage { name, manifest } in images {
            let wrong = |problem: String| SeedError::Document { what: format!("image {name}"), problem };
            let reference = Reference::read(&name).ok_or_else(|| wrong("is not the name of an image".to_owned()))?;
            let bytes = store.read(&manifest, MANIFEST_LIMIT).map_err(|error| wrong(error.to_string()))?;
            let parsed = document::parse(bytes, &format!("image {name}"))?;
            let image = Image {
                reference,
                target: manifest,
                documents: [(manifest, parsed)].into(),
                manifests: [(platform, manifest)].into(),
                referrers: BTreeMap::new(),
            };
            contents.images.insert(name, image);
        }
        Ok(contents)
    }
}

/// Nobody judges what is attached to an image, unless it carries signatures: under a tag of its own choice it would be an image
/// that nobody has signed.
fn check_tag(image: &str, one: &Referrer) -> Result<(), SeedError> {
    if one.tag.as_ref().is_none_or(|tag| cosign_tags(&one.subject).contains(tag)) {
        return Ok(());
    }
    Err(SeedError::Document {
        what: format!("image {image}"),
        problem: format!(
            "{} is attached to {} under a tag that is none of a signature, an attestation or a bill of materials of it",
            one.manifest.digest, one.subject
        ),
    })
}

/// Where documents are read.
struct Bytes<'a> {
    bundle: &'a Bundle,
    rest: &'a Rest,
    kept: RefCell<Kept>,
}

impl Bytes<'_> {
    fn has(&self, digest: &Digest) -> bool {
        self.bundle.has_blob(digest) || self.rest.contains_key(digest)
    }

    fn document(&self, digest: Digest, what: &str) -> Result<Parsed, SeedError> {
        self.kept.borrow_mut().document(digest, what, || self.read(digest, what))
    }

    fn read(&self, digest: Digest, what: &str) -> Result<Parsed, SeedError> {
        match self.rest.get(&digest) {
            Some(bytes) => document::parse(bytes.clone(), what),
            None if !self.bundle.has_blob(&digest) => {
                Err(SeedError::BaseLacks { what: what.to_owned(), digest, place: "the registry".to_owned() })
            }
            None => document::read(self.bundle, digest, what),
        }
    }
}

/// A document and every one below it that the bundle has.
fn collect(
    from: &Bytes<'_>,
    digest: Digest,
    what: &str,
    depth: usize,
    into: &mut BTreeMap<Digest, Parsed>,
) -> Result<(), SeedError> {
    if into.contains_key(&digest) {
        return Ok(());
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Err(SeedError::Document { what: what.to_owned(), problem: "has indexes without end".to_owned() });
    };
    let parsed = from.document(digest, what)?;
    let below: BTreeSet<Digest> = match &*parsed.links {
        Links::Index(entries) => entries.iter().map(|entry| entry.digest).filter(|one| from.has(one)).collect(),
        Links::Manifest { .. } => BTreeSet::new(),
    };
    into.insert(digest, parsed);
    below.into_iter().try_for_each(|digest| collect(from, digest, what, depth, into))
}
