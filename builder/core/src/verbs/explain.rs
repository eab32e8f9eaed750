//! Why something is in a bundle, from where, and why its digest is trusted; or what would bring it in.

use std::path::{Path, PathBuf};

use kubexm_manifests::{ChartSource, Requirement, Source};
use kubexm_spec::lock::PackageRoot;
use kubexm_spec::{ArtifactKey, Lock, PackageRole, Platform, Trust};
use serde::Serialize;

use super::chart_images::{self, Known};
use super::update::unknown;
use crate::explain::{Explained, Question, Root, explain as of_word, twice};
use crate::resolve::{Candidates, candidates};
use crate::session::{Needed, Session, SessionError, lockfile};

/// The answer about one word.
#[derive(Debug, Serialize)]
pub struct Explanation {
    schema: &'static str,
    /// As it was asked.
    pub item: String,
    pub zone: String,
    pub warnings: Vec<String>,
    pub notes: Vec<String>,
    #[serde(flatten)]
    pub found: Found,
}

/// Whether it is in, and what there is to say of it.
#[derive(Debug, Serialize)]
pub struct Found {
    #[serde(rename = "in")]
    pub is_in: bool,
    #[serde(flatten)]
    pub answer: Answer,
}

/// What a word stands for in a cluster.
#[derive(Debug, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// It is needed, for one platform or more.
    In { items: Vec<Item> },
    /// An image that comes inside of something that is needed.
    Inside { image: String, items: Vec<Item> },
    /// An image that the rendering of these charts names.
    Rendered { image: String, by: Vec<ArtifactKey> },
    /// Packages of which nothing is known but that they are asked for.
    Asked { items: Vec<AskedItem> },
    /// Not in this version; what is there under its name.
    OtherVersion { found: Box<Found> },
    /// It is not in, and each of these changes would bring it in.
    Out { key: String, with: Vec<String> },
    /// Known, and no cluster brings it in.
    Never { key: String, because: &'static str, with: Vec<String> },
    /// Nothing has this name.
    Unknown { nearest: Vec<String> },
}

/// An artifact for one platform.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    pub key: ArtifactKey,
    pub platform: Option<Platform>,
    pub version: String,
    /// Reasons, the nearest first.
    pub because: Vec<String>,
    pub optional: bool,
    pub trust: Trust,
    pub trust_means: &'static str,
    /// Where it is known before anything is fetched.
    pub digest: Option<String>,
    /// Addresses in the order in which they are asked.
    pub sources: Vec<SourceAddress>,
    /// Of a chart or YAML add-on; none where only rendering could tell.
    pub images: Option<Vec<String>>,
    /// What nobody has checked about it.
    pub unverified: Vec<String>,
    /// Other names under which a rendering asks for the same image.
    pub also: Vec<Also>,
    /// Whether it is a chart or YAML add-on.
    #[serde(skip)]
    pub is_chart: bool,
    /// Of what is on this machine.
    #[serde(skip)]
    pub local: Option<PathBuf>,
}

/// Where an artifact may come from.
#[derive(Debug, Serialize)]
pub struct SourceAddress {
    pub address: String,
    /// Of the zone; otherwise it is the origin.
    pub mirror: bool,
}

/// The same image under another name.
#[derive(Debug, Serialize)]
pub struct Also {
    /// `chart-image/…`.
    pub key: String,
    /// The chart.
    pub by: ArtifactKey,
}

/// A package of which nothing is known but that it is asked for.
#[derive(Debug, Serialize)]
pub struct AskedItem {
    pub key: ArtifactKey,
    pub platform: Platform,
    pub because: [String; 1],
    pub root: PackageRoot,
}

/// What is explained from.
struct Context<'a> {
    needed: &'a Needed,
    charts: &'a [Known],
    lock: Option<&'a Lock>,
}

/// Explains one word. `lock` is a file; without one, the lock beside cluster.yaml is used where there is one.
pub fn explain(
    session: &Session,
    word: &str,
    needed: &Needed,
    lock: Option<&Path>,
    cluster_file: Option<&Path>,
) -> Result<Explanation, SessionError> {
    let lock = lockfile::at_hand(lock, cluster_file)?;
    let charts = chart_images::known(session, needed, lock.as_ref(), None);
    let context = Context { needed, charts: &charts, lock: lock.as_ref() };
    let found = of_word(word, &context.question());
    if let Explained::Unknown { near, unrendered } = &found {
        let names: Vec<String> = unrendered.iter().map(ToString::to_string).collect();
        let maybe = match names.is_empty() {
            true => String::new(),
            false => {
                format!("; the images of {} are known when `kubexm-bundle lock` has rendered it", names.join(", "))
            }
        };
        return Err(unknown(word, near, &maybe));
    }
    Ok(Explanation {
        schema: "kubexm.io/explain/v1",
        item: word.to_owned(),
        zone: needed.zone.name.clone(),
        warnings: needed.warnings.clone(),
        notes: needed.notes.clone(),
        found: context.found(found),
    })
}

