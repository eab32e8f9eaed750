//! Versions of components in the catalogue ([`Version`]): spans of them, their lines, which is the newest.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::fmt;

use kubexm_spec::Version;
use serde::{Deserialize, Serialize};

/// Versions from one to another, both included. An end with fewer numbers than a version stands for its whole line: `1.6` holds
/// `1.6.39`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Span {
    /// The first; none: all earlier ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The last; none: all later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl Span {
    /// Whether a version is one of them.
    pub fn holds(&self, version: &str) -> bool {
        let within = |end: &str| bare(version).strip_prefix(end).is_some_and(|rest| rest.starts_with('.'));
        self.from.as_ref().is_none_or(|from| compare(from, version).is_le() || within(from))
            && self.to.as_ref().is_none_or(|to| compare(version, to).is_le() || within(to))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) if from == to => f.write_str(from),
            (Some(from), Some(to)) => write!(f, "{from} to {to}"),
            (Some(from), None) => write!(f, "{from} and later"),
            (None, Some(to)) => write!(f, "up to {to}"),
            (None, None) => f.write_str("every version"),
        }
    }
}

/// What a table by line (`2.1`, or `24`) says of a version: the longest line that the version is of.
pub fn end_of_line<'a>(by_line: &'a BTreeMap<String, String>, version: &str) -> Option<&'a str> {
    let of = |line: &str| bare(version).strip_prefix(line).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    by_line.iter().filter(|(line, _)| of(line)).max_by_key(|(line, _)| line.len()).map(|(_, date)| date.as_str())
}

/// The text without a leading `v`.
pub fn bare(text: &str) -> &str {
    Version::of(text).bare()
}

/// Whether the text can be a version: it becomes part of addresses and file names, so it holds nothing but letters, digits,
/// `.`, `-` and `+`, begins with a digit (after `v`), and has no `..`.
pub fn is_version(text: &str) -> bool {
    let text = bare(text);
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_digit())
        && !text.contains("..")
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+'))
}

/// As [`Version`]s are ordered.
pub fn compare(left: &str, right: &str) -> Ordering {
    Version::of(left).cmp(&Version::of(right))
}

/// `1.34` of `v1.34.4`; the text itself when it has fewer parts.
pub fn minor(text: &str) -> &str {
    let main = Version::of(text).main();
    main.match_indices('.').nth(1).map_or(main, |(end, _)| &main[..end])
}

/// The patch number of a three-part version.
pub fn patch(text: &str) -> Option<u32> {
    Version::of(text).release().and_then(|[.., patch]| patch.try_into().ok())
}

/// Newest of some versions.
pub fn newest<'a>(versions: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    versions.into_iter().max_by(|a, b| compare(a, b))
}

/// The known versions nearest to one that is not known, by their numbers; of two equally near the newer first.
pub fn near<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<String> {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_by(|a, b| distance(wanted, a).cmp(&distance(wanted, b)).then_with(|| compare(b, a)));
    known.into_iter().take(count).map(str::to_owned).collect()
}

/// How far apart two versions are: the place of the first number that differs (the later the nearer), and by how much.
fn distance(a: &str, b: &str) -> (Reverse<usize>, u64) {
    let [a, b] = [a, b].map(|text| Version::of(text).numbers().collect::<Vec<_>>());
    let number = |all: &[u64], place: usize| all.get(place).copied().unwrap_or(0);
    let places = a.len().max(b.len());
    let first = (0..places).find(|place| number(&a, *place) != number(&b, *place)).unwrap_or(places);
    (Reverse(first), number(&a, first).abs_diff(number(&b, first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_numerically_and_candidates_before_releases() {
        assert_eq!(newest(["1.34.9", "1.34.11", "1.34.10"]), Some("1.34.11"));
        assert_eq!(compare("2.0.0-rc.1", "2.0.0"), Ordering::Less);
        assert_eq!(minor("v1.34.4"), "1.34");
        assert_eq!(patch("1.34.4"), Some(4));
        assert_eq!(patch("1.34"), None);
    }

    #[test]
    fn the_nearest_versions_are_near_as_numbers_and_not_as_letters() {
        assert_eq!(near("1.37", ["1.3", "1.17", "1.35", "1.36"], 2), ["1.36", "1.35"]);
        assert_eq!(near("2.11.0", ["2.5.3", "2.10.1", "2.10.2"], 1), ["2.10.2"]);
        assert_eq!(near("1.34.9", ["1.34.1", "1.34.10", "1.34.8", "1.39.9"], 3), ["1.34.10", "1.34.8", "1.34.1"]);
    }

    #[test]
    fn an_end_of_a_span_stands_for_its_whole_line() {
        let span = |from: Option<&str>, to: Option<&str>| Span { from: from.map(Into::into), to: to.map(Into::into) };
        let old = span(None, Some("1.6"));
        assert!(old.holds("1.6.39") && old.holds("1.5.0") && !old.holds("1.7.0") && !old.holds("1.60.0"));
        let new = span(Some("3.31"), None);
        assert!(new.holds("3.31.0") && new.holds("v3.31.7") && !new.holds("3.30.7"));
        let both = span(Some("1.9"), Some("1.30"));
        assert!(
            both.holds("1.9") && both.holds("1.10") && both.holds("1.30") && !both.holds("1.8") && !both.holds("1.31")
        );
        assert_eq!((both.to_string().as_str(), new.to_string().as_str()), ("1.9 to 1.30", "3.31 and later"));
    }

    #[test]
    fn a_line_ends_for_its_own_versions_only() {
        let lines: BTreeMap<String, String> =
            [("2.1", "2026-07-03"), ("24", "2024-06-08")].map(|(l, d)| (l.to_owned(), d.to_owned())).into();
        assert_eq!(end_of_line(&lines, "2.1.9"), Some("2026-07-03"));
        assert_eq!(end_of_line(&lines, "24.0.9"), Some("2024-06-08"));
        assert_eq!(end_of_line(&lines, "2.10.1"), None);
    }

    #[test]
    fn a_version_cannot_change_the_path_of_an_address() {
        assert!(is_version("v1.34.4-rc.1") && is_version("2.0.0+k3s1"));
        for bad in ["", "../1.2.3", "1.2.3/../x", "1.2.3-..", "latest", "1.2.3 "] {
            assert!(!is_version(bad), "{bad:?}");
        }
    }
}
