//! Whether every place has what is needed, asked before a long build does.

use std::path::Path;

use kubexm_spec::{ArtifactKey, ExitCode, Platform};
use serde::Serialize;
use tokio::runtime::Handle;

use super::chart_images;
use crate::charts;
use crate::packages::{ProbedRepository, probe_repositories};
use crate::probe::{Place, Probed, State, probe};
use crate::resolve::{Resolution, Resolved, candidates, resolve};
use crate::session::{Fetching, Needed, Session, SessionError, lockfile};

/// What places said.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    schema: &'static str,
    pub zone: String,
    pub warnings: Vec<String>,
    pub notes: Vec<String>,
    /// Charts whose images nobody knows, so that nobody asked for them.
    pub charts_not_rendered: Vec<ArtifactKey>,
    /// Whether everything can be had now.
    pub available: bool,
    /// Places that lack something, by number.
    pub holes: usize,
    /// Places that do not answer now, by number.
    pub unanswered: usize,
    pub items: Vec<Item>,
    pub repositories: Vec<Repository>,
    /// What a medium does not have, a sentence each.
    pub left_out: Vec<String>,
    /// Names of what can be found nowhere.
    #[serde(skip)]
    pub nowhere: Vec<String>,
    /// Names of what somebody may have who does not answer now.
    #[serde(skip)]
    pub later: Vec<String>,
    /// Artifacts of the cluster and known images of charts, by number.
    #[serde(skip)]
    pub total: u64,
}

/// One artifact.
#[derive(Debug, Serialize)]
pub struct Item {
    pub key: ArtifactKey,
    pub platform: Option<Platform>,
    pub version: String,
    pub available: bool,
    pub state: State,
    /// In the order in which they are asked.
    pub places: Vec<Asked>,
    /// Places of the checksum, where the catalogue pins no digest.
    pub checksums: Vec<Asked>,
    /// Key, version and platform.
    #[serde(skip)]
    pub name: String,
}

/// One repository of packages.
#[derive(Debug, Serialize)]
pub struct Repository {
    pub os: String,
    pub platform: Platform,
    pub repository: String,
    pub available: bool,
    pub state: State,
    pub places: Vec<Asked>,
    #[serde(skip)]
    pub name: String,
}

/// One place and what it said.
#[derive(Debug, Serialize)]
pub struct Asked {
    pub address: String,
    pub available: bool,
    pub state: State,
    #[serde(flatten)]
    pub answer: Answer,
    /// What is wrong with its server, whatever that is asked for.
    #[serde(skip)]
    pub cause: Option<String>,
}

/// What a place said.
#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Answer {
    /// It has it; in bytes, where it says so.
    Has { size: Option<u64> },
    /// `exit_code` is what a build would end with, had it no other place.
    Hole { reason: String, exit_code: u8 },
}

/// What is checked besides what is needed.
pub struct Request<'a> {
    pub fetching: &'a Fetching,
    /// A lock that knows images of charts; without one, the one beside cluster.yaml is used where there is one.
    pub lock: Option<&'a Path>,
    /// cluster.yaml.
    pub file: Option<&'a Path>,
}

