//! `kubexm-bundle explain`.

use std::path::PathBuf;

use kubexm_builder::explain::{Explained, Question, Root, explain, twice};
use kubexm_builder::resolve::{Candidates, candidates};
use kubexm_builder::session::{Needed, Session};
use kubexm_manifests::{ChartSource, Requirement, Source};
use kubexm_spec::{Lock, PackageRole, Trust};
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::{Value, json};

use super::chart_images::ChartImages;
use super::lockfile;
use super::update::unknown;
use super::what::What;

/// Say why something is in a bundle, from where, and why its digest is trusted; or what would bring it in
///
/// The item is a key (binary/kubeadm), a name (kubeadm, metrics-server), or an image with or without its tag. Images of
/// charts are known by the lock, or by a rendering that the cache has; packages of operating systems that others need,
/// by the lock. No network is needed.
///
/// Examples:
///   kubexm-bundle explain kubeadm -f cluster.yaml
///   kubexm-bundle explain registry.k8s.io/pause --kubernetes v1.34
///   kubexm-bundle explain package/debian-12/libwrap0 -f cluster.yaml
///   kubexm-bundle explain pause:3.9 -f cluster.yaml       # not in: says which pause is
///   kubexm-bundle explain calicoctl -f cluster.yaml       # not in: says what would bring it in
///   kubexm-bundle explain nerdctl -f cluster.yaml         # in no cluster: says how to carry it all the same
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Key, name or image
    #[arg(value_name = "ITEM")]
    item: String,
    #[command(flatten)]
    what: What,
    /// A lock that knows the images of charts [default: cluster.lock.json beside cluster.yaml, by its name, where there is one]
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

/// What is explained from.
struct Known {
    needed: Needed,
    charts: ChartImages,
    lock: Option<Lock>,
}

impl Known {
    fn question(&self) -> Question<'_> {
        let Needed { cluster, catalogue, requirements, .. } = &self.needed;
        Question { cluster, catalogue, requirements, charts: self.charts.all(), lock: self.lock.as_ref() }
    }
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let needed = args.what.read(session)?;
    let lock: Option<Lock> = lockfile::at_hand(args.lock.as_deref(), args.what.file.as_deref())?;
    let charts = ChartImages::known(session, &needed, lock.as_ref(), None);
    let known = Known { needed, charts, lock };
    let found = explain(&args.item, &known.question());
    if let Explained::Unknown { near, unrendered } = &found {
        let failure = unknown(&args.item, near);
        let names: Vec<String> = unrendered.iter().map(ToString::to_string).collect();
        let maybe = match names.is_empty() {
            true => String::new(),
            false => {
                format!("; the images of {} are known when `kubexm-bundle lock` has rendered it", names.join(", "))
            }
        };
        return Err(Failure { text: failure.text + &maybe, ..failure });
    }
    if display.mode() == Mode::Json {
        display.answer(&document(args, &known, &found).to_string());
        return Ok(());
    }
    session.advise(&known.needed.warnings, &known.needed.notes);
    lines(&args.item, &known, &found).iter().for_each(|line| display.answer(line));
    Ok(())
}

/// What is told to people.
fn lines(word: &str, known: &Known, found: &Explained) -> Vec<String> {
    match found {
        Explained::In(items) => items.iter().map(|item| text(item, known)).collect(),
        Explained::Inside { image, carriers } => {
            let mut all = vec![format!("{image} is in, inside of what follows, and no artifact of its own")];
            all.extend(carriers.iter().map(|item| text(item, known)));
            all
        }
        Explained::Rendered { image, by } => {
            let by: Vec<String> = by.iter().map(ToString::to_string).collect();
            vec![format!("chart-image/{image} is in"), format!("  why    the rendering of {} names it", by.join(", "))]
        }
        Explained::Asked(roots) => roots.iter().flat_map(asked_lines).collect(),
        Explained::Otherwise(found) => {
            let mut all = vec![format!("{word} is not in; under that name there is")];
            all.extend(lines(word, known, found));
            all
        }
        Explained::Out { what, with } => {
            let mut all = vec![format!("{what} is not in")];
            all.extend(with.iter().map(|change| format!("  would be in with {change}")));
            all
        }
        Explained::Never { what, because, with } => {
            let mut all = vec![format!("{what} is not in: {because}")];
            all.extend(with.iter().map(|change| format!("  would be carried by {change}")));
            all
        }
        Explained::Unknown { .. } => Vec::new(),
    }
}

/// The same for machines.
fn answer(known: &Known, found: &Explained) -> Value {
    let values = |items: &[Requirement]| -> Vec<Value> { items.iter().map(|item| value(item, known)).collect() };
    match found {
        Explained::In(items) => json!({ "in": true, "answer": "in", "items": values(items) }),
        Explained::Inside { image, carriers } => {
            json!({ "in": true, "answer": "inside", "image": image, "items": values(carriers) })
        }
        Explained::Rendered { image, by } => json!({ "in": true, "answer": "rendered", "image": image, "by": by }),
        Explained::Asked(roots) => {
            json!({ "in": true, "answer": "asked", "items": roots.iter().map(asked_value).collect::<Vec<_>>() })
        }
        Explained::Otherwise(found) => {
            json!({ "in": false, "answer": "other-version", "found": answer(known, found) })
        }
        Explained::Out { what, with } => json!({ "in": false, "answer": "out", "key": what, "with": with }),
        Explained::Never { what, because, with } => {
            json!({ "in": false, "answer": "never", "key": what, "because": because, "with": with })
        }
        Explained::Unknown { near, .. } => json!({ "in": false, "answer": "unknown", "nearest": near }),
    }
}

