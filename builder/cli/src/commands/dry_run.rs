//! `kubexm-bundle build --dry-run`: what would go in, platform by platform, before a byte is fetched.

use std::collections::BTreeMap;

use kubexm_builder::locked;
use kubexm_builder::origins::installer::Installers;
use kubexm_builder::resolve::{Resolution, resolve};
use kubexm_builder::session::{Needed, Session};
use kubexm_builder::sizes::{self, Parts};
use kubexm_manifests::requirements::PackageNeed;
use kubexm_spec::{Lock, Platform, counted};
use kubexm_terminal::{Display, Failure, Mode, bytes};
use serde_json::{Value, json};

use super::chart_images::ChartImages;
use super::fetching::{self, Fetching};

/// How the list is made.
pub struct How<'a> {
    /// Sizes that nobody here knows are asked of origins.
    pub ask: bool,
    /// What is built, where a lock is.
    pub locked: Option<&'a Lock>,
    /// Where the cache and the installers are.
    pub fetching: &'a Fetching,
}

/// Shows the list. Without `ask`, nothing goes over the network.
pub fn run(needed: &Needed, how: &How<'_>, session: &Session, display: &Display) -> Result<(), Failure> {
    let resolution = match how.locked {
        Some(lock) => locked::resolve(&needed.requirements, lock, &needed.catalogue, &needed.zone)?,
        None => resolve(&needed.requirements, &needed.zone),
    };
    kubexm_builder::lock::check_paths(&resolution)?;
    let parts = parts(&resolution, how, session)?;
    let charts = ChartImages::known(session, needed, how.locked, how.fetching.cache.as_deref());
    let list = List { resolution: &resolution, parts: &parts, locked: how.locked, charts };
    match display.mode() {
        Mode::Json => display.answer(&list.document(needed).to_string()),
        _ => {
            session.advise(&needed.warnings, &needed.notes);
            list.show(needed, display, how.ask);
        }
    }
    Ok(())
}

fn parts(resolution: &Resolution, how: &How<'_>, session: &Session) -> Result<Vec<Option<Parts>>, Failure> {
    // A cache that is not there is not made: a dry run writes nothing.
    let store = session.store_at_hand(how.fetching.cache.as_deref());
    let installers = session.installers(&how.fetching.installer).unwrap_or_else(|_| Installers::default());
    let known = sizes::known(resolution, how.locked, store.as_ref(), &installers);
    if !how.ask || known.iter().all(Option::is_some) {
        return Ok(known);
    }
    let origins = session.quick_origins(&how.fetching.options())?;
    let jobs = how.fetching.jobs.into();
    Ok(fetching::runtime()?.block_on(sizes::asked(resolution, known, &origins, jobs)))
}

struct List<'a> {
    resolution: &'a Resolution,
    parts: &'a [Option<Parts>],
    locked: Option<&'a Lock>,
    charts: ChartImages,
}

/// Of a platform, or of all.
struct Sum {
    artifacts: usize,
    bytes: u64,
    unknown: usize,
}

impl Sum {
    fn text(&self) -> String {
        let artifacts = counted(self.artifacts as u64, "artifact");
        match self.unknown {
            0 => format!("{artifacts}, {}", bytes(self.bytes)),
            unknown if unknown == self.artifacts => format!("{artifacts} of unknown size"),
            unknown => format!("{artifacts}, {} and {unknown} of unknown size", bytes(self.bytes)),
        }
    }

    fn value(&self) -> Value {
        json!({ "artifacts": self.artifacts, "bytes": self.bytes, "unknown": self.unknown })
    }
}

/// What is asked for; what that needs is not known before the repositories are read.
fn unsolved_line(need: &PackageNeed) -> String {
    format!("packages of {} {}, and all that these need: {}", need.os, need.platform, need.names().join(" "))
}

impl List<'_> {
    /// Which items are for a platform; none is for what serves all.
    fn platforms(&self) -> BTreeMap<Option<Platform>, Vec<usize>> {
        let mut all: BTreeMap<Option<Platform>, Vec<usize>> = BTreeMap::new();
        for (index, item) in self.resolution.items.iter().enumerate() {
            all.entry(item.requirement.platform).or_default().push(index);
        }
        all
    }

    fn sum(&self, items: &[usize]) -> Sum {
        let known: Vec<&Parts> = items.iter().filter_map(|index| self.parts[*index].as_ref()).collect();
        Sum { artifacts: items.len(), bytes: sizes::total(known.iter().copied()), unknown: items.len() - known.len() }
    }

    fn whole(&self) -> Sum {
        self.sum(&(0..self.resolution.items.len()).collect::<Vec<_>>())
    }

    /// Packages that only a lock could tell.
    fn unsolved<'n>(&self, needed: &'n Needed) -> Vec<&'n PackageNeed> {
        let known = self.locked.is_some();
        needed.requirements.packages.iter().filter(|_| !known).collect()
    }

    fn show(&self, needed: &Needed, display: &Display, asked: bool) {
        for (platform, items) in self.platforms() {
            let name = platform.map_or_else(|| "every platform".to_owned(), |platform| platform.to_string());
            display.answer(&format!("{name}: {}", self.sum(&items).text()));
            for index in items {
                display.answer(&self.line(index));
            }
        }
        self.charts.all_lines().iter().for_each(|line| display.answer(line));
        self.unsolved(needed).iter().for_each(|need| display.answer(&unsolved_line(need)));
        let whole = self.whole();
        display.answer(&format!("in all: {}", whole.text()));
        if whole.unknown > 0 && !asked {
            display.answer("--sizes asks the origins for the sizes that nobody here knows");
        }
    }

    fn line(&self, index: usize) -> String {
        let item = &self.resolution.items[index];
        let needed = &item.requirement;
        let size = self.parts[index].as_ref().map_or_else(|| "size unknown".to_owned(), |p| bytes(sizes::bytes(p)));
        let address = item.candidates.shown().into_iter().next().unwrap_or_else(|| "this machine".to_owned());
        let trust = self.trust(index);
        format!("  {:32} {:16} {size:>12}  {trust:17} {address}", needed.key.to_string(), needed.version)
    }

    /// Why its digest is, or will be, trusted.
    fn trust(&self, index: usize) -> String {
        let needed = &self.resolution.items[index].requirement;
        let locked = self.locked.and_then(|lock| lock.find(&needed.key, needed.platform));
        locked.map_or(needed.trust, |item| item.trust).to_string()
    }

    fn document(&self, needed: &Needed) -> Value {
        let items: Vec<Value> = self
            .resolution
            .items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let needed = &item.requirement;
                json!({
                    "key": needed.key, "platform": needed.platform, "version": needed.version,
                    "trust": self.trust(index), "because": needed.because, "optional": needed.optional,
                    "size": self.parts[index].as_ref().map(sizes::bytes), "sources": item.candidates.shown(),
                })
            })
            .collect();
        let platforms: Vec<Value> = self
            .platforms()
            .into_iter()
            .map(|(platform, items)| {
                let mut value = self.sum(&items).value();
                value["platform"] = json!(platform);
                value
            })
            .collect();
        json!({
            "schema": "kubexm.io/dry-run/v1", "name": self.resolution.name, "kubernetes": self.resolution.kubernetes,
            "zone": self.resolution.zone, "items": items, "platforms": platforms, "total": self.whole().value(),
            "charts": self.charts.values(), "packages": needed.requirements.packages,
            "warnings": needed.warnings, "notes": needed.notes, "unverified": needed.doubts,
            "verified": needed.verified, "notices": needed.notices,
        })
    }
}
