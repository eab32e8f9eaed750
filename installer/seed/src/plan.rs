//! What goes where: pure, and whatever cannot be is refused here, before a registry is asked anything.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kubexm_spec::{Digest, Platform, counted_of};

use crate::artifact::{Blobs, Source};
use crate::contents::{Attached, Contents, Image, NamedArtifact};
use crate::document::{Document, Links};
use crate::error::{Collision, SeedError};
use crate::form::Form;
use crate::naming::Naming;
use crate::platforms::{Pushed, choose};
use crate::reduced::Reduced;
use crate::report::{Mapped, State};

/// What of a bundle is pushed.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only these; all of the bundle's when empty.
    pub platforms: Vec<Platform>,
    /// Indexes are pushed as upstream's even where they name what is not there.
    pub sparse_indexes: bool,
}

/// Everything that the registry will have.
#[derive(Debug)]
pub struct SeedPlan {
    pub(crate) naming: Naming,
    pub(crate) repositories: BTreeMap<String, RepositoryPlan>,
    /// One line for each image, chart and file.
    pub entries: Vec<Mapped>,
    /// What differs from upstream's, and what is left out: said before anything is pushed.
    pub notes: Vec<String>,
}

/// One repository.
#[derive(Debug, Default)]
pub(crate) struct RepositoryPlan {
    /// Children before who names them, referrers after what they are about.
    pub documents: Vec<Planned>,
    /// Their digests.
    known: BTreeSet<Digest>,
    /// What each tag names, and whose it is.
    pub tags: BTreeMap<String, (Digest, String)>,
}

/// One manifest or index.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub document: Arc<Document>,
    /// Config and layers.
    pub blobs: Blobs,
    /// What it refers to, with its artifact type.
    pub subject: Option<(Digest, String)>,
}

/// Plans it.
///
/// # Errors
/// Names collide or are none, an image is named by what would not be there, or there is nothing to push.
pub fn plan(contents: &Contents, naming: &Naming, choice: &Choice) -> Result<SeedPlan, SeedError> {
    let platforms = platforms(contents, choice)?;
    let mut planner = Planner {
        plan: SeedPlan {
            naming: naming.clone(),
            repositories: BTreeMap::new(),
            entries: Vec::new(),
            notes: Vec::new(),
        },
        collisions: Vec::new(),
        by_digest: Vec::new(),
        forms: BTreeMap::new(),
    };
    let mut reduced = Reduced::default();
    for (name, image) in &contents.images {
        match choose(image, &platforms, choice.sparse_indexes, &mut reduced)? {
            Some(pushed) => planner.image(name, image, pushed, &platforms)?,
            None => {
                planner.plan.notes.push(format!("{name}: left out, since the bundle has it for other platforms only"))
            }
        }
    }
    for chart in &contents.left_out {
        planner.plan.notes.push(format!("{chart}: left out, since the delta does; it stays in the registry as it is"));
    }
    for chart in &contents.charts {
        let repository = naming.chart(&chart.name)?;
        planner.artifact("chart", &repository, chart);
    }
    for file in &contents.files {
        let repository = naming.files()?;
        planner.artifact("file", &repository, file);
    }
    planner.finish()
}

fn platforms(contents: &Contents, choice: &Choice) -> Result<BTreeSet<Platform>, SeedError> {
    let text = |all: &[Platform]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    for asked in &choice.platforms {
        if !contents.platforms.contains(asked) {
            return Err(SeedError::Platform { asked: asked.to_string(), found: text(&contents.platforms) });
        }
    }
    let chosen = if choice.platforms.is_empty() { &contents.platforms } else { &choice.platforms };
    Ok(chosen.iter().copied().collect())
}

struct Planner {
    plan: SeedPlan,
    collisions: Vec<Collision>,
    by_digest: Vec<String>,
    /// Images by what was made of their index.
    forms: BTreeMap<&'static str, Vec<String>>,
}

impl Planner {
    fn image(
        &mut self,
        name: &str,
        image: &Image,
        pushed: Pushed,
        platforms: &BTreeSet<Platform>,
    ) -> Result<(), SeedError> {
        let repository = self.plan.naming.image(&image.reference)?;
        let replaced = pushed.target != image.target;
        if replaced && image.reference.digest == Some(image.target) {
            self.by_digest.push(name.to_owned());
        }
        if let Some(said) = said(pushed.form) {
            self.forms.entry(said).or_default().push(name.to_owned());
        }
        let mut there = BTreeSet::new();
        for document in &pushed.documents {
            there.insert(document.digest);
            let blobs = image.documents.get(&document.digest).map(|parsed| blobs(&parsed.links)).unwrap_or_default();
            self.document(&repository, Planned { document: Arc::clone(document), blobs, subject: None });
        }
        let referrers = self.referrers(name, image, &repository, there);
        let tag = image.reference.tag.clone();
        if let Some(tag) = &tag {
            self.tag(&repository, tag, pushed.target, name);
        }
        let whole = self.plan.naming.whole(&repository);
        let to = match &tag {
            Some(tag) => format!("{whole}:{tag}"),
            None => format!("{whole}@{}", pushed.target),
        };
        self.plan.entries.push(Mapped {
            kind: "image",
            from: name.to_owned(),
            to,
            digest: pushed.target,
            upstream_digest: replaced.then_some(image.target),
            platforms: image.manifests.keys().filter(|one| platforms.contains(one)).copied().collect(),
            form: Some(pushed.form),
            referrers,
            state: State::Missing,
            repository,
            tag,
        });
        Ok(())
    }

