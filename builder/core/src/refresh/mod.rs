//! What upstream has published since the catalogue was made: newer patches of known lines and newer lines, with the digests that
//! upstream publishes beside the files. It becomes an overlay that a user reads before anything is locked by it.

mod limit;
mod listing;
mod not_asked;
mod overlay;
mod patches;
mod question;

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use kubexm_manifests::requirements::chart_index;
use kubexm_manifests::{Component, FeatureSet, Pin, version};
use kubexm_spec::{Arch, ArtifactKey, Program, Trust};
use kubexm_transport::TransportError;

use self::limit::Limit;
pub use self::overlay::text;
use self::question::is_release;
pub use self::question::{Ask, GitHubToken, NotAsked, Refreshed, Versions};
use crate::charts::index;
use crate::origins::file;
use crate::{BuildError, places};

/// How many components are asked about at once: their lists are few and small, and origins count requests.
const AT_ONCE: usize = 4;
/// The most versions of a line whose digests are asked for: the newest few may be withdrawn or not finished.
const CANDIDATES: usize = 10;
/// The most bytes of a chart repository's index.
const INDEX_LIMIT: u64 = 64 << 20;

/// Asks for everything. A failure ends the questions about one component, and the answers about others are returned with it.
pub async fn refresh(ask: Ask<'_>) -> Refreshed {
    let mut stable = listing::stable(ask).await;
    let mut failures = std::mem::take(&mut stable.failures);
    let stable = &stable;
    let not_asked = not_asked::of(ask.catalogue, |name| ask.wants(name));
    let is_asked = |name: &str| ask.wants(name) && !not_asked.contains_key(name);
    let components = ask.catalogue.components.values().filter(|component| is_asked(&component.name));
    let limit = Limit::default();
    let results: Vec<_> = stream::iter(components)
        .map(|component| of_component(ask, component, stable, &limit))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut refreshed = Refreshed { notes: stable.notes.clone(), ..Refreshed::default() };
    for Found { name, versions, notes, failures: of_it } in results {
        refreshed.notes.extend(notes);
        failures.extend(of_it);
        if !versions.is_empty() {
            refreshed.components.insert(name, versions);
        }
    }
    refreshed.notes.extend(patches::leave_out_incomplete(ask, &mut refreshed.components));
    failures.extend(limit.failure(ask.token.is_some()));
    for feature in ask.catalogue.features.values().filter(|feature| feature.chart.is_some() && is_asked(&feature.name))
    {
        match of_feature(ask, feature).await {
            Ok(newer) if newer.is_empty() => (),
            Ok(newer) => drop(refreshed.features.insert(feature.name.clone(), newer)),
            Err(error) => failures.push(error),
        }
    }
    (refreshed.failures, refreshed.not_asked) = (failures, not_asked);
    refreshed
}

/// What was found about one component.
#[derive(Default)]
struct Found {
    name: String,
    versions: Versions,
    notes: Vec<String>,
    failures: Vec<BuildError>,
}

async fn of_component(ask: Ask<'_>, component: &Component, stable: &listing::Stable, limit: &Limit) -> Found {
    let mut found = Found { name: component.name.clone(), ..Found::default() };
    let name = &component.name;
    let published = match listing::of(component) {
        listing::Source::Kubernetes => stable.versions.clone(),
        listing::Source::GitHub(_) if limit.is_reached() => {
            limit.add_not_asked(name);
            return found;
        }
        listing::Source::GitHub(repository) => match listing::releases(ask, &repository).await {
            Ok(published) => published,
            Err(error) => {
                found.failures.extend(limit.note(name, error));
                return found;
            }
        },
        listing::Source::Unknown => return found,
    };
    for candidates in newer(component.versions.keys().map(String::as_str), &published) {
        for version in candidates {
            match digests(ask, component, version).await {
                Ok(Some(pins)) => {
                    found.versions.insert(version.to_owned(), pins);
                    break;
                }
                // The next older one of the line is tried.
                Ok(None) => found.notes.push(format!(
                    "{name} {version}: it is listed, and no digest of it is published: it was withdrawn, or is not finished"
                )),
                Err(BuildError::NoChecksum { url, file_name, is_page: false, .. }) => found.notes.push(format!(
                    "{name} {version}: it is listed, and {url} holds no sha256 of {file_name}: this version is left out"
                )),
                // Other lines may be elsewhere, and answer.
                Err(error) => {
                    found.failures.push(error);
                    break;
                }
            }
        }
    }
    found
}

