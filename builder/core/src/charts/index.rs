//! `index.yaml` of a chart repository (helm.sh/docs/topics/chart_repository, "The index file"): only the one chart is kept.

use std::fmt;

use kubexm_spec::Digest;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

/// Values of an index that are looked at; the largest public one has some three million.
const NODES_LIMIT: usize = 20_000_000;
/// How many versions an error names.
const NEAREST: usize = 5;
/// The most versions of one chart; those of the largest have some thousand.
const VERSIONS_LIMIT: usize = 10_000;
/// The most addresses that are kept of a version; it has one.
const URLS_KEPT: usize = 16;

/// One version of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Of the archive, when it is reported.
    pub digest: Option<Digest>,
    /// Addresses, absolute or relative to the repository.
    pub urls: Vec<String>,
}

/// What an index says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has the version.
    Has(Entry),
    /// It has not; some of what it has of the chart.
    Lacks(Vec<String>),
}

/// Every version that it has of a chart; the error says in words what was found instead of an index.
pub fn versions(bytes: &[u8], chart: &str) -> Result<Vec<String>, String> {
    Ok(read(bytes, chart)?.versions.into_iter().map(|known| known.version).collect())
}

fn read(bytes: &[u8], chart: &str) -> Result<Index, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "not text where an index was expected".to_owned())?;
    let budget = serde_saphyr::budget! {
        max_nodes: NODES_LIMIT, max_events: 2 * NODES_LIMIT, max_total_scalar_bytes: 256 << 20,
        max_anchors: 1_000, max_aliases: 1_000
    };
    let options = serde_saphyr::options! {
        budget: budget,
        // Nobody writes an index with aliases: what they would blow up to is not waited for.
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 10_000 },
        with_snippet: false,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
    };
    let seed = Wanted { chart };
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        deserializer.deserialize_map(seed)
    })
    .map_err(|error| format!("not an index of charts: {}", error.to_string().lines().next().unwrap_or_default()))
}

/// Looks a version up; the error says in words what was found instead of an index.
pub fn find(bytes: &[u8], chart: &str, version: &str) -> Result<Answer, String> {
    let index = read(bytes, chart)?;
    let same = |known: &str| known.strip_prefix('v').unwrap_or(known) == version.strip_prefix('v').unwrap_or(version);
    let exact = index.versions.iter().find(|known| known.version == version);
    match exact.or_else(|| index.versions.iter().find(|known| same(&known.version))) {
        Some(found) => {
            let digest = found.digest.as_deref().map(|text| text.strip_prefix("sha256:").unwrap_or(text));
            let digest = digest.and_then(|hex| Digest::from_hex(&hex.to_ascii_lowercase()).ok());
            Ok(Answer::Has(Entry { digest, urls: found.urls.clone() }))
        }
        None => {
            let known = index.versions.iter().map(|known| known.version.as_str());
            let near = kubexm_spec::yaml::nearest(version, known);
            Ok(Answer::Lacks(near.into_iter().take(NEAREST).map(str::to_owned).collect()))
        }
    }
}

#[derive(Default)]
struct Index {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    version: String,
    #[serde(default)]
    digest: Option<String>,
    #[serde(default, deserialize_with = "urls")]
    urls: Vec<String>,
}

/// The first few; the rest goes by.
fn urls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_seq(Urls)
}

struct Urls;

impl<'de> Visitor<'de> for Urls {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of addresses")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<String>, A::Error> {
        let mut urls = Vec::new();
        while let Some(url) = seq.next_element::<String>()? {
            if urls.len() < URLS_KEPT {
                urls.push(url);
            }
        }
        Ok(urls)
    }
}

/// All of one chart; what has no version is none.
#[derive(Default)]
struct Versions(Vec<Version>);

impl<'de> Deserialize<'de> for Versions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self::default())
    }
}

