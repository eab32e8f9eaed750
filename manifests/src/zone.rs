//! Zones: mirrors of what an origin publishes. A zone is a list of rewrite rules with fallback (cluster-config,
//! "Zones").

use std::path::PathBuf;

use kubexm_spec::reference::by_host;
use kubexm_spec::yaml::{self, At, Keys, Problems, Sink};
use serde::Serialize;

use crate::embedded::ZONES;
use crate::error::CatalogueError;

const ZONE: Keys = Keys::all(&["name", "rules"]);
const RULE: Keys = Keys::all(&["match", "to", "only", "plainHttp", "trustUnsigned", "caFile", "certFile", "keyFile"]);

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
    /// Metadata of rpm repositories that nobody signs is accepted from these hosts over plain HTTP.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub trust_unsigned: bool,
    /// PEM file of the authority these hosts are signed by.
    pub ca_file: Option<PathBuf>,
    /// PEM file of the certificate that these hosts are shown: the entitlement of a subscription. For files, not for registries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<PathBuf>,
    /// PEM file of its private key; there where `cert_file` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
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
    /// See [`Rule::trust_unsigned`].
    pub trust_unsigned: bool,
    /// Certificate and private key that the host is shown.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Of a file of this machine: the address of the folder that it is below.
    pub folder: Option<String>,
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

    /// Addresses to fetch a file from, in order.
    pub fn files(&self, url: &str) -> Vec<FileCandidate> {
        let origin = || FileCandidate {
            url: url.to_owned(),
            ca_file: None,
            plain_http: url.starts_with("http://"),
            trust_unsigned: false,
            identity: None,
            folder: None,
            mirror: false,
        };
        let Some((_, address)) = url.split_once("://") else { return vec![origin()] };
        let (mut all, only) = self.candidates(address, Kind::File, |rule, base, rest| {
            if is_folder(base) {
                let (url, folder) = (format!("{base}{rest}"), Some(base.to_owned()));
                return Some(FileCandidate {
                    url,
                    ca_file: None,
                    plain_http: false,
                    trust_unsigned: false,
                    identity: None,
                    folder,
                    mirror: true,
                });
            }
            let (plain_http, base) = scheme(rule, base);
            let scheme = if plain_http { "http" } else { "https" };
            Some(FileCandidate {
                url: format!("{scheme}://{base}{rest}"),
                ca_file: rule.ca_file.clone(),
                plain_http,
                trust_unsigned: rule.trust_unsigned,
                identity: rule.cert_file.clone().zip(rule.key_file.clone()),
                folder: None,
                mirror: true,
            })
        });
        if !only {
            all.push(origin());
        }
        all
    }

    /// References to pull an image by, in order.
    pub fn images(&self, reference: &str) -> Vec<ImageCandidate> {
        let (mut all, only) = self.candidates(reference, Kind::Image, |rule, base, rest| {
            if is_folder(base) {
                return None;
            }
            let (plain_http, base) = scheme(rule, base);
            // A tag or digest right behind a host would be its port, or make a login of it.
            if rest.starts_with([':', '@']) && !base.contains('/') {
                return None;
            }
            let reference = format!("{base}{rest}");
            let registry = host(&reference);
            Some(ImageCandidate { reference, registry, plain_http, ca_file: rule.ca_file.clone(), mirror: true })
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
        let plain = |address: &'a str| match address.split_once("://") {
            Some((_, rest)) => (rest, Kind::File),
            None => (address, Kind::Image),
        };
        let addresses: Vec<(&str, Kind)> = addresses.into_iter().map(plain).collect();
        let is_idle = |rule: &&Rule| !addresses.iter().any(|(address, kind)| rule.rest(address, *kind).is_some());
        self.rules.iter().filter(is_idle).collect()
    }

    /// Candidates of every rule that matches, each once, and whether one of them forbids to continue.
    fn candidates<T: PartialEq>(
        &self,
        address: &str,
        kind: Kind,
        make: impl Fn(&Rule, &str, &str) -> Option<T>,
    ) -> (Vec<T>, bool) {
        let mut all: Vec<T> = Vec::new();
        for rule in &self.rules {
            let Some(rest) = rule.rest(address, kind) else { continue };
            for candidate in rule.to.iter().filter_map(|base| make(rule, base.trim_end_matches('/'), rest)) {
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

/// What an address is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Image,
}

impl Rule {
    /// What follows the match in an address without scheme, however both write the host; none when the rule is for something else.
    /// A match ends where a part of the address ends: `registry.k8s.io` does not match `registry.k8s.io:5000/x`, nor
    /// `github.com/etcd` what is under `github.com/etcd-io`. A repository of images ends with `:` and `@`, too; behind the host that
    /// takes its place in the address of a file, these would make another host of it, and it would be shown the rule's certificate.
    fn rest<'a>(&self, address: &'a str, kind: Kind) -> Option<&'a str> {
        let (matches, plain) = (by_host(&self.matches), by_host(address));
        let rest = plain.strip_prefix(&matches)?;
        let repository = kind == Kind::Image && self.matches.contains('/') && rest.starts_with([':', '@']);
        (rest.is_empty() || rest.starts_with('/') || repository).then(|| &address[address.len() - rest.len()..])
    }
}

/// What an entry of `to` begins with that is a folder of this machine (RFC 8089), by its absolute path.
const FOLDER: &str = "file:///";

fn is_folder(base: &str) -> bool {
    base.starts_with("file://")
}

/// Whether an entry of `to` is asked over plain HTTP, and the entry without its scheme.
fn scheme<'a>(rule: &Rule, base: &'a str) -> (bool, &'a str) {
    scheme_of(rule.plain_http, base)
}