    /// What is attached to something that is pushed, and what is attached to that.
    fn referrers(&mut self, name: &str, image: &Image, repository: &str, there: BTreeSet<Digest>) -> Vec<Digest> {
        // From what is there on, each once: a search through all of them for each step of a chain would take their number squared.
        let mut about: BTreeMap<Digest, Vec<&Attached>> = BTreeMap::new();
        for one in image.referrers.values().filter(|one| !there.contains(&one.subject)) {
            about.entry(one.subject).or_default().push(one);
        }
        let first = image.referrers.values().filter(|one| there.contains(&one.subject));
        let mut next: VecDeque<&Attached> = first.collect();
        let mut taken = Vec::new();
        while let Some(one) = next.pop_front() {
            let digest = one.parsed.document.digest;
            taken.push(digest);
            self.referrer(name, repository, one);
            next.extend(about.remove(&digest).unwrap_or_default());
        }
        let left: Vec<&Attached> = about.into_values().flatten().collect();
        if !left.is_empty() {
            self.plan.notes.push(format!(
                "{name}: {} of its index left out, which the registry does not get (build for all platforms, or --sparse-indexes)",
                counted_of(&left, "signature or attestation")
            ));
        }
        taken
    }

    fn referrer(&mut self, name: &str, repository: &str, one: &Attached) {
        let document = &one.parsed.document;
        let subject = match &*one.parsed.links {
            Links::Manifest { subject: Some(subject), artifact_type, .. } => {
                Some((*subject, artifact_type.clone().unwrap_or_default()))
            }
            _ => None,
        };
        let blobs = blobs(&one.parsed.links);
        self.document(repository, Planned { document: Arc::clone(document), blobs, subject });
        if let Some(tag) = &one.tag {
            self.tag(repository, tag, document.digest, name);
        }
    }

    fn artifact(&mut self, kind: &'static str, repository: &str, named: &NamedArtifact) {
        let document = Arc::new(named.artifact.document.clone());
        let (digest, tag) = (document.digest, named.artifact.tag.clone());
        let blobs = named.artifact.blobs.clone();
        self.document(repository, Planned { document, blobs, subject: None });
        self.tag(repository, &tag, digest, &named.from);
        self.plan.entries.push(Mapped {
            kind,
            from: named.from.clone(),
            to: format!("{}:{tag}", self.plan.naming.whole(repository)),
            digest,
            upstream_digest: None,
            platforms: Vec::new(),
            form: None,
            referrers: Vec::new(),
            state: State::Missing,
            repository: repository.to_owned(),
            tag: Some(tag),
        });
    }

    fn document(&mut self, repository: &str, planned: Planned) {
        let repository = self.plan.repositories.entry(repository.to_owned()).or_default();
        if repository.known.insert(planned.document.digest) {
            repository.documents.push(planned);
        }
    }

    fn tag(&mut self, repository: &str, tag: &str, digest: Digest, from: &str) {
        let tags = &mut self.plan.repositories.entry(repository.to_owned()).or_default().tags;
        match tags.get(tag) {
            Some((other, of)) if *other != digest => {
                let name = format!("{}:{tag}", self.plan.naming.whole(repository));
                let images = self.plan.naming.is_of_image(repository);
                self.collisions.push(Collision { name, of: [of.clone(), from.to_owned()], images });
            }
            Some(_) => {}
            None => drop(tags.insert(tag.to_owned(), (digest, from.to_owned()))),
        }
    }

    fn finish(mut self) -> Result<SeedPlan, SeedError> {
        if !self.collisions.is_empty() {
            return Err(SeedError::Collides(self.collisions));
        }
        if !self.by_digest.is_empty() {
            return Err(SeedError::ByIndexDigest(self.by_digest));
        }
        for (said, names) in self.forms {
            self.plan.notes.push(format!("{}: {said}: {}", counted_of(&names, "image"), names.join(", ")));
        }
        Ok(self.plan)
    }
}

/// What is said before the push of an image that is not upstream's byte for byte.
const fn said(form: Form) -> Option<&'static str> {
    match form {
        Form::Whole => None,
        Form::OnePlatform => Some(
            "the tag names the manifest of the one platform that the bundle has, and the digest of upstream's index is not \
             in the registry",
        ),
        Form::Reduced => Some(
            "the tag names an index of the platforms that the bundle has, and the digest of upstream's index is not in the \
             registry",
        ),
        Form::Sparse => {
            Some("upstream's index is pushed though the bundle lacks some of its platforms; a registry may refuse it")
        }
    }
}

fn blobs(links: &Links) -> Blobs {
    match links {
        Links::Index(_) => Blobs::new(),
        Links::Manifest { blobs, .. } => {
            blobs.iter().map(|(digest, size)| (*digest, (*size, Source::Bundle))).collect()
        }
    }
}
