//! `kubexm-bundle zone check`.

use std::path::PathBuf;

use kubexm_builder::probe::{Place, Probed, probe};
use kubexm_builder::resolve::{Resolved, candidates, resolve};
use kubexm_builder::{Resolution, charts};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ArtifactKey, ExitCode, counted};
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::{Value, json};

use crate::commands::chart_images::ChartImages;
use crate::commands::fetching::{self, Fetching};
use crate::commands::lockfile;
use crate::commands::what::{Needed, What};

/// Ask every place whether it has what is needed, before a long build does
///
/// Every file is asked for by HEAD and every image's manifest likewise, at every candidate in its order. Images
/// of charts are known by the lock, or by a rendering that the cache has; a chart of which neither knows is told.
/// A place that lacks something is a hole, and told; where another place has it, a build goes on there,
/// and the exit code is 0. It is 45 when something can be had nowhere.
///
/// Examples:
///   kubexm-bundle zone check -f cluster.yaml
///   kubexm-bundle zone check -f cluster.yaml --zone inside.yaml --json | jq '.items[] | select(.available | not)'
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
    /// Show every place that was asked, not only the holes
    #[arg(long)]
    all: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let needed = args.what.read()?;
    let mut resolution = resolve(&needed.requirements, &needed.zone);
    let unknown = add_charts(&mut resolution, args, &needed)?;
    let origins = args.fetching.quick_origins()?;
    let json = display.mode() == Mode::Json;
    if !json {
        needed.tell(display);
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
    let probed = fetching::runtime()?.block_on(probe(&resolution, &origins, args.fetching.jobs.into(), &done));
    let nowhere: Vec<&Probed> = probed.iter().filter(|item| !item.has_source()).collect();
    let holes: usize = probed.iter().map(|item| item.holes().count()).sum();
    if json {
        display.answer(&document(&needed, &probed, &unknown).to_string());
    } else {
        display.clear();
        probed.iter().for_each(|item| show(item, args.all, display));
        display.answer(&format!(
            "zone {}: {}, {}, {} that can be had nowhere",
            needed.zone.name,
            counted(total, "artifact"),
            counted(holes as u64, "hole"),
            nowhere.len()
        ));
    }
    if nowhere.is_empty() {
        return Ok(());
    }
    if json {
        return Err(Failure::silent(ExitCode::NoSource));
    }
    let names: Vec<String> = nowhere.iter().map(|item| name(item)).collect();
    let text = format!(
        "these can be had nowhere: {}; give them another place (a rule of a zone file, an overlay of the catalogue), or leave them out",
        names.join(", ")
    );
    Err(Failure::new(ExitCode::NoSource, text))
}

/// Adds the images of charts that are known; gives the charts of which nothing is.
fn add_charts(resolution: &mut Resolution, args: &Args, needed: &Needed) -> Result<Vec<ArtifactKey>, Failure> {
    let lock = lockfile::at_hand(args.lock.as_deref(), args.what.file.as_deref())?;
    let known = ChartImages::known(needed, lock.as_ref(), args.fetching.cache.as_deref());
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
    if !all && item.holes().next().is_none() {
        return;
    }
    let verdict = if item.has_source() { "ok  " } else { "GONE" };
    display.answer(&format!("{verdict} {}", name(item)));
    let checksums = item.checksums.iter().map(|place| ("checksum ", place));
    for (what, place) in item.places.iter().map(|place| ("", place)).chain(checksums) {
        match &place.answer {
            Ok(_) if all => display.answer(&format!("     has it  {what}{}", place.address)),
            Ok(_) => {}
            Err(hole) => display.answer(&format!("     hole    {what}{}: {}", place.address, hole.reason)),
        }
    }
}

fn document(needed: &Needed, probed: &[Probed], unknown: &[ArtifactKey]) -> Value {
    let places = |places: &[Place]| -> Vec<Value> {
        places
            .iter()
            .map(|place| match &place.answer {
                Ok(size) => json!({ "address": place.address, "available": true, "size": size }),
                Err(hole) => json!({
                    "address": place.address, "available": false, "reason": hole.reason, "exitCode": hole.code.code(),
                }),
            })
            .collect()
    };
    let items: Vec<Value> = probed
        .iter()
        .map(|item| {
            json!({
                "key": item.key, "platform": item.platform, "version": item.version, "available": item.has_source(),
                "places": places(&item.places), "checksums": places(&item.checksums),
            })
        })
        .collect();
    json!({
        "schema": "kubexm.io/zone-check/v1", "zone": needed.zone.name, "warnings": needed.warnings,
        "notes": needed.notes, "chartsNotRendered": unknown,
        "available": probed.iter().all(Probed::has_source),
        "holes": probed.iter().map(|item| item.holes().count()).sum::<usize>(),
        "items": items,
    })
}
