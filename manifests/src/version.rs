//! Versions as upstreams write them, just enough to order them and to find their minor.

use std::cmp::{Ordering, Reverse};

/// The text without a leading `v`.
pub fn bare(text: &str) -> &str {
    text.strip_prefix('v').unwrap_or(text)
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

/// Orders versions number by number (`1.9.0` before `1.10.0`). What is no number is ordered as text, and a suffix comes
/// before the version without it, as in semver (`2.0.0-rc.1` before `2.0.0`).
pub fn compare(left: &str, right: &str) -> Ordering {
    let (left, left_suffix) = split(bare(left));
    let (right, right_suffix) = split(bare(right));
    numbers(left).cmp(&numbers(right)).then_with(|| match (left_suffix, right_suffix) {
        ("", "") => Ordering::Equal,
        ("", _) => Ordering::Greater,
        (_, "") => Ordering::Less,
        (a, b) => a.cmp(b),
    })
}

/// `1.34` of `v1.34.4`; the text itself when it has fewer parts.
pub fn minor(text: &str) -> &str {
    let (main, _) = split(bare(text));
    main.match_indices('.').nth(1).map_or(main, |(end, _)| &main[..end])
}

/// The patch number of a three-part version.
pub fn patch(text: &str) -> Option<u32> {
    let (main, _) = split(bare(text));
    main.split('.').nth(2).and_then(|part| part.parse().ok())
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
    let (a, b) = (numbers(split(bare(a)).0), numbers(split(bare(b)).0));
    let number = |all: &[u64], place: usize| all.get(place).copied().unwrap_or(0);
    let places = a.len().max(b.len());
    let first = (0..places).find(|place| number(&a, *place) != number(&b, *place)).unwrap_or(places);
    (Reverse(first), number(&a, first).abs_diff(number(&b, first)))
}

fn split(text: &str) -> (&str, &str) {
    text.split_once('-').unwrap_or((text, ""))
}

fn numbers(main: &str) -> Vec<u64> {
    main.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_comes_after_nine_and_a_candidate_before_its_release() {
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
    fn a_version_cannot_climb_out_of_an_address() {
        assert!(is_version("v1.34.4-rc.1") && is_version("2.0.0+k3s1"));
        for bad in ["", "../1.2.3", "1.2.3/../x", "1.2.3-..", "latest", "1.2.3 "] {
            assert!(!is_version(bad), "{bad:?}");
        }
    }
}
