//! Zones: where to ask for what an origin publishes. A zone is a list of rewrite rules with fallback (cluster-config, "Zones").

use std::path::PathBuf;

use kubexm_spec::yaml::{self, At, Keys, Problems, Sink};
use serde::Serialize;

use crate::embedded::ZONES;
use crate::error::CatalogueError;

const ZONE: Keys = Keys::all(&["name", "rules"]);
const RULE: Keys = Keys::all(&["match", "to", "only", "plainHttp", "caFile"]);

/// An ordered list of rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// Goes into lock and manifest.
    pub name: String,
    /// Every rule that matches is tried, in this order.
    pub rules: Vec<Rule>,
}

/// Other places for one origin host, or for a path of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Origin host, or host and leading path, without a scheme: `github.com`, `registry.k8s.io/coredns`.
    pub matches: String,
    /// Base URLs or registry prefixes that take the place of what matched, in order.
    pub to: Vec<String>,
    /// Later rules and the origin itself are not asked.
    pub only: bool,
    /// Entries of `to` without a scheme are asked over plain HTTP.
    pub plain_http: bool,
    /// PEM file of the authority these hosts are signed by.
    pub ca_file: Option<PathBuf>,
}

/// One address to try for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCandidate {
    /// http or https.
    pub url: String,
    /// PEM file of the authority the host is signed by.
    pub ca_file: Option<PathBuf>,
    /// The address is plain HTTP.
    pub plain_http: bool,
    /// Not the origin itself.
    pub mirror: bool,
}

/// One name to try for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageCandidate {
    /// Full reference: registry, repository, tag or digest.
    pub reference: String,
    /// The host part of the reference, with port.
    pub registry: String,
    /// The registry is asked over plain HTTP.
    pub plain_http: bool,
    /// PEM file of the authority the host is signed by.
    pub ca_file: Option<PathBuf>,
    /// Not the origin itself.
    pub mirror: bool,
}

impl Zone {
    /// A built-in zone.
    pub fn builtin(name: &str) -> Option<Self> {
        ZONES.iter().filter_map(|(_, text)| Self::parse(text).ok()).find(|zone| zone.name == name)
    }

    /// Names of the built-in zones.
    pub fn builtin_names() -> Vec<String> {
        ZONES.iter().filter_map(|(_, text)| Self::parse(text).ok()).map(|zone| zone.name).collect()
    }

    /// Whether every built-in zone can be read; a test asks.
    pub fn check_builtin() -> Result<(), CatalogueError> {
        ZONES.iter().try_for_each(|(path, text)| {
            Self::parse(text)
                .map(drop)
                .map_err(|problems| CatalogueError::Embedded { file: (*path).to_owned(), text: problems.to_string() })
        })
    }

    /// Reads a zone file, strictly: all problems at once, with line and column.
    pub fn parse(text: &str) -> Result<Self, Problems> {
        let tree = yaml::parse(text)?;
        let sink = Sink::default();
        let zone = read_zone(&At::root(&tree, &sink));
        sink.finish(zone)
    }

    /// Where to ask for a file, in order.
    pub fn files(&self, url: &str) -> Vec<FileCandidate> {
        let origin = || FileCandidate {
            url: url.to_owned(),
            ca_file: None,
            plain_http: url.starts_with("http://"),
            mirror: false,
        };
        let Some((_, address)) = url.split_once("://") else { return vec![origin()] };
        let (mut all, only) = self.candidates(address, |rule, base, rest| {
            let (plain_http, base) = scheme(rule, base);
            let scheme = if plain_http { "http" } else { "https" };
            FileCandidate {
                url: format!("{scheme}://{base}{rest}"),
                ca_file: rule.ca_file.clone(),
                plain_http,
                mirror: true,
            }
        });
        if !only {
            all.push(origin());
        }
        all
    }

    /// What to ask for to get an image, in order.
    pub fn images(&self, reference: &str) -> Vec<ImageCandidate> {
        let (mut all, only) = self.candidates(reference, |rule, base, rest| {
            let (plain_http, base) = scheme(rule, base);
            let reference = format!("{base}{rest}");
            let registry = host(&reference);
            ImageCandidate { reference, registry, plain_http, ca_file: rule.ca_file.clone(), mirror: true }
        });
        if !only {
            all.push(ImageCandidate {
                reference: reference.to_owned(),
                registry: host(reference),
                plain_http: false,
                ca_file: None,
                mirror: false,
            });
        }
        all
    }

