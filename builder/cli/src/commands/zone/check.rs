//! `kubexm-bundle zone check`.

use std::path::PathBuf;

use kubexm_builder::packages::{ProbedRepository, Repositories, probe_repositories};
use kubexm_builder::probe::{Place, Probed, State, probe};
use kubexm_builder::resolve::{Resolved, candidates, resolve};
use kubexm_builder::session::{Needed, Session, lockfile};
use kubexm_builder::{Resolution, charts};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ArtifactKey, ExitCode, counted};
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::{Value, json};

use crate::commands::chart_images::ChartImages;
use crate::commands::fetching::{self, Fetching};
use crate::commands::what::What;

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

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let needed = args.what.read(session)?;
    let mut resolution = resolve(&needed.requirements, &needed.zone);
    let unknown = add_charts(&mut resolution, args, &needed, session)?;
    let origins = session.quick_origins(&args.fetching.options())?;
    let json = display.mode() == Mode::Json;
    if !json {
        session.advise(&needed.warnings, &needed.notes);
        unknown.iter().for_each(|key| {
            let text =
                format!("the images of {key} are not asked for: `kubexm-bundle lock` renders it, and knows them then");
            display.emit(EventKind::Note { text });
        });
    }
    let total = resolution.items.len() as u64;
    let done = |done| {
        // One document, and nothing before it.
        if !json {
            let (what, unit) = ("check".to_owned(), "items".to_owned());
            display.emit(EventKind::Progress { what, done, total: Some(total), unit });
        }
    };
    let (runtime, jobs) = (fetching::runtime()?, usize::from(args.fetching.jobs));
    let probed = runtime.block_on(probe(&resolution, &origins, jobs, &done));
    let asking = probe_repositories(&needed.requirements.packages, &needed.zone, &origins, jobs);
    let found = runtime.block_on(asking).map_err(|error| Failure::from_error(error.exit_code(), &error))?;
    let sum = Sum::of(&probed, &found.probed);
    if json {
        display.answer(&document(&needed, (&probed, &found), &sum, &unknown).to_string());
    } else {
        display.clear();
        found.left_out.iter().for_each(|text| display.emit(EventKind::Warning { text: text.clone() }));
        probed.iter().for_each(|item| show(item, args.all, display));
        found.probed.iter().for_each(|one| show_repository(one, args.all, display));
        display.answer(&format!("zone {}: {}", needed.zone.name, sum.text(total, found.probed.len() as u64)));
    }
    match sum.failure() {
        Some((code, _)) if json => Err(Failure::silent(code)),
        Some((code, text)) => Err(Failure::new(code, text)),
        None => Ok(()),
    }
}

/// What all of it comes to.
struct Sum {
    holes: usize,
    unanswered: usize,
    /// Names of what can be found nowhere.
    nowhere: Vec<String>,
    /// Names of what somebody may have who does not answer now.
    later: Vec<String>,
}

impl Sum {
    fn of(probed: &[Probed], repositories: &[ProbedRepository]) -> Self {
        let of_items = |state| probed.iter().map(|item| item.count(state)).sum::<usize>();
        let places = |state| repositories.iter().flat_map(|one| &one.places).filter(move |one| one.state() == state);
        let count = |state| of_items(state) + places(state).count();
        let names = |state| {
            let items = probed.iter().filter(|item| item.state() == state).map(name);
            let of = |one: &ProbedRepository| format!("repository {}", one.name());
            items.chain(repositories.iter().filter(|one| one.state() == state).map(of)).collect()
        };
        Self {
            holes: count(State::Missing),
            unanswered: count(State::Unanswered),
            nowhere: names(State::Missing),
            later: names(State::Unanswered),
        }
    }

    fn text(&self, artifacts: u64, repositories: u64) -> String {
        let mut text = counted(artifacts, "artifact");
        match repositories {
            0 => {}
            1 => text.push_str(" and 1 repository of packages"),
            more => text.push_str(&format!(" and {more} repositories of packages")),
        }
        text.push_str(&format!(", {}", counted(self.holes as u64, "hole")));
        match self.unanswered {
            0 => {}
            1 => text.push_str(", 1 place that does not answer now"),
            more => text.push_str(&format!(", {more} places that do not answer now")),
        }
        text.push_str(&format!(", {} that can be found nowhere", self.nowhere.len()));
        if !self.later.is_empty() {
            text.push_str(&format!(", {} that cannot be had now", self.later.len()));
        }
        text
    }

