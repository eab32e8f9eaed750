//! Asks every source of an artifact whether it has what a build would fetch: holes are found before a
//! long build, not in its middle. A source that does not have it is distinguished from one that does not answer now.

use futures::{StreamExt, stream};
use kubexm_manifests::requirements::Source;
use kubexm_spec::{ArtifactKey, ExitCode, Platform};
use kubexm_transport::{FileCandidate, TransportError};

use crate::origins::{Origins, chart, file as file_origin, image};
use crate::resolve::{Candidates, ChartCandidates, Resolution, Resolved};
use crate::{BuildError, lock};

/// What was found out about one artifact.
#[derive(Debug)]
pub struct Probed {
    pub key: ArtifactKey,
    /// For which platform.
    pub platform: Option<Platform>,
    /// Version or tag.
    pub version: String,
    /// Every place, in the order in which they are asked.
    pub places: Vec<Place>,
    /// Places of the checksum, where the catalogue pins no digest.
    pub checksums: Vec<Place>,
}

/// One source and its answer.
#[derive(Debug)]
pub struct Place {
    /// Address, or registry and repository; `this machine` of what is local.
    pub address: String,
    /// Size in bytes where it is reported; or why it is not available here.
    pub answer: Result<Option<u64>, Hole>,
}

/// Why a place has it not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    /// For people.
    pub reason: String,
    /// The exit code of a build that had no other source.
    pub code: ExitCode,
    /// No source answered that it is absent: it may be available later.
    pub may_pass: bool,
    /// What is wrong with the server, whatever it is asked for: holes of one cause are reported once.
    pub cause: Option<String>,
}

/// Availability, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It is there.
    Available,
    /// Who may have it does not answer now: refused or broken connections, silence, 5xx, 429.
    Unanswered,
    /// It is absent, or not what a build needs.
    Missing,
}

impl Place {
    /// Whether this source has it.
    pub fn state(&self) -> State {
        match &self.answer {
            Ok(_) => State::Available,
            Err(hole) if hole.may_pass => State::Unanswered,
            Err(_) => State::Missing,
        }
    }
}

impl Probed {
    /// Whether any source has it, with its checksum where that is needed.
    pub fn state(&self) -> State {
        let best = |places: &[Place]| places.iter().map(Place::state).min();
        best(&self.places).unwrap_or(State::Missing).max(best(&self.checksums).unwrap_or(State::Available))
    }

    /// Every place that was asked, those of the checksum last.
    pub fn asked(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().chain(&self.checksums)
    }

    /// How many places are in a state.
    pub fn count(&self, state: State) -> usize {
        self.asked().filter(|place| place.state() == state).count()
    }

    /// Size in bytes, where a source reports it.
    pub fn size(&self) -> Option<u64> {
        self.places.iter().find_map(|place| *place.answer.as_ref().ok()?)
    }
}

/// Asks for every item of a resolution, `jobs` at once; reported in the resolution's order. `done` gets the number of items so far.
pub async fn probe(
    resolution: &Resolution,
    origins: &Origins,
    jobs: usize,
    done: &(dyn Fn(u64) + Send + Sync),
) -> Vec<Probed> {
    let count = std::sync::atomic::AtomicU64::new(0);
    stream::iter(&resolution.items)
        .map(|resolved| {
            let count = &count;
            async move {
                let probed = one(resolved, origins).await;
                done(1 + count.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
                probed
            }
        })
        .buffered(jobs.max(1))
        .collect()
        .await
}

async fn one(resolved: &Resolved, origins: &Origins) -> Probed {
    let needed = &resolved.requirement;
    let (mut places, mut checksums) = (Vec::new(), Vec::new());
    match (&resolved.candidates, &needed.source) {
        (Candidates::File { file: candidates, checksum }, Source::File { size, .. }) => {
            for candidate in candidates {
                let answer = file(&needed.key, candidate, origins).await.and_then(|reported| fits(reported, *size));
                places.push(Place { address: shown(candidate), answer });
            }
            for candidate in checksum {
                // A checksum is a text: anything but a page will do.
                let answer = file(&needed.key, candidate, origins).await;
                checksums.push(Place { address: shown(candidate), answer });
            }
        }
        (Candidates::Image(candidates), Source::Image { reference, digest }) => {
            for candidate in candidates {
                let found = image::look(reference, *digest, needed.platform, candidate, origins).await;
                let answer = found.map(|()| None).map_err(|error| hole(&error));
                places.push(Place { address: format!("{}/{}", candidate.registry, candidate.repository), answer });
            }
        }
        // Where a chart itself is is in the index; that there is one is what can be asked in short.
        (Candidates::Chart(ChartCandidates::Repository { index, .. }), _) => {
            for candidate in index {
                let answer = file(&needed.key, candidate, origins).await;
                places.push(Place { address: shown(candidate), answer });
            }
        }
        (Candidates::Chart(ChartCandidates::Oci { repositories }), _) => {
            let tag = chart::tag(&needed.version);
            for candidate in repositories {
                let found = origins.registry.digest_of(candidate, &tag).await;
                let answer = found.map(|_| None).map_err(|error| hole(&error));
                places
                    .push(Place { address: format!("oci://{}/{}", candidate.registry, candidate.repository), answer });
            }
        }
        _ => {
            let answer = lock::check_local_item(needed, origins).map(|()| None).map_err(|error| hole_of_build(&error));
            places.push(Place { address: "this machine".to_owned(), answer });
        }
    }
    let (key, version) = (needed.key.clone(), needed.version.clone());
    Probed { key, platform: needed.platform, version, places, checksums }
}

/// The answer of a source about a file: its size in bytes, where reported. An HTML page in place of a program is a
/// hole.
pub async fn file(key: &ArtifactKey, candidate: &FileCandidate, origins: &Origins) -> Result<Option<u64>, Hole> {
    let head = origins.http.head(candidate).await.map_err(|error| hole(&error))?;
    let page = head.content_type.as_deref().and_then(kubexm_transport::page_by_content_type);
    match page.filter(|_| file_origin::refuse_html(key)) {
        Some(page) => Err(other(format!("answers with {page}"))),
        None => Ok(head.size.filter(|size| *size > 0)),
    }
}

fn fits(reported: Option<u64>, wanted: Option<u64>) -> Result<Option<u64>, Hole> {
    match (reported, wanted) {
        (Some(reported), Some(wanted)) if reported != wanted => {
            Err(other(format!("has {reported} bytes, expected {wanted}")))
        }
        (reported, wanted) => Ok(reported.or(wanted)),
    }
}

/// Something is there, and it is not what is wanted.
fn other(reason: String) -> Hole {
    Hole { reason, code: ExitCode::OriginMismatch, may_pass: false, cause: None }
}

fn hole(error: &TransportError) -> Hole {
    let (code, may_pass) = (error.exit_code(), error.may_pass());
    Hole { reason: error.to_string(), code, may_pass, cause: error.cause() }
}

fn hole_of_build(error: &BuildError) -> Hole {
    let reason = kubexm_spec::error_chain(error);
    Hole { reason, code: error.exit_code(), may_pass: false, cause: None }
}

fn shown(candidate: &FileCandidate) -> String {
    kubexm_transport::http::shown(&candidate.url)
}