impl Context<'_> {
    fn question(&self) -> Question<'_> {
        let Needed { cluster, catalogue, requirements, .. } = self.needed;
        Question { cluster, catalogue, requirements, charts: self.charts, lock: self.lock }
    }

    fn found(&self, explained: Explained) -> Found {
        let items = |items: Vec<Requirement>| items.iter().map(|item| self.item(item)).collect();
        let (is_in, answer) = match explained {
            Explained::In(all) => (true, Answer::In { items: items(all) }),
            Explained::Inside { image, carriers } => (true, Answer::Inside { image, items: items(carriers) }),
            Explained::Rendered { image, by } => (true, Answer::Rendered { image, by }),
            Explained::Asked(roots) => (true, Answer::Asked { items: roots.into_iter().map(asked).collect() }),
            Explained::Otherwise(found) => (false, Answer::OtherVersion { found: Box::new(self.found(*found)) }),
            Explained::Out { what, with } => (false, Answer::Out { key: what, with }),
            Explained::Never { what, because, with } => (false, Answer::Never { key: what, because, with }),
            Explained::Unknown { near, .. } => (false, Answer::Unknown { nearest: near }),
        };
        Found { is_in, answer }
    }

    fn item(&self, item: &Requirement) -> Item {
        let needed = self.needed;
        let also = twice(item, &self.question()).into_iter();
        let images = self.charts.iter().find(|(known, _)| *known == item.key);
        let local = match &item.source {
            Source::LocalFile { path }
            | Source::LocalImage { layout: path, .. }
            | Source::LocalYaml { path }
            | Source::Chart { chart: ChartSource::Path { path } } => Some(path.clone()),
            _ => None,
        };
        let doubts = needed.doubts.iter().filter(|doubt| doubt.keys.contains(&item.key));
        Item {
            key: item.key.clone(),
            platform: item.platform,
            version: item.version.clone(),
            because: why(item, needed),
            optional: item.optional,
            trust: item.trust,
            trust_means: trust_means(item.trust),
            digest: pinned(item),
            sources: source_addresses(item, needed),
            images: images.and_then(|(_, images)| images.clone()),
            unverified: doubts.map(ToString::to_string).collect(),
            also: also.map(|(chart, image)| Also { key: format!("chart-image/{image}"), by: chart }).collect(),
            is_chart: images.is_some(),
            local,
        }
    }
}

fn asked(asked: Root) -> AskedItem {
    let nodes = match asked.root.role {
        PackageRole::Node => "every node".to_owned(),
        role => format!("nodes of the role {}", role.as_str()),
    };
    let commands = &asked.root.commands;
    let unless =
        if commands.is_empty() { String::new() } else { format!(", unless it has {}", commands.join(" and ")) };
    let because = [format!("required by {}, for {nodes}{unless}", asked.root.name)];
    AskedItem { key: asked.key, platform: asked.platform, because, root: asked.root }
}

/// Reasons, the nearest first.
fn why(item: &Requirement, needed: &Needed) -> Vec<String> {
    // Of a package, the way to it.
    let mut reasons: Vec<String> = item.because.split('\n').map(str::to_owned).collect();
    let asked = needed.cluster.kubernetes.as_ref().map(|kubernetes| kubernetes.version.as_deref());
    let versions = needed.requirements.versions.as_ref();
    if let (Some(asked), Some(versions)) = (asked, versions)
        && item.because.contains(versions.kubernetes.bare())
    {
        let tag = versions.kubernetes.to_string();
        reasons.push(match asked {
            Some(asked) if asked.trim_start_matches('v') == versions.kubernetes.bare() => {
                format!("spec.kubernetes.version is {asked}")
            }
            Some(asked) => format!("spec.kubernetes.version is {asked}, whose newest known patch is {tag}"),
            None => format!("spec.kubernetes.version is not given, and the catalogue's default is {tag}"),
        });
    }
    reasons
}

fn source_addresses(item: &Requirement, needed: &Needed) -> Vec<SourceAddress> {
    let candidates = candidates(item, &needed.zone);
    let origin = match &item.source {
        Source::File { url, .. } => kubexm_transport::http::shown(url),
        Source::Chart { chart: ChartSource::Repository { .. } } => {
            item.source.addresses().first().map(|url| kubexm_transport::http::shown(url)).unwrap_or_default()
        }
        Source::Chart { chart: ChartSource::Oci { reference, .. } } => reference.clone(),
        Source::Image { reference, .. } => kubexm_spec::depot::split_reference(reference).0.to_owned(),
        _ => String::new(),
    };
    let is_mirror = |address: &str| !matches!(candidates, Candidates::Local) && address != origin;
    let addresses = candidates.shown().into_iter();
    addresses.map(|address| SourceAddress { mirror: is_mirror(&address), address }).collect()
}

fn trust_means(trust: Trust) -> &'static str {
    match trust {
        Trust::Pinned => "the catalogue of this release has its digest",
        Trust::UpstreamChecksum => "upstream publishes its digest beside it",
        Trust::Overlay => "a catalogue overlay has its digest",
        Trust::Mirror => "only a mirror answers for it",
        Trust::OciDigest => "the registry says what the tag is; a lock keeps it",
        Trust::User => "cluster.yaml has its digest, or the thing itself",
        Trust::SelfBuilt => "it is this very program, or one given on the command line",
        Trust::Gpg => "metadata that is signed has its digest",
        Trust::PinnedSha256 => "metadata whose digest is pinned has its digest",
    }
}

fn pinned(item: &Requirement) -> Option<String> {
    match &item.source {
        Source::File { sha256: digest, .. } | Source::Image { digest, .. } => digest.map(|digest| digest.to_string()),
        _ => None,
    }
}