    /// Rules that match none of these addresses: of files with their scheme, of images without.
    pub fn idle<'a>(&self, addresses: impl IntoIterator<Item = &'a str>) -> Vec<&Rule> {
        let plain = |address: &'a str| address.split_once("://").map_or(address, |(_, rest)| rest);
        let addresses: Vec<&str> = addresses.into_iter().map(plain).collect();
        self.rules.iter().filter(|rule| !addresses.iter().any(|address| rule.rest(address).is_some())).collect()
    }

    /// Candidates of every rule that matches, each once, and whether one of them forbids to go on.
    fn candidates<T: PartialEq>(&self, address: &str, make: impl Fn(&Rule, &str, &str) -> T) -> (Vec<T>, bool) {
        let mut all: Vec<T> = Vec::new();
        for rule in &self.rules {
            let Some(rest) = rule.rest(address) else { continue };
            for candidate in rule.to.iter().map(|base| make(rule, base.trim_end_matches('/'), rest)) {
                // A rule for a folder and one for its host may lead to one place.
                if !all.contains(&candidate) {
                    all.push(candidate);
                }
            }
            if rule.only {
                return (all, true);
            }
        }
        (all, false)
    }
}

impl Rule {
    /// What follows the match in an address without scheme; none when the rule is for something else. A match ends where a
    /// part of the address ends: `registry.k8s.io` does not match `registry.k8s.io:5000/x`, nor `github.com/etcd` what is
    /// under `github.com/etcd-io`.
    fn rest<'a>(&self, address: &'a str) -> Option<&'a str> {
        let rest = address.strip_prefix(self.matches.as_str())?;
        let repository = self.matches.contains('/') && rest.starts_with([':', '@']);
        (rest.is_empty() || rest.starts_with('/') || repository).then_some(rest)
    }
}

/// Whether an entry of `to` is asked over plain HTTP, and the entry without its scheme.
fn scheme<'a>(rule: &Rule, base: &'a str) -> (bool, &'a str) {
    match base.split_once("://") {
        Some((scheme, base)) => (scheme == "http", base),
        None => (rule.plain_http, base),
    }
}

fn host(reference: &str) -> String {
    reference.split('/').next().unwrap_or(reference).to_owned()
}

fn read_zone(at: &At<'_>) -> Option<Zone> {
    let map = at.mapping(&ZONE)?;
    let name = map.need("name").and_then(|at| at.text().map(str::to_owned));
    let rules: Vec<Option<Rule>> =
        map.need("rules").map(|at| at.list().iter().map(read_rule).collect()).unwrap_or_default();
    Some(Zone { name: name?, rules: rules.into_iter().collect::<Option<_>>()? })
}

fn read_rule(at: &At<'_>) -> Option<Rule> {
    let map = at.mapping(&RULE)?;
    let matches = map.need("match").and_then(|at| {
        let text = at.text()?.trim_end_matches('/');
        if text.is_empty() || text.contains("://") || text.contains(char::is_whitespace) {
            at.bad(format!("{text:?} is no origin"), "a host, or host and path, without https://");
            return None;
        }
        Some(text.to_owned())
    });
    let to = map.need("to").map(|at| read_to(&at));
    let flag = |name: &str| map.get(name).map_or(Some(false), |at| at.boolean());
    let only = flag("only");
    let plain_http = flag("plainHttp");
    let ca_file = match map.get("caFile") {
        Some(at) => Some(PathBuf::from(at.text()?)),
        None => None,
    };
    Some(Rule { matches: matches?, to: to??, only: only?, plain_http: plain_http?, ca_file })
}

fn read_to(at: &At<'_>) -> Option<Vec<String>> {
    let items = at.list();
    if at.is_list() && items.is_empty() {
        at.bad("no place to go to", "give at least one base URL or registry prefix");
    }
    items
        .iter()
        .map(|item| {
            let text = item.text()?;
            if item.holds_login() {
                return None;
            }
            let after = text.split_once("://");
            let known = after.is_none_or(|(scheme, _)| matches!(scheme, "http" | "https"));
            let rest = after.map_or(text, |(_, rest)| rest);
            if !known || rest.is_empty() || rest.contains(char::is_whitespace) {
                item.bad(
                    format!("{text:?} is no base URL or registry prefix"),
                    "like https://mirror.example/github.com",
                );
                return None;
            }
            Some(text.to_owned())
        })
        .collect()
}