fn scheme_of(plain_http: bool, base: &str) -> (bool, &str) {
    match base.split_once("://") {
        Some((scheme, base)) => (scheme == "http", base),
        None => (plain_http, base),
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
            at.bad(format!("{text:?} is not an origin"), "a host, or host and path, without https://");
            return None;
        }
        Some(text.to_owned())
    });
    let to = map.need("to").map(|at| read_to(&at));
    let flag = |name: &str| map.get(name).map_or(Some(false), |at| at.boolean());
    let only = flag("only");
    let plain_http = flag("plainHttp");
    let trust_unsigned = flag("trustUnsigned");
    let file = |name: &str| match map.get(name) {
        Some(at) => at.text().map(|text| Some(PathBuf::from(text))),
        None => Some(None),
    };
    let (ca_file, cert_file, key_file) = (file("caFile")?, file("certFile")?, file("keyFile")?);
    let (to, plain_http) = (to??, plain_http?);
    if cert_file.is_some() != key_file.is_some() {
        at.bad("one of certFile and keyFile", "a client certificate needs its private key: give both, or none");
        return None;
    }
    let over_tls = |base: &&String| !is_folder(base) && !scheme_of(plain_http, base).0;
    if cert_file.is_some() && !to.iter().all(|base| over_tls(&base)) {
        at.bad(
            "a client certificate for something other than https",
            "leave out certFile and keyFile, or give `to` with https://",
        );
        return None;
    }
    Some(Rule {
        matches: matches?,
        to,
        only: only?,
        plain_http,
        trust_unsigned: trust_unsigned?,
        ca_file,
        cert_file,
        key_file,
    })
}

fn read_to(at: &At<'_>) -> Option<Vec<String>> {
    let items = at.list();
    if at.is_list() && items.is_empty() {
        at.bad("no target", "give at least one base URL or registry prefix");
    }
    items
        .iter()
        .map(|item| {
            let text = item.text()?;
            if item.holds_login() {
                return None;
            }
            let after = text.split_once("://");
            if text.starts_with("file:") && (!text.starts_with(FOLDER) || text.trim_end_matches('/') == "file:") {
                item.bad(format!("{text:?} is not a folder of this machine"), "an absolute path: file:///mnt/iso");
                return None;
            }
            let known = after.is_none_or(|(scheme, _)| matches!(scheme, "http" | "https" | "file"));
            let rest = after.map_or(text, |(_, rest)| rest);
            if !known || rest.is_empty() || rest.contains(char::is_whitespace) {
                item.bad(
                    format!("{text:?} is not a base URL or registry prefix"),
                    "like https://mirror.example/github.com, or file:///mnt/iso",
                );
                return None;
            }
            Some(text.to_owned())
        })
        .collect()
}