    /// What is nowhere weighs more than what may come back.
    fn failure(&self) -> Option<(ExitCode, String)> {
        let mut lines = Vec::new();
        if !self.nowhere.is_empty() {
            lines.push(format!(
                "these can be found nowhere: {}; give them another place (a rule of a zone file, an overlay of the catalogue), or leave them out",
                self.nowhere.join(", ")
            ));
        }
        if !self.later.is_empty() {
            lines.push(format!(
                "these cannot be had now: {}; whoever may have them does not answer: check again later, or fix the network",
                self.later.join(", ")
            ));
        }
        let code = if self.nowhere.is_empty() { ExitCode::OriginDown } else { ExitCode::NoSource };
        (!lines.is_empty()).then(|| (code, lines.join("\n")))
    }
}

/// Adds the images of charts that are known; gives the charts of which nothing is.
fn add_charts(
    resolution: &mut Resolution,
    args: &Args,
    needed: &Needed,
    session: &Session,
) -> Result<Vec<ArtifactKey>, Failure> {
    let lock = lockfile::at_hand(args.lock.as_deref(), args.what.file.as_deref())?;
    let known = ChartImages::known(session, needed, lock.as_ref(), args.fetching.cache.as_deref());
    let (images, unknown) = charts::expected(&needed.work(), known.all());
    resolution.items.extend(
        images
            .into_iter()
            .map(|requirement| Resolved { candidates: candidates(&requirement, &needed.zone), requirement }),
    );
    Ok(unknown)
}

fn name(item: &Probed) -> String {
    let platform = item.platform.map(|platform| format!(" {platform}")).unwrap_or_default();
    let version = if item.version.is_empty() { String::new() } else { format!(" {}", item.version) };
    format!("{}{version}{platform}", item.key)
}

fn show(item: &Probed, all: bool, display: &Display) {
    if !all && item.asked().all(|place| place.answer.is_ok()) {
        return;
    }
    display.answer(&format!("{} {}", verdict(item.state()), name(item)));
    let checksums = item.checksums.iter().map(|place| ("checksum ", place));
    show_places(item.places.iter().map(|place| ("", place)).chain(checksums), all, display);
}

fn show_repository(one: &ProbedRepository, all: bool, display: &Display) {
    if all || one.places.iter().any(|place| place.answer.is_err()) {
        display.answer(&format!("{} repository {}", verdict(one.state()), one.name()));
        show_places(one.places.iter().map(|place| ("", place)), all, display);
    }
}

fn verdict(state: State) -> &'static str {
    match state {
        State::Available => "ok  ",
        State::Unanswered => "DOWN",
        State::Missing => "GONE",
    }
}

fn show_places<'p>(places: impl Iterator<Item = (&'static str, &'p Place)>, all: bool, display: &Display) {
    for (what, place) in places {
        match (&place.answer, place.state()) {
            (Ok(_), _) if all => display.answer(&format!("     has it  {what}{}", place.address)),
            (Ok(_), _) => {}
            (Err(hole), State::Unanswered) => {
                display.answer(&format!("     silent  {what}{}: {}", place.address, hole.reason));
            }
            (Err(hole), _) => display.answer(&format!("     hole    {what}{}: {}", place.address, hole.reason)),
        }
    }
}

fn document(
    needed: &Needed,
    (probed, repositories): (&[Probed], &Repositories),
    sum: &Sum,
    unknown: &[ArtifactKey],
) -> Value {
    let places = |places: &[Place]| -> Vec<Value> {
        places
            .iter()
            .map(|place| {
                let state = place.state().as_str();
                match &place.answer {
                    Ok(size) => {
                        json!({ "address": place.address, "available": true, "state": state, "size": size })
                    }
                    Err(hole) => json!({
                        "address": place.address, "available": false, "state": state,
                        "reason": hole.reason, "exitCode": hole.code.code(),
                    }),
                }
            })
            .collect()
    };
    let items: Vec<Value> = probed
        .iter()
        .map(|item| {
            json!({
                "key": item.key, "platform": item.platform, "version": item.version,
                "available": item.state() == State::Available, "state": item.state().as_str(),
                "places": places(&item.places), "checksums": places(&item.checksums),
            })
        })
        .collect();
    let repositories_reported: Vec<Value> = repositories
        .probed
        .iter()
        .map(|one| {
            json!({
                "os": one.os, "platform": one.platform, "repository": one.repository,
                "available": one.state() == State::Available, "state": one.state().as_str(),
                "places": places(&one.places),
            })
        })
        .collect();
    json!({
        "schema": "kubexm.io/zone-check/v1", "zone": needed.zone.name, "warnings": needed.warnings,
        "notes": needed.notes, "chartsNotRendered": unknown,
        "available": sum.nowhere.is_empty() && sum.later.is_empty(),
        "holes": sum.holes, "unanswered": sum.unanswered,
        "items": items, "repositories": repositories_reported, "leftOut": repositories.left_out,
    })
}
