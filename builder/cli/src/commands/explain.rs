//! `kubexm-bundle explain`.

use std::path::PathBuf;

use kubexm_builder::verbs::explain::{Answer, Explanation, Found, Item, explain};
use kubexm_terminal::Failure;

use super::chart_images;
use crate::args::What;
use crate::context::Context;

/// Explain why something is in a bundle, where it comes from, and why its digest is trusted; or what would add it
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
///   kubexm-bundle explain calicoctl -f cluster.yaml       # not in: says what would add it
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

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let session = context.session;
    let needed = args.what.read(session)?;
    let explained = explain(session, &args.item, &needed, args.lock.as_deref(), args.what.file.as_deref())?;
    context.answer(&explained, |Explanation { item, zone, warnings, notes, found, .. }| {
        session.advise(warnings, notes);
        lines(item, zone, found)
    })
}

fn lines(word: &str, zone: &str, found: &Found) -> Vec<String> {
    let items = |items: &[Item]| items.iter().map(|item| text(item, zone)).collect::<Vec<_>>();
    let with = |first: String, how: &str, with: &[String]| {
        let changes = with.iter().map(|change| format!("  would be {how} {change}"));
        std::iter::once(first).chain(changes).collect()
    };
    match &found.answer {
        Answer::In { items: all } => items(all),
        Answer::Inside { image, items: carriers } => {
            let first = format!("{image} is in, inside of what follows, and no artifact of its own");
            [vec![first], items(carriers)].concat()
        }
        Answer::Rendered { image, by } => {
            let by: Vec<String> = by.iter().map(ToString::to_string).collect();
            vec![format!("chart-image/{image} is in"), format!("  why    the rendering of {} names it", by.join(", "))]
        }
        Answer::Asked { items } => {
            let later =
                "  version, and what else it needs, are known when `kubexm-bundle lock` has read its repositories";
            let of = |asked: &kubexm_builder::verbs::explain::AskedItem| {
                let [because] = &asked.because;
                [format!("{} {}", asked.key, asked.platform), format!("  why    {because}"), later.to_owned()]
            };
            items.iter().flat_map(of).collect()
        }
        Answer::OtherVersion { found } => {
            [vec![format!("{word} is not in; under that name there is")], lines(word, zone, found)].concat()
        }
        Answer::Out { key, with: changes } => with(format!("{key} is not in"), "in with", changes),
        Answer::Never { key, because, with: ways } => with(format!("{key} is not in: {because}"), "carried by", ways),
        Answer::Unknown { .. } => Vec::new(),
    }
}

fn text(item: &Item, zone: &str) -> String {
    let platform = item.platform.map(|platform| format!(" {platform}")).unwrap_or_default();
    let mut lines = vec![format!("{} {}{platform}", item.key, item.version)];
    let mut add = |name: &str, texts: Vec<String>| {
        for (index, text) in texts.into_iter().enumerate() {
            lines.push(format!("  {:6} {text}", if index == 0 { name } else { "" }));
        }
    };
    add("why", item.because.clone());
    add("from", item.local.iter().map(|path| format!("{} on this machine", path.display())).collect());
    let kind = |mirror| if mirror { format!("mirror of zone {zone}") } else { "the origin".to_owned() };
    let sources = item.sources.iter().map(|source| format!("{} ({})", source.address, kind(source.mirror)));
    add("from", sources.collect());
    add("trust", vec![format!("{}: {}", item.trust, item.trust_means)]);
    add("digest", item.digest.iter().cloned().collect());
    item.unverified.iter().for_each(|doubt| add("doubt", vec![doubt.clone()]));
    for also in &item.also {
        let (key, chart) = (&also.key, &also.by);
        add("also", vec![format!("as {key}, since the rendering of {chart} names it so; its blobs are carried once")]);
    }
    if item.is_chart {
        add("images", chart_images(item.images.as_deref()));
    }
    lines.join("\n")
}