/// Asks every place. `ready` gets the charts whose images are not asked for, before anything goes over the network.
pub fn check(
    session: &Session,
    needed: &Needed,
    request: &Request<'_>,
    ready: impl FnOnce(&[ArtifactKey]),
    runtime: &Handle,
) -> Result<Checked, SessionError> {
    let mut resolution = resolve(&needed.requirements, &needed.zone);
    let unknown = add_charts(&mut resolution, request, needed, session)?;
    let (fetching, jobs) = (request.fetching, request.fetching.jobs);
    let origins = session.quick_origins(fetching)?;
    ready(&unknown);
    let total = resolution.items.len() as u64;
    let done = |done| session.progress("check", (done, Some(total)), "items");
    let probed = runtime.block_on(probe(&resolution, &origins, jobs, &done));
    let asking = probe_repositories(&needed.requirements.packages, &needed.zone, &origins, jobs);
    let found = runtime.block_on(asking)?;
    let names = |state| names(&probed, &found.probed, state);
    let count = |state| count(&probed, &found.probed, state);
    let (nowhere, later) = (names(State::Missing), names(State::Unanswered));
    Ok(Checked {
        schema: "kubexm.io/zone-check/v1",
        zone: needed.zone.name.clone(),
        warnings: needed.warnings.clone(),
        notes: needed.notes.clone(),
        charts_not_rendered: unknown,
        available: nowhere.is_empty() && later.is_empty(),
        holes: count(State::Missing),
        unanswered: count(State::Unanswered),
        nowhere,
        later,
        total,
        items: probed.into_iter().map(item).collect(),
        repositories: found.probed.into_iter().map(repository).collect(),
        left_out: found.left_out,
    })
}

impl Checked {
    /// How a program ends on it: what is nowhere weighs more than what may come back.
    pub fn code(&self) -> ExitCode {
        match (self.nowhere.is_empty(), self.later.is_empty()) {
            (true, true) => ExitCode::Ok,
            (true, false) => ExitCode::OriginDown,
            (false, _) => ExitCode::NoSource,
        }
    }
}

/// Adds the images of charts that are known; gives the charts of which nothing is.
fn add_charts(
    resolution: &mut Resolution,
    request: &Request<'_>,
    needed: &Needed,
    session: &Session,
) -> Result<Vec<ArtifactKey>, SessionError> {
    let lock = lockfile::at_hand(request.lock, request.file)?;
    let known = chart_images::known(session, needed, lock.as_ref(), request.fetching.cache.as_deref());
    let (images, unknown) = charts::expected(&needed.work(), &known);
    resolution.items.extend(
        images
            .into_iter()
            .map(|requirement| Resolved { candidates: candidates(&requirement, &needed.zone), requirement }),
    );
    Ok(unknown)
}

fn count(probed: &[Probed], repositories: &[ProbedRepository], state: State) -> usize {
    let of_items = probed.iter().map(|item| item.count(state)).sum::<usize>();
    of_items + repositories.iter().flat_map(|one| &one.places).filter(|one| one.state() == state).count()
}

fn names(probed: &[Probed], repositories: &[ProbedRepository], state: State) -> Vec<String> {
    let items = probed.iter().filter(|item| item.state() == state).map(name);
    let of = |one: &ProbedRepository| format!("repository {}", one.name());
    items.chain(repositories.iter().filter(|one| one.state() == state).map(of)).collect()
}

fn name(item: &Probed) -> String {
    let platform = item.platform.map(|platform| format!(" {platform}")).unwrap_or_default();
    let version = if item.version.is_empty() { String::new() } else { format!(" {}", item.version) };
    format!("{}{version}{platform}", item.key)
}

fn item(item: Probed) -> Item {
    let (state, name) = (item.state(), name(&item));
    let Probed { key, platform, version, places, checksums } = item;
    let (places, checksums) = (asked(places), asked(checksums));
    Item { key, platform, version, available: state == State::Available, state, places, checksums, name }
}

fn repository(one: ProbedRepository) -> Repository {
    let (state, name) = (one.state(), one.name());
    let ProbedRepository { os, platform, repository, places } = one;
    Repository { os, platform, repository, available: state == State::Available, state, places: asked(places), name }
}

fn asked(places: Vec<Place>) -> Vec<Asked> {
    let one = |place: Place| {
        let state = place.state();
        let cause = place.answer.as_ref().err().and_then(|hole| hole.cause.clone());
        let answer = match place.answer {
            Ok(size) => Answer::Has { size },
            Err(hole) => Answer::Hole { reason: hole.reason, exit_code: hole.code.code() },
        };
        Asked { address: place.address, available: state == State::Available, state, answer, cause }
    };
    places.into_iter().map(one).collect()
}
