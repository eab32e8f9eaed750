//! `kubexm-bundle explain`.

use kubexm_builder::explain::{Explained, explain};
use kubexm_builder::resolve::{Candidates, candidates};
use kubexm_builder::update::near;
use kubexm_manifests::{Requirement, Source};
use kubexm_spec::Trust;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::{Value, json};

use super::chart_images::ChartImages;
use super::update::unknown;
use super::what::{Needed, What};

/// Say why something is in a bundle, from where, and why its digest is believed; or what would bring it in
///
/// The item is a key (binary/kubeadm), a name (kubeadm), or an image with or without its tag. No network
/// is needed.
///
/// Examples:
///   kubexm-bundle explain kubeadm -f cluster.yaml
///   kubexm-bundle explain registry.k8s.io/pause --kubernetes v1.34
///   kubexm-bundle explain calicoctl -f cluster.yaml       # not in: says what would bring it in
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Key, name or image
    #[arg(value_name = "ITEM")]
    item: String,
    #[command(flatten)]
    what: What,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let needed = args.what.read()?;
    let json = display.mode() == Mode::Json;
    if !json {
        needed.tell(display);
    }
    match explain(&args.item, &needed.cluster, &needed.catalogue, &needed.requirements) {
        Explained::In(found) if json => {
            let items: Vec<Value> = found.iter().map(|item| value(item, &needed)).collect();
            display.answer(&document(args, &needed, json!({ "in": true, "items": items })).to_string());
        }
        Explained::In(found) => found.iter().for_each(|item| display.answer(&text(item, &needed))),
        Explained::Out { key, with } if json => {
            display.answer(&document(args, &needed, json!({ "in": false, "key": key, "with": with })).to_string());
        }
        Explained::Out { key, with } => {
            display.answer(&format!("{key} is not in"));
            with.iter().for_each(|change| display.answer(&format!("  would be in with {change}")));
        }
        Explained::Unknown { known } => return Err(unknown(&args.item, &near(&args.item, known.iter()))),
    }
    Ok(())
}

/// Reasons, the nearest first.
fn why(item: &Requirement, needed: &Needed) -> Vec<String> {
    let mut reasons = vec![item.because.clone()];
    let asked = needed.cluster.kubernetes.as_ref().map(|kubernetes| kubernetes.version.as_deref());
    let versions = needed.requirements.versions.as_ref();
    if let (Some(asked), Some(versions)) = (asked, versions)
        && item.because.contains(&versions.kubernetes)
    {
        reasons.push(match asked {
            Some(asked) if asked.trim_start_matches('v') == versions.kubernetes => {
                format!("spec.kubernetes.version is {asked}")
            }
            Some(asked) => {
                format!("spec.kubernetes.version is {asked}, whose newest known patch is {}", versions.kubernetes_tag())
            }
            None => format!(
                "spec.kubernetes.version is not given, and the catalogue's default is {}",
                versions.kubernetes_tag()
            ),
        });
    }
    reasons
}

/// Addresses in order, and whether each is a mirror.
fn places(item: &Requirement, needed: &Needed) -> Vec<(String, bool)> {
    let candidates = candidates(item, &needed.zone);
    let addresses = candidates.addresses();
    let origin = match &item.source {
        Source::File { url, .. } => url.clone(),
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

fn text(item: &Requirement, needed: &Needed) -> String {
    let platform = item.platform.map(|platform| format!(" {platform}")).unwrap_or_default();
    let mut lines = vec![format!("{} {}{platform}", item.key, item.version)];
    let mut add = |name: &str, text: String| lines.push(format!("  {name:6} {text}"));
    for (index, reason) in why(item, needed).into_iter().enumerate() {
        add(if index == 0 { "why" } else { "" }, reason);
    }
    if let Source::LocalFile { path } | Source::LocalImage { layout: path, .. } = &item.source {
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
    for (index, image) in ChartImages::known(needed, None, None).lines(&item.key).into_iter().enumerate() {
        add(if index == 0 { "images" } else { "" }, image);
    }
    lines.join("\n")
}

fn value(item: &Requirement, needed: &Needed) -> Value {
    let sources: Vec<Value> = places(item, needed)
        .into_iter()
        .map(|(address, mirror)| json!({ "address": address, "mirror": mirror }))
        .collect();
    json!({
        "key": item.key, "platform": item.platform, "version": item.version, "because": why(item, needed),
        "optional": item.optional, "trust": item.trust, "trustMeans": trust(item), "digest": pinned(item),
        "sources": sources, "images": ChartImages::known(needed, None, None).value(&item.key),
    })
}

fn document(args: &Args, needed: &Needed, mut more: Value) -> Value {
    more["schema"] = "kubexm.io/explain/v1".into();
    more["item"] = args.item.as_str().into();
    more["zone"] = needed.zone.name.as_str().into();
    more["warnings"] = json!(needed.warnings);
    more["notes"] = json!(needed.notes);
    more
}
