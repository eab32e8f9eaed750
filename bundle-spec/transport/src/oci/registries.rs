//! `registries.conf`, version 2, as skopeo and podman read it (containers-registries.conf(5)): mirrors of a registry or of a
//! part of it, other locations, and what is blocked. Pure but for reading the files.
//!
//! `insecure` allows plain http here, and nothing else: certificates are always checked.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use kubexm_spec::reference::by_host;
use serde::Deserialize;

use super::ImageCandidate;
use crate::{TransportError, bounded};

/// What the files say, by prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistriesConf {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// Which file said it.
    from: PathBuf,
    location: String,
    insecure: bool,
    blocked: bool,
    mirrors: Vec<Mirror>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mirror {
    location: String,
    insecure: bool,
    pulls: Pulls,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Pulls {
    #[default]
    All,
    DigestOnly,
    TagOnly,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    registry: Vec<RegistryTable>,
    /// Version 1.
    registries: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RegistryTable {
    prefix: Option<String>,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<MirrorTable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct MirrorTable {
    location: String,
    #[serde(default)]
    insecure: bool,
    pull_from_mirror: Option<Pulls>,
}

impl RegistriesConf {
    /// Reads files in order; of the same prefix the last one counts. A file that is not there is passed over unless it was
    /// `named` by the user.
    pub fn read(files: &[PathBuf], named: bool) -> Result<Self, TransportError> {
        let mut all = Self::default();
        for path in files {
            let text = match bounded::read_text(path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound && !named => continue,
                Err(error) => return Err(wrong(path, format!("cannot be read: {error}"))),
            };
            all.add(path, &text)?;
        }
        Ok(all)
    }

    fn add(&mut self, path: &Path, text: &str) -> Result<(), TransportError> {
        let file: File = toml::from_str(text).map_err(|e| wrong(path, format!("is not valid: {e}")))?;
        if file.registries.is_some() {
            return Err(wrong(
                path,
                "is of version 1 ([registries.search] …); write it as version 2 ([[registry]])".into(),
            ));
        }
        for table in file.registry {
            let prefix = table.prefix.filter(|prefix| !prefix.is_empty()).unwrap_or_else(|| table.location.clone());
            let prefix = prefix.trim_end_matches('/').to_owned();
            if prefix.is_empty() || prefix.contains("://") {
                let problem =
                    format!("has a registry with the prefix {prefix:?}: expected HOST[:PORT][/PATH] or *.DOMAIN");
                return Err(wrong(path, problem));
            }
            let mirrors = table.mirror.into_iter().map(|mirror| Mirror {
                location: mirror.location.trim_end_matches('/').to_owned(),
                insecure: mirror.insecure,
                pulls: match mirror.pull_from_mirror {
                    None if table.mirror_by_digest_only => Pulls::DigestOnly,
                    given => given.unwrap_or_default(),
                },
            });
            let entry = Entry {
                from: path.to_owned(),
                location: table.location.trim_end_matches('/').to_owned(),
                insecure: table.insecure,
                blocked: table.blocked,
                mirrors: mirrors.collect(),
            };
            self.entries.insert(prefix, entry);
        }
        Ok(())
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where an image is asked for, in order: the mirrors, then the location. The error of what is blocked names the file.
    pub(crate) fn candidates(
        &self,
        candidate: &ImageCandidate,
        by_digest: bool,
    ) -> Result<Vec<ImageCandidate>, TransportError> {
        let name = format!("{}/{}", candidate.registry, candidate.repository);
        let found = self.entries.iter().filter(|(prefix, _)| matched(prefix, &name).is_some());
        // Of two that write one host in two ways, the one that writes it as it is asked.
        let fit = |prefix: &str| (by_host(prefix).len(), name.starts_with(prefix));
        let Some((prefix, entry)) = found.max_by_key(|(prefix, _)| fit(prefix)) else {
            return Ok(vec![candidate.clone()]);
        };
        if entry.blocked {
            let reason = format!("{prefix} is blocked in {}", entry.from.display());
            return Err(TransportError::Denied { origin: name, reason });
        }
        let rest = &name[matched(prefix, &name).unwrap_or_default()..];
        let mut all = Vec::new();
        let mut push = |location: &str, insecure: bool| {
            let to = format!("{location}{rest}");
            let Some((registry, repository)) = to.split_once('/') else { return };
            let same = registry == candidate.registry;
            let made = ImageCandidate {
                plain_http: same && candidate.plain_http,
                ca_file: candidate.ca_file.clone().filter(|_| same),
                ..ImageCandidate::new(registry, repository)
            };
            let plain = (insecure && !made.plain_http).then(|| ImageCandidate { plain_http: true, ..made.clone() });
            all.push(made);
            all.extend(plain);
        };
        for mirror in &entry.mirrors {
            match (mirror.pulls, by_digest) {
                (Pulls::All, _) | (Pulls::DigestOnly, true) | (Pulls::TagOnly, false) => {
                    push(&mirror.location, mirror.insecure);
                }
                _ => {}
            }
        }
        let location = if entry.location.is_empty() { &name[..name.len() - rest.len()] } else { &entry.location };
        push(location, entry.insecure);
        Ok(all)
    }
}

/// How much of a name a prefix stands for, however both write the host; none when it does not fit. `*.example.com` stands for a host
/// below it.
fn matched(prefix: &str, name: &str) -> Option<usize> {
    if let Some(domain) = prefix.strip_prefix("*.") {
        let host = name.split('/').next().unwrap_or_default();
        let (domain, plain) = (domain.to_ascii_lowercase(), host.to_ascii_lowercase());
        let is_below =
            |host: &str| host.strip_suffix(&domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'));
        return (is_below(&plain) || plain.strip_suffix(":443").is_some_and(is_below)).then_some(host.len());
    }
    let (prefix, plain) = (by_host(prefix), by_host(name));
    let rest = plain.strip_prefix(&prefix)?;
    // Both names end with it: what differs is the host.
    (rest.is_empty() || rest.starts_with('/')).then_some(name.len() - rest.len())
}

fn wrong(path: &Path, problem: String) -> TransportError {
    TransportError::Setting { what: format!("registries.conf {}", path.display()), problem }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TEXT: &str = r#"
unqualified-search-registries = ["docker.io"]
short-name-mode = "enforcing"

[[registry]]
prefix = "docker.io"
location = "docker.io"
[[registry.mirror]]
location = "mirror.lan:5000/hub"
insecure = true
[[registry.mirror]]
location = "tags.lan"
pull-from-mirror = "tag-only"
[[registry.mirror]]
location = "digests.lan"
pull-from-mirror = "digest-only"

[[registry]]
prefix = "docker.io/secret"
blocked = true

[[registry]]
prefix = "quay.io/team"
location = "harbor.lan/quay/team"

[[registry]]
prefix = "*.corp.test"
[[registry.mirror]]
location = "cache.corp/all"

[[registry]]
location = "registry.k8s.io"
mirror-by-digest-only = true
[[registry.mirror]]
location = "k8s.lan"
"#;

    fn conf(text: &str) -> RegistriesConf {
        let mut conf = RegistriesConf::default();
        conf.add(Path::new("/etc/containers/registries.conf"), text).unwrap();
        conf
    }

    fn asked(conf: &RegistriesConf, name: &str, by_digest: bool) -> Vec<String> {
        let (registry, repository) = name.split_once('/').unwrap();
        let all = conf.candidates(&ImageCandidate::new(registry, repository), by_digest).unwrap();
        let scheme = |plain| if plain { "http" } else { "https" };
        all.iter().map(|c| format!("{}://{}/{}", scheme(c.plain_http), c.registry, c.repository)).collect()
    }

    #[test]
    fn mirrors_come_in_their_order_and_the_location_last() {
        let conf = conf(TEXT);
        for (name, by_digest, expected) in [
            (
                "docker.io/library/busybox",
                false,
                &[
                    "https://mirror.lan:5000/hub/library/busybox",
                    "http://mirror.lan:5000/hub/library/busybox",
                    "https://tags.lan/library/busybox",
                    "https://docker.io/library/busybox",
                ][..],
            ),
            (
                "docker.io/library/busybox",
                true,
                &[
                    "https://mirror.lan:5000/hub/library/busybox",
                    "http://mirror.lan:5000/hub/library/busybox",
                    "https://digests.lan/library/busybox",
                    "https://docker.io/library/busybox",
                ],
            ),
            ("quay.io/team/app", false, &["https://harbor.lan/quay/team/app"]),
            ("quay.io/teams/app", false, &["https://quay.io/teams/app"]),
            ("a.b.corp.test/x/y", false, &["https://cache.corp/all/x/y", "https://a.b.corp.test/x/y"]),
            ("corp.test/x/y", false, &["https://corp.test/x/y"]),
            ("registry.k8s.io/pause", false, &["https://registry.k8s.io/pause"]),
            ("registry.k8s.io/pause", true, &["https://k8s.lan/pause", "https://registry.k8s.io/pause"]),
        ] {
            assert_eq!(asked(&conf, name, by_digest), expected, "{name}");
        }
    }

    #[test]
    fn what_is_blocked_is_refused_with_the_file_that_says_so() {
        let error = conf(TEXT).candidates(&ImageCandidate::new("docker.io", "secret/app"), false).unwrap_err();
        assert!(error.to_string().contains("blocked in /etc/containers/registries.conf"), "{error}");
    }

    #[test]
    fn a_host_is_blocked_in_every_way_to_write_it() {
        let conf = conf(
            "[[registry]]\nprefix = \"quay.io\"\nblocked = true\n[[registry]]\nprefix = \"docker.io\"\nblocked = true\n\
             [[registry]]\nprefix = \"*.corp.test\"\nblocked = true\n[[registry]]\nprefix = \"A.test:443/x\"\nlocation = \"b.test\"",
        );
        for (host, repository) in [
            ("Quay.io", "x/y"),
            ("quay.io:443", "x/y"),
            ("registry-1.docker.io", "library/x"),
            ("INDEX.docker.io", "x"),
            ("A.Corp.Test", "x"),
            ("a.corp.test:443", "x"),
        ] {
            let asked = conf.candidates(&ImageCandidate::new(host, repository), false);
            assert!(asked.is_err(), "{host}: {asked:?}");
        }
        assert_eq!(asked(&conf, "quay.io:5000/x/y", false), ["https://quay.io:5000/x/y"]);
        assert_eq!(asked(&conf, "a.TEST/x/y", false), ["https://b.test/y"]);
    }

    #[test]
    fn a_zones_plain_http_and_ca_hold_for_its_own_registry_only() {
        let candidate = ImageCandidate {
            plain_http: true,
            ca_file: Some("ca.pem".into()),
            ..ImageCandidate::new("docker.io", "library/busybox")
        };
        let all = conf(TEXT).candidates(&candidate, true).unwrap();
        let (last, others) = all.split_last().unwrap();
        assert_eq!(*last, candidate);
        assert!(others.iter().all(|other| other.ca_file.is_none()), "{others:?}");
    }

    #[test]
    fn of_two_files_the_later_one_counts_and_version_1_and_nonsense_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let files = [
            at("a.conf", "[[registry]]\nlocation = \"a.test\"\n[[registry.mirror]]\nlocation = \"one.test\""),
            dir.path().join("none.conf"),
            at("b.conf", "[[registry]]\nlocation = \"a.test\"\n[[registry.mirror]]\nlocation = \"two.test\""),
        ];
        let conf = RegistriesConf::read(&files, false).unwrap();
        assert_eq!(asked(&conf, "a.test/x", false), ["https://two.test/x", "https://a.test/x"]);
        for (text, part) in [
            ("[registries.search]\nregistries = ['docker.io']", "version 1"),
            ("[[registry]]\nblocked = true", "prefix"),
            ("[[registry]]\nlocation = \"a\"\nblocked = 3", "is not valid"),
            ("[[registry", "is not valid"),
        ] {
            let error = RegistriesConf::read(&[at("bad.conf", text)], true).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("bad.conf"), "{error}");
        }
        assert!(RegistriesConf::read(&[dir.path().join("none.conf")], true).is_err());
    }
}
