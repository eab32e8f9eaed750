//! What is newer than this program's catalogue, as an overlay, and what a cluster would get by it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kubexm_files::put;
use kubexm_manifests::{Catalogue, Notice, notices, require};
use kubexm_spec::yaml::nearest;
use kubexm_spec::{ArtifactKey, Cluster, ExitCode, ExitError, cluster};
use kubexm_transport::Bearer;
use serde::Serialize;
use tokio::runtime::Handle;
use zeroize::Zeroizing;

use super::kinds;
use super::outputs::apart;
use crate::refresh::{Ask, GitHubToken, NotAsked, Versions, refresh as ask_origins, text};
use crate::session::{Choice, Fetching, Selection, Session, SessionError};

/// What is asked.
pub struct Request<'a> {
    /// Programs and charts; all of them when empty.
    pub components: &'a [String],
    /// Where the overlay is written; `-` is standard output.
    pub output: Option<&'a Path>,
    /// Replace a file that is there.
    pub force: bool,
    /// cluster.yaml, overlays, zone and the time by which ends are reported.
    pub selection: &'a Selection,
    /// For GitHub's lists of releases.
    pub token: Option<&'a GitHubToken>,
    pub fetching: &'a Fetching,
}

/// What was found.
#[derive(Debug, Serialize)]
pub struct Refreshed {
    schema: &'static str,
    /// Newer versions by component, with the digests that upstream publishes.
    pub components: BTreeMap<String, Versions>,
    /// Newer versions of charts, the newest of each line, which no overlay has.
    pub charts: BTreeMap<String, Vec<String>>,
    /// What has nothing that could be asked, and why.
    #[serde(rename = "notAsked")]
    pub not_asked: BTreeMap<String, NotAsked>,
    /// Whether anything was asked.
    #[serde(skip)]
    pub has_asked: bool,
    pub notes: Vec<String>,
    /// What could not be looked up, and why; nothing is known of it.
    pub failures: Vec<String>,
    /// What is past its end.
    pub notices: Vec<Notice>,
    /// What the cluster would get.
    pub changes: Vec<Effect>,
    /// The overlay, where one was written.
    pub file: Option<PathBuf>,
    /// Whether the cluster cannot be made with the catalogue as it is, or not with the overlay either; a note says so.
    #[serde(skip)]
    pub incomparable: bool,
    /// Of the failures.
    #[serde(skip)]
    pub code: ExitCode,
}

/// A version that a cluster would get.
#[derive(Debug, Serialize)]
pub struct Effect {
    pub key: String,
    pub now: String,
    pub then: String,
}

/// The most bytes of a file with a token.
const TOKEN_LIMIT: u64 = 4096;

/// The variable of a token, as GitHub's own programs and CI name it.
pub const GITHUB_TOKEN: &str = "GITHUB_TOKEN";

/// A token of GitHub's: from a file where one is named, else from the variable [`GITHUB_TOKEN`].
///
/// # Errors
/// The file cannot be read, or what it or the variable holds is no token.
pub fn github_token(
    file: Option<&Path>,
    variable: Option<Zeroizing<Vec<u8>>>,
) -> Result<Option<GitHubToken>, SessionError> {
    let (from, text) = match (file, variable.filter(|text| !text.is_empty())) {
        (Some(file), _) => {
            let refused = |error: kubexm_files::InputError| {
                SessionError::refused(error.exit_code(), kubexm_spec::error_chain(&error))
            };
            (file.display().to_string(), kubexm_files::read(file, TOKEN_LIMIT).map(Zeroizing::new).map_err(refused)?)
        }
        (None, Some(text)) => (GITHUB_TOKEN.to_owned(), text),
        (None, None) => return Ok(None),
    };
    match Bearer::new(&text) {
        Some(bearer) => Ok(Some(GitHubToken { bearer, from })),
        None => {
            let text = format!(
                "{from} holds no token: it must be one word, without blanks; create one on github.com, or leave it out"
            );
            Err(SessionError::refused(ExitCode::Usage, text))
        }
    }
}

