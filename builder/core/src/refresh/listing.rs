//! Where upstreams list their versions: Kubernetes by a text for each minor, the others as releases of a GitHub repository.

use kubexm_manifests::{Component, version};
use kubexm_transport::{FileCandidate, TransportError};
use serde::Deserialize;

use super::question::{Ask, GitHubToken, is_release};
use crate::{BuildError, places};

/// The most bytes of one page of a list; a hundred releases with long notes have some megabytes.
const PAGE_LIMIT: u64 = 32 << 20;
/// Releases of a page, the most that GitHub gives.
const PAGE: usize = 100;
/// The most pages: what is older is not news.
const PAGES: usize = 10;
/// The most bytes of a text with one version.
const VERSION_LIMIT: u64 = 1 << 10;
/// Where GitHub lists releases: the only address that a token is sent to.
const GITHUB: &str = "https://api.github.com/";
/// Where Kubernetes is published.
const KUBERNETES: &str = "https://dl.k8s.io/release/";

/// Where the versions of a component are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Texts beside the releases.
    Kubernetes,
    /// Releases of `owner/name`.
    GitHub(String),
    /// The catalogue does not state it.
    Unknown,
}

/// A page of releases, as GitHub's REST API has them (docs.github.com/rest/releases).
#[derive(Debug, Deserialize)]
struct Answer {
    tag_name: String,
    /// Not published yet.
    #[serde(default)]
    draft: bool,
    /// Its makers do not call it ready.
    #[serde(default)]
    prerelease: bool,
}

/// The newest patch of each minor.
#[derive(Debug, Default)]
pub struct Stable {
    /// Without `v`.
    pub versions: Vec<String>,
    /// Minors that the catalogue does not know.
    pub notes: Vec<String>,
    /// Texts that could not be read; those of other minors could.
    pub failures: Vec<BuildError>,
}

/// Where a component's versions are listed, by what the catalogue says, or its address.
pub fn of(component: &Component) -> Source {
    if component.url.starts_with(KUBERNETES) {
        return Source::Kubernetes;
    }
    if let Some(repository) = &component.github {
        return Source::GitHub(repository.clone());
    }
    let below = component.url.strip_prefix("https://github.com/").unwrap_or_default();
    let mut parts = below.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(owner), Some(name), Some("releases")) => Source::GitHub(format!("{owner}/{name}")),
        _ => Source::Unknown,
    }
}

/// The newest patch of every minor that the catalogue knows, and the newest minor of all.
pub async fn stable(ask: Ask<'_>) -> Stable {
    let mut found = Stable::default();
    if !ask.catalogue.components.values().any(|c| of(c) == Source::Kubernetes && ask.wants(&c.name)) {
        return found;
    }
    let minors = ask.catalogue.releases.keys().map(|minor| (Some(minor.as_str()), format!("stable-{minor}.txt")));
    for (minor, name) in minors.chain([(None, "stable.txt".to_owned())]) {
        match one(ask, &format!("{KUBERNETES}{name}"), minor).await {
            Ok(version) if ask.catalogue.release(&version).is_some() => found.versions.push(version),
            Ok(version) => found.notes.push(format!(
                "Kubernetes {version}: the catalogue does not know this minor: an overlay can name the one it is like \
                 (kubexm-bundle catalogue --help)"
            )),
            Err(error) => found.failures.push(error),
        }
    }
    found.versions.sort();
    found.versions.dedup();
    found
}

/// A text with one version, of this minor.
async fn one(ask: Ask<'_>, url: &str, minor: Option<&str>) -> Result<String, BuildError> {
    let read = |bytes: &[u8]| -> Result<String, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "no text".to_owned())?.trim();
        let of_minor = minor.is_none_or(|minor| version::minor(text) == minor);
        match is_release(text) && text.starts_with('v') && of_minor {
            true => Ok(version::bare(text).to_owned()),
            false => Err(format!("no version{} instead of one", minor.map(|m| format!(" of {m}")).unwrap_or_default())),
        }
    };
    first(ask, url, VERSION_LIMIT, "the newest Kubernetes", read).await
}