/// A package of which nothing is known but that it is asked for.
fn asked_lines(asked: &Root) -> Vec<String> {
    vec![
        format!("{} {}", asked.key, asked.platform),
        format!("  why    {}", asked_because(asked)),
        "  version, and what else it needs, are known when `kubexm-bundle lock` has read its repositories".to_owned(),
    ]
}

fn asked_because(asked: &Root) -> String {
    let nodes = match asked.root.role {
        PackageRole::Node => "every node".to_owned(),
        role => format!("nodes of the role {}", role.as_str()),
    };
    let commands = &asked.root.commands;
    let unless =
        if commands.is_empty() { String::new() } else { format!(", unless it has {}", commands.join(" and ")) };
    format!("wanted by {}, for {nodes}{unless}", asked.root.name)
}

fn asked_value(asked: &Root) -> Value {
    json!({ "key": asked.key, "platform": asked.platform, "because": [asked_because(asked)], "root": asked.root })
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
        reasons.push(match asked {
            Some(asked) if asked.trim_start_matches('v') == versions.kubernetes.bare() => {
                format!("spec.kubernetes.version is {asked}")
            }
            Some(asked) => {
                format!(
                    "spec.kubernetes.version is {asked}, whose newest known patch is {}",
                    versions.kubernetes.to_string()
                )
            }
            None => format!(
                "spec.kubernetes.version is not given, and the catalogue's default is {}",
                versions.kubernetes.to_string()
            ),
        });
    }
    reasons
}

/// Addresses in order, and whether each is a mirror.
fn places(item: &Requirement, needed: &Needed) -> Vec<(String, bool)> {
    let candidates = candidates(item, &needed.zone);
    let addresses = candidates.shown();
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
    addresses.into_iter().map(|address| (address.clone(), is_mirror(&address))).collect()
}

fn trust(item: &Requirement) -> &'static str {
    match item.trust {
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
        Source::File { sha256, .. } => sha256.map(|digest| digest.to_string()),
        Source::Image { digest, .. } => digest.map(|digest| digest.to_string()),
        _ => None,
    }
}

/// What nobody has checked about it.
fn doubts(item: &Requirement, needed: &Needed) -> Vec<String> {
    let about = needed.doubts.iter().filter(|doubt| doubt.keys.contains(&item.key));
    about.map(ToString::to_string).collect()
}

fn text(item: &Requirement, known: &Known) -> String {
    let needed = &known.needed;
    let platform = item.platform.map(|platform| format!(" {platform}")).unwrap_or_default();
    let mut lines = vec![format!("{} {}{platform}", item.key, item.version)];
    let mut add = |name: &str, text: String| lines.push(format!("  {name:6} {text}"));
    for (index, reason) in why(item, needed).into_iter().enumerate() {
        add(if index == 0 { "why" } else { "" }, reason);
    }
    if let Source::LocalFile { path }
    | Source::LocalImage { layout: path, .. }
    | Source::LocalYaml { path }
    | Source::Chart { chart: ChartSource::Path { path } } = &item.source
    {
        add("from", format!("{} on this machine", path.display()));
    }
    for (index, (address, mirror)) in places(item, needed).into_iter().enumerate() {
        let kind = if mirror { format!("mirror of zone {}", needed.zone.name) } else { "the origin".to_owned() };
        add(if index == 0 { "from" } else { "" }, format!("{address} ({kind})"));
    }
    add("trust", format!("{}: {}", item.trust, trust(item)));
    if let Some(digest) = pinned(item) {
        add("digest", digest);
    }
    for text in doubts(item, needed) {
        add("doubt", text);
    }
    for (chart, image) in twice(item, &known.question()) {
        add(
            "also",
            format!("as chart-image/{image}, since the rendering of {chart} names it so; its blobs are carried once"),
        );
    }
    for (index, image) in known.charts.lines(&item.key).into_iter().enumerate() {
        add(if index == 0 { "images" } else { "" }, image);
    }
    lines.join("\n")
}

fn value(item: &Requirement, known: &Known) -> Value {
    let needed = &known.needed;
    let sources: Vec<Value> = places(item, needed)
        .into_iter()
        .map(|(address, mirror)| json!({ "address": address, "mirror": mirror }))
        .collect();
    let also: Vec<Value> = twice(item, &known.question())
        .into_iter()
        .map(|(chart, image)| json!({ "key": format!("chart-image/{image}"), "by": chart }))
        .collect();
    json!({
        "key": item.key, "platform": item.platform, "version": item.version, "because": why(item, needed),
        "optional": item.optional, "trust": item.trust, "trustMeans": trust(item), "digest": pinned(item),
        "sources": sources, "images": known.charts.value(&item.key), "unverified": doubts(item, needed),
        "also": also,
    })
}

fn document(args: &Args, known: &Known, found: &Explained) -> Value {
    let (needed, mut more) = (&known.needed, answer(known, found));
    more["schema"] = "kubexm.io/explain/v1".into();
    more["item"] = args.item.as_str().into();
    more["zone"] = needed.zone.name.as_str().into();
    more["warnings"] = json!(needed.warnings);
    more["notes"] = json!(needed.notes);
    more
}