/// Asks origins, and writes the overlay. What could not be looked up is in the answer, with the exit code of it.
pub fn refresh(
    session: &Session,
    request: &Request<'_>,
    stdout: &dyn Fn(&[u8]),
    runtime: &Handle,
) -> Result<Refreshed, SessionError> {
    let Request { output, force, selection, fetching, .. } = *request;
    let catalogue = session.catalogue(&selection.catalogue)?;
    let file = selection.file.as_deref();
    let cluster = file.map(|file| session.cluster(Some(file), None)).transpose()?.map(|(_, cluster)| cluster);
    let only: BTreeSet<String> = request.components.iter().cloned().collect();
    known(&only, &catalogue)?;
    if let Some(target) = output {
        apart(target, &session.inputs(selection))?;
        kubexm_files::check(target, &kinds::OVERLAY, force)?;
    }
    let Choice { zone, warnings, notes, .. } = session.zone(selection.zone.as_deref(), cluster.as_ref())?;
    session.advise(&warnings, &notes);
    if fetching.offline {
        let text = "catalogue refresh asks origins what is newer: leave out --offline";
        return Err(SessionError::refused(ExitCode::Usage, text));
    }
    let origins = session.origins(fetching)?;
    let ask = Ask { catalogue: &catalogue, zone: &zone, only: &only, origins: &origins, token: request.token };
    let mut found = runtime.block_on(ask_origins(ask));
    let day = session.today(selection.source_date);
    let overlay = text(&found, &day);
    // Before anything else can fail: origins count requests.
    if let (Some(target), Some(overlay)) = (output, &overlay) {
        put(target, &kinds::OVERLAY, force, overlay.as_bytes(), stdout)?;
    }
    let effects = effects(&catalogue, overlay.as_deref(), cluster.as_ref())?;
    if let (Some(file), Err(note)) = (file, &effects) {
        found.notes.push(format!("{}: {note}", file.display()));
    }
    Ok(Refreshed {
        schema: "kubexm.io/catalogue-refresh/v1",
        components: found.components,
        charts: found.features,
        has_asked: only.is_empty() || only.iter().any(|name| !found.not_asked.contains_key(name)),
        not_asked: found.not_asked,
        notes: found.notes,
        code: found.failures.iter().map(ExitError::exit_code).fold(ExitCode::Ok, ExitCode::worst),
        failures: found.failures.iter().map(|error| kubexm_spec::error_chain(error)).collect(),
        notices: ended(&catalogue, cluster.as_ref(), &day),
        incomparable: effects.is_err(),
        changes: effects.unwrap_or_default(),
        file: output.filter(|_| overlay.is_some()).map(Path::to_owned),
    })
}

/// Names that the catalogue does not have are slips.
fn known(only: &BTreeSet<String>, catalogue: &Catalogue) -> Result<(), SessionError> {
    let all = || catalogue.components.keys().chain(catalogue.features.keys()).map(String::as_str);
    match only.iter().find(|name| !all().any(|known| known == name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let near: Vec<&str> = nearest(name, all()).into_iter().take(3).collect();
            let text = format!("the catalogue knows no {name}; nearest: {}", near.join(", "));
            Err(SessionError::refused(ExitCode::UnknownVersion, text))
        }
    }
}

/// The versions of a cluster that are others with the overlay; or why nothing can be compared.
fn effects(
    catalogue: &Catalogue,
    overlay: Option<&str>,
    cluster: Option<&Cluster>,
) -> Result<Result<Vec<Effect>, String>, SessionError> {
    let (Some(cluster), Some(overlay)) = (cluster, overlay) else { return Ok(Ok(Vec::new())) };
    let with = catalogue.clone().overlaid(overlay);
    let with = with.map_err(|e| SessionError::refused(e.exit_code(), kubexm_spec::error_chain(&e)))?;
    let (now, then) = match (require(cluster, catalogue), require(cluster, &with)) {
        (Ok(now), Ok(then)) => (now, then),
        (Err(error), Ok(_)) => return Ok(Err(format!("possible with the overlay, and was not before: {error}"))),
        (_, Err(error)) => return Ok(Err(format!("not possible with the overlay either: {error}"))),
    };
    let version = |key: &ArtifactKey| then.items.iter().find(|item| item.key == *key).map(|item| item.version.clone());
    let mut all: Vec<Effect> = Vec::new();
    for item in &now.items {
        let (key, now) = (item.key.to_string(), item.version.clone());
        let Some(then) = version(&item.key).filter(|then| *then != now) else { continue };
        if all.iter().all(|known| known.key != key) {
            all.push(Effect { key, now, then });
        }
    }
    Ok(Ok(all))
}

/// What is at its end: of the cluster that is named, or of what the defaults are made of.
fn ended(catalogue: &Catalogue, of: Option<&Cluster>, day: &str) -> Vec<Notice> {
    let default = cluster::for_version(None);
    let Ok(requirements) = require(of.unwrap_or(&default), catalogue) else { return Vec::new() };
    notices(&requirements, catalogue, day)
}