/// Of each known line, and of each line newer than all known ones, the versions newer than those known; the newest first, and no
/// more than [`CANDIDATES`].
fn newer<'p>(known: impl Iterator<Item = &'p str> + Clone, published: &'p [String]) -> Vec<Vec<&'p str>> {
    let newest_line = version::newest(known.clone().map(version::minor)).map(str::to_owned);
    let mut lines: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in published {
        let line = version::minor(one);
        let of_line = version::newest(known.clone().filter(|version| version::minor(version) == line));
        let wanted = match of_line {
            Some(newest) => version::compare(one, newest).is_gt(),
            None => newest_line.as_deref().is_some_and(|newest| version::compare(line, newest).is_gt()),
        };
        if wanted {
            lines.entry(line).or_default().push(one);
        }
    }
    let mut all: Vec<Vec<&str>> = lines.into_values().collect();
    for line in &mut all {
        line.sort_by(|a, b| version::compare(b, a));
        line.truncate(CANDIDATES);
    }
    all
}

/// The digests that upstream publishes of a version; none where it publishes none for some architecture.
async fn digests(
    ask: Ask<'_>,
    component: &Component,
    version: &str,
) -> Result<Option<BTreeMap<Arch, Pin>>, BuildError> {
    let Some(program) = Program::ALL.into_iter().find(|program| program.name() == component.name) else {
        return Ok(None);
    };
    let key = ArtifactKey::Binary(program);
    let mut pins = BTreeMap::new();
    for arch in [Arch::Amd64, Arch::Arm64] {
        if component.published_url(version, arch).is_none() {
            continue;
        }
        let (file_name, checksum_url) = (component.file_name(version, arch), component.checksum_url(version, arch));
        let checksums = checksum_url.as_deref().map(|url| places::files(ask.zone, url)).unwrap_or_default();
        let wanted = file::Wanted {
            key: &key,
            file_name: &file_name,
            sha256: None,
            size: None,
            checksum_url: checksum_url.as_deref(),
        };
        match file::published(&wanted, &checksums, ask.origins).await {
            Ok((sha256, mirror)) => {
                let trust = if mirror { Trust::Mirror } else { Trust::UpstreamChecksum };
                pins.insert(arch, Pin { sha256, size: None, trust });
            }
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(pins))
}

/// Every origin answered that it has no such file. One that refuses, fails, or sends something else has not answered
/// so: a version is not passed over for a login page.
fn is_missing(error: &BuildError) -> bool {
    let BuildError::Fetch { source, .. } = error else { return false };
    match &**source {
        TransportError::AllFailed { tried, .. } => {
            !tried.is_empty() && tried.iter().all(|error| matches!(error, TransportError::Missing { .. }))
        }
        error => matches!(error, TransportError::Missing { .. }),
    }
}

/// The newest version of a chart in each line that is known and has a newer one, and in each newer line; the oldest line first.
async fn of_feature(ask: Ask<'_>, feature: &FeatureSet) -> Result<Vec<String>, BuildError> {
    // One in an OCI registry has no index.
    let Some(chart) = feature.chart.as_ref().filter(|chart| !chart.is_oci()) else { return Ok(Vec::new()) };
    let known: Vec<String> = feature.versions.keys().filter_map(|version| feature.chart_version(version)).collect();
    let item = format!("chart/{}", feature.name);
    let read = |bytes: &[u8]| index::versions(bytes, &chart.name);
    let mut published = listing::first(ask, &chart_index(&chart.repository), INDEX_LIMIT, &item, read).await?;
    published.retain(|one| is_release(one));
    let lines = newer(known.iter().map(String::as_str), &published);
    let mut newest: Vec<String> = lines.iter().filter_map(|line| line.first()).map(|one| (*one).to_owned()).collect();
    newest.sort_by(|a, b| version::compare(a, b));
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_known_lines_newer_patches_are_taken_and_of_unknown_ones_only_newer_lines() {
        let published: Vec<String> =
            ["1.6.40", "1.7.35", "1.7.34", "2.1.9", "2.1.11", "2.1.10", "2.4.0", "1.5.9", "2.0.0"]
                .map(str::to_owned)
                .to_vec();
        let known = ["1.7.34", "2.1.9", "2.3.4", "2.0.1"];
        let found = newer(known.into_iter(), &published);
        assert_eq!(found, [vec!["1.7.35"], vec!["2.1.11", "2.1.10"], vec!["2.4.0"]]);
    }

    #[test]
    fn of_a_line_without_an_end_the_newest_are_asked_about() {
        let published: Vec<String> = (0..1000).map(|patch| format!("1.7.{patch}")).collect();
        let found = newer(["1.7.1"].into_iter(), &published);
        assert_eq!((found.len(), found[0].len(), found[0][0]), (1, CANDIDATES, "1.7.999"));
    }

    #[test]
    fn release_candidates_do_not_count_as_releases() {
        assert!(is_release("1.2.3") && is_release("v1.17"));
        for bad in ["1.2.3-rc.1", "nightly", "v2.0.0-beta", "2026", "../1.2"] {
            assert!(!is_release(bad), "{bad}");
        }
    }
}