impl<'de> Visitor<'de> for Versions {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of versions")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self, A::Error> {
        while let Some(version) = seq.next_element::<Version>()? {
            if version.version.is_empty() {
                continue;
            }
            if self.0.len() >= VERSIONS_LIMIT {
                return Err(de::Error::custom(format!("it has more than {VERSIONS_LIMIT} versions of the chart")));
            }
            self.0.push(version);
        }
        Ok(self)
    }
}

/// Reads `{entries: {CHART: […]}}` and forgets the rest while it goes by.
struct Wanted<'a> {
    chart: &'a str,
}

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = Index;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an index with `entries`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Index, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "entries" => found = Some(map.next_value_seed(Entries { chart: self.chart })?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        found.ok_or_else(|| de::Error::custom("it has no `entries`"))
    }
}

struct Entries<'a> {
    chart: &'a str,
}

impl<'de> de::DeserializeSeed<'de> for Entries<'_> {
    type Value = Index;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Index, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = Index;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("charts by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Index, A::Error> {
        let mut index = Index::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == self.chart {
                index.versions = map.next_value::<Versions>()?.0;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(index)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Index, E> {
        Ok(Index::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "apiVersion: v1\nentries:\n  other:\n  - {version: 9.9.9, urls: [x]}\n  web:\n  - version: v1.2.3\n    \
                         digest: sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\n    urls: [charts/web-1.2.3.tgz]\n    \
                         description: \"# not: a comment\"\n  - {version: 1.2.4, urls: []}\ngenerated: now\n";

    #[test]
    fn a_version_is_found_with_and_without_its_v() {
        for version in ["v1.2.3", "1.2.3"] {
            let Answer::Has(entry) = find(INDEX.as_bytes(), "web", version).unwrap() else { panic!("{version}") };
            assert_eq!(entry.urls, ["charts/web-1.2.3.tgz"]);
            assert_eq!(entry.digest, Some(Digest::of("foo")));
        }
        let Answer::Has(entry) = find(INDEX.as_bytes(), "web", "1.2.4").unwrap() else { panic!() };
        assert_eq!(entry.digest, None);
    }

    #[test]
    fn what_is_not_there_is_reported_with_what_is() {
        let Answer::Lacks(known) = find(INDEX.as_bytes(), "web", "1.2.9").unwrap() else { panic!() };
        assert!(known.contains(&"1.2.4".to_owned()), "{known:?}");
        assert_eq!(find(INDEX.as_bytes(), "absent", "1").unwrap(), Answer::Lacks(Vec::new()));
        assert_eq!(find(b"entries: {}\n", "web", "1").unwrap(), Answer::Lacks(Vec::new()));
    }

    #[test]
    fn of_a_chart_so_many_versions_and_addresses_are_kept_as_there_can_be() {
        let of = |count: usize| format!("entries:\n  web: [{}]\n", "{version: 1.2.3}, ".repeat(count));
        assert_eq!(versions(of(10_000).as_bytes(), "web").unwrap().len(), 10_000);
        assert!(versions(of(10_001).as_bytes(), "web").unwrap_err().contains("more than 10000 versions"));
        assert!(find(of(10_001).as_bytes(), "other", "1.2.3").is_ok());
        let empty =
            format!("entries:\n  web: [{} {{version: 1.2.4, urls: [{}]}}]\n", "{}, ".repeat(20_000), "x, ".repeat(100));
        assert_eq!(versions(empty.as_bytes(), "web").unwrap(), ["1.2.4"]);
        let Answer::Has(entry) = find(empty.as_bytes(), "web", "1.2.4").unwrap() else { panic!() };
        assert_eq!(entry.urls.len(), URLS_KEPT);
    }

    #[test]
    fn what_is_no_index_is_refused() {
        for text in ["<html><body>log in</body></html>", "{\"message\": \"denied\"}", "", "entries: 1", "- a"] {
            assert!(find(text.as_bytes(), "web", "1").is_err(), "{text}");
        }
    }
}
