//! `kubexm-bundle zone check`.

use std::path::PathBuf;

use kubexm_builder::probe::State;
use kubexm_builder::verbs::zone_check::{Answer, Asked, Checked, Request, check};
use kubexm_spec::counted;
use kubexm_terminal::Failure;

use crate::args::{Fetching, What};
use crate::context::Context;

/// Ask every place whether it has what is needed, before a long build does
///
/// Every candidate is asked, whatever the cache has: for a file by HEAD, or by GET of one byte
/// where HEAD is refused; for an image by index, manifest and config, as a build does, so that an
/// image without a wanted platform, or whose config names another architecture, is a hole. Layers
/// are not asked for. Images of charts are known by the lock, or by a rendering that the cache has;
/// a chart of which neither knows is reported. Of operating systems whose packages are needed, the
/// repositories are asked: each must be signed by its vendor's key, be good today, and have the
/// indexes that it lists.
///
/// A place that lacks something is a hole; one that does not answer (refused, silent, 429, 5xx) may
/// have it later. Where another place has it, a build continues there, and the exit code is 0. It is
/// 45 when something can be found nowhere, and 40 when nothing is worse than that something may only
/// be had later.
///
/// Examples:
///   kubexm-bundle zone check -f cluster.yaml
///   kubexm-bundle zone check -f cluster.yaml --zone inside.yaml --all
///   kubexm-bundle zone check -f cluster.yaml --json | jq '.items[] | select(.state == "missing")'
///   KMZONE=cn kubexm-bundle zone check --kubernetes v1.34
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    fetching: Fetching,
    /// A lock that knows the images of charts [default: cluster.lock.json beside cluster.yaml, by its name, where there is one]
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Show every place that was asked, not only those that lack something or do not answer
    #[arg(long)]
    all: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let session = context.session;
    let needed = args.what.read(session)?;
    let fetching = args.fetching.options();
    let request = Request { fetching: &fetching, lock: args.lock.as_deref(), file: args.what.file.as_deref() };
    let ready = |unknown: &[kubexm_spec::ArtifactKey]| {
        if !context.json() {
            session.advise(&needed.warnings, &needed.notes);
            unknown.iter().for_each(|key| {
                context.note(format!(
                    "the images of {key} are not asked for: `kubexm-bundle lock` renders it, and knows them then"
                ));
            });
        }
    };
    let checked = check(session, &needed, &request, ready, context.runtime()?.handle())?;
    context.answer(&checked, |checked| {
        context.display.clear();
        checked.left_out.iter().for_each(|text| context.warn(text.clone()));
        lines(checked, args.all)
    })?;
    context.end(checked.code(), || nowhere_or_later(&checked))
}

fn lines(checked: &Checked, all: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for item in &checked.items {
        let checksums = item.checksums.iter().map(|place| ("checksum ", place));
        let places = item.places.iter().map(|place| ("", place)).chain(checksums);
        lines.extend(of_places(item.state, &item.name, places, all));
    }
    for one in &checked.repositories {
        let places = one.places.iter().map(|place| ("", place));
        lines.extend(of_places(one.state, &format!("repository {}", one.name), places, all));
    }
    lines.push(format!("zone {}: {}", checked.zone, sum(checked)));
    lines
}

/// Nothing where every place has it, unless `all` are shown.
fn of_places<'p>(
    state: State,
    name: &str,
    places: impl Iterator<Item = (&'static str, &'p Asked)>,
    all: bool,
) -> Vec<String> {
    let shown: Vec<String> = places.filter(|(_, place)| all || !place.available).map(line).collect();
    let verdict = match state {
        State::Available => "ok  ",
        State::Unanswered => "DOWN",
        State::Missing => "GONE",
    };
    match shown.is_empty() && !all {
        true => Vec::new(),
        false => [vec![format!("{verdict} {name}")], shown].concat(),
    }
}

fn line((what, place): (&'static str, &Asked)) -> String {
    let address = &place.address;
    match (&place.answer, place.state) {
        (Answer::Has { .. }, _) => format!("     has it  {what}{address}"),
        (Answer::Hole { reason, .. }, State::Unanswered) => format!("     silent  {what}{address}: {reason}"),
        (Answer::Hole { reason, .. }, _) => format!("     hole    {what}{address}: {reason}"),
    }
}

fn sum(checked: &Checked) -> String {
    let mut text = counted(checked.total, "artifact");
    match checked.repositories.len() {
        0 => {}
        1 => text.push_str(" and 1 repository of packages"),
        more => text.push_str(&format!(" and {more} repositories of packages")),
    }
    text.push_str(&format!(", {}", counted(checked.holes as u64, "hole")));
    match checked.unanswered {
        0 => {}
        1 => text.push_str(", 1 place that does not answer now"),
        more => text.push_str(&format!(", {more} places that do not answer now")),
    }
    text.push_str(&format!(", {} not available from any source", checked.nowhere.len()));
    if !checked.later.is_empty() {
        text.push_str(&format!(", {} not available now", checked.later.len()));
    }
    text
}

fn nowhere_or_later(checked: &Checked) -> String {
    let mut lines = Vec::new();
    if !checked.nowhere.is_empty() {
        lines.push(format!(
            "not available from any source: {}; give them another place (a rule of a zone file, an overlay of the catalogue), or leave them out",
            checked.nowhere.join(", ")
        ));
    }
    if !checked.later.is_empty() {
        lines.push(format!(
            "not available now: {}; their sources do not answer: check again later, or fix the network",
            checked.later.join(", ")
        ));
    }
    lines.join("\n")
}
