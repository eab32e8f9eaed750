//! `kubexm-bundle zone check`.

use std::path::PathBuf;

use kubexm_builder::by_cause::first_of;
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
    let items = checked.items.iter().map(|item| {
        let checksums = item.checksums.iter().map(|place| ("checksum ", place));
        let places = item.places.iter().map(|place| ("", place)).chain(checksums);
        Answers { state: item.state, name: item.name.clone(), places: places.collect() }
    });
    let repositories = checked.repositories.iter().map(|one| {
        let places = one.places.iter().map(|place| ("", place));
        Answers { state: one.state, name: format!("repository {}", one.name), places: places.collect() }
    });
    let answers =
        items.chain(repositories).map(|answers| answers.shown(all)).filter(|one| all || !one.places.is_empty());
    let mut groups: Vec<Group<'_>> = Vec::new();
    for one in answers {
        let cause = one.cause().filter(|_| !all).map(|cause| (one.state, cause));
        match groups.iter_mut().find(|(known, _)| cause.is_some() && *known == cause) {
            Some((_, same)) => same.push(one),
            None => groups.push((cause, vec![one])),
        }
    }
    let mut lines: Vec<String> = groups.iter().flat_map(|(cause, same)| of_group(cause.as_ref(), same)).collect();
    lines.push(format!("zone {}: {}", checked.zone, sum(checked)));
    lines
}

/// Artifacts and repositories of one cause; one where it has none.
type Group<'c> = (Option<(State, String)>, Vec<Answers<'c>>);

/// What the places of one artifact or repository said.
struct Answers<'c> {
    state: State,
    name: String,
    /// Each with what it is asked for besides the thing itself.
    places: Vec<(&'static str, &'c Asked)>,
}

impl Answers<'_> {
    /// Without the places that have it, unless `all` are shown.
    fn shown(mut self, all: bool) -> Self {
        self.places.retain(|(_, place)| all || !place.available);
        self
    }

    /// What is wrong with the servers, where it is nothing else.
    fn cause(&self) -> Option<String> {
        let mut causes: Vec<&str> = Vec::new();
        for (_, place) in &self.places {
            let cause = place.cause.as_deref()?;
            if !causes.contains(&cause) {
                causes.push(cause);
            }
        }
        (!causes.is_empty()).then(|| causes.join("\n     "))
    }
}

/// One by one, or together where several have one cause.
fn of_group(cause: Option<&(State, String)>, same: &[Answers<'_>]) -> Vec<String> {
    let Some(((state, cause), [_, _, ..])) = cause.map(|cause| (cause, same)) else {
        let one = |one: &Answers<'_>| {
            let head = format!("{} {}", verdict(one.state), one.name);
            [vec![head], one.places.iter().copied().map(line).collect()].concat()
        };
        return same.iter().flat_map(one).collect();
    };
    let names: Vec<String> = same.iter().map(|one| one.name.clone()).collect();
    vec![
        format!("{} {}: {cause}", verdict(*state), things(same)),
        format!("     asked for {} (--all shows each)", first_of(&names)),
    ]
}

fn things(same: &[Answers<'_>]) -> String {
    let thing = if same.iter().all(|one| one.name.starts_with("repository ")) { "repositories" } else { "artifacts" };
    format!("{} {thing}", same.len())
}

const fn verdict(state: State) -> &'static str {
    match state {
        State::Available => "ok  ",
        State::Unanswered => "DOWN",
        State::Missing => "GONE",
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