/// All versions that a repository has released, without those that its makers do not call ready.
pub async fn releases(ask: Ask<'_>, repository: &str) -> Result<Vec<String>, BuildError> {
    let mut all = Vec::new();
    for page in 1..=PAGES {
        let url = format!("{GITHUB}repos/{repository}/releases?per_page={PAGE}&page={page}");
        let answers = first(ask, &url, PAGE_LIMIT, repository, page_of).await?;
        let more = answers.len() >= PAGE;
        let ready = answers.into_iter().filter(|answer| !answer.draft && !answer.prerelease);
        all.extend(ready.map(|answer| version::bare(&answer.tag_name).to_owned()).filter(|one| is_release(one)));
        if !more {
            break;
        }
    }
    Ok(all)
}

/// The releases of a page: no more than were asked for, whatever a mirror sends, since each may be asked about.
fn page_of(bytes: &[u8]) -> Result<Vec<Answer>, String> {
    let mut answers: Vec<Answer> = serde_json::from_slice(bytes).map_err(|_| "no list of releases".to_owned())?;
    answers.truncate(PAGE);
    Ok(answers)
}

/// With the token where the address is GitHub's own, and not a mirror's.
fn with_token(candidate: FileCandidate, token: Option<&GitHubToken>) -> FileCandidate {
    let token = token.filter(|_| candidate.url.starts_with(GITHUB));
    FileCandidate { bearer: token.map(|token| token.bearer.clone()), ..candidate }
}

/// What the first candidate says that answers with what was asked for: a mirror may answer everything with a page.
pub(super) async fn first<T>(
    ask: Ask<'_>,
    url: &str,
    limit: u64,
    item: &str,
    read: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<T, BuildError> {
    let (mut tried, mut wrong) = (Vec::new(), None);
    let candidates: Vec<FileCandidate> = places::files(ask.zone, url);
    for candidate in candidates {
        let candidate = with_token(candidate, ask.token);
        match ask.origins.http.get_small(&candidate, limit).await {
            Ok(bytes) => match read(&bytes) {
                Ok(found) => return Ok(found),
                Err(problem) => {
                    let url = kubexm_transport::http::shown(&candidate.url);
                    wrong.get_or_insert(BuildError::Listing { item: item.to_owned(), url, problem });
                }
            },
            // Not the origin is wrong, and no mirror has that list.
            Err(TransportError::Denied { reason, .. }) if candidate.bearer.is_some() => {
                let from = ask.token.map(|token| token.from.clone()).unwrap_or_default();
                return Err(BuildError::Token { item: item.to_owned(), from, reason });
            }
            Err(error) => tried.push(error),
        }
    }
    match wrong {
        Some(error) => Err(error),
        None => {
            let what = format!("the list of versions of {item}");
            let source = TransportError::AllFailed { what, tried };
            Err(BuildError::Fetch { item: item.to_owned(), source: Box::new(source) })
        }
    }
}

#[cfg(test)]
mod tests {
    use kubexm_transport::Bearer;

    use super::*;

    #[test]
    fn of_a_page_no_more_releases_are_taken_than_were_asked_for() {
        let page = |count: usize| format!("[{}]", vec![r#"{"tag_name":"v1.2.3"}"#; count].join(","));
        for (sent, taken) in [(0, 0), (PAGE, PAGE), (10 * PAGE, PAGE)] {
            assert_eq!(page_of(page(sent).as_bytes()).unwrap().len(), taken);
        }
        assert!(page_of(b"<html>").is_err());
    }

    #[test]
    fn a_token_goes_to_githubs_own_address_over_https_and_to_no_mirror() {
        let bearer = Bearer::new(b"secret").unwrap();
        let token = GitHubToken { bearer, from: "GITHUB_TOKEN".to_owned() };
        let is_sent = |url: &str| with_token(FileCandidate::new(url), Some(&token)).bearer.is_some();
        assert!(is_sent("https://api.github.com/repos/a/b/releases?page=1"));
        for other in [
            "http://api.github.com/repos/a/b/releases",
            "https://api.github.com.example.org/repos/a/b/releases",
            "https://api.github.com:8443/x",
            "https://api.github.com@example.org/x",
            "https://github.com/a/b/releases/download/v1/SHA256SUMS",
            "https://mirror.example.org/https://api.github.com/repos/a/b/releases",
        ] {
            assert!(!is_sent(other), "{other}");
        }
    }
}
