//! Versions of upstream projects, and releases of Kubernetes.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A version as an upstream writes it: numbers between dots, with or without a leading `v`, with or without a suffix
/// (`v1.34.4`, `2.2`, `1.35.0-rc.1`, kubeadm's etcd image `3.5.24-0`). Any text is one, if need be one without numbers: what hosts
/// report is compared, not refused. A suffix after `-` comes before the version without it (semver 2.0.0, 11), what follows
/// `+` counts for nothing. A part that is no number is ordered as zero. What is of the same release compares equal by
/// [`Version::release`], whatever its suffix.
///
/// No crate serves (seen in November 2026). semver 1.0 refuses `2.2` and a leading `v`; lenient_semver (none since 2021) fills `2.2`
/// up to `2.2.0`, so that a line cannot be told from its first release; versions 8 reads all of these, and takes the `-0` of an
/// image for a pre-release as the others do, so that its numbers would have to be taken apart here all the same.
#[derive(Clone, Copy, Debug)]
pub struct Version<'a>(&'a str);

impl<'a> Version<'a> {
    /// The version that the text is.
    pub fn of(text: &'a str) -> Self {
        Self(text.strip_prefix('v').unwrap_or(text))
    }

    /// The text without a leading `v`.
    pub const fn bare(self) -> &'a str {
        self.0
    }

    /// The text up to a suffix.
    pub fn main(self) -> &'a str {
        self.0.split(['-', '+']).next().unwrap_or_default()
    }

    /// Its numbers, up to the first part that is none.
    pub fn numbers(self) -> impl Iterator<Item = u64> + 'a {
        self.main().split('.').map_while(|part| part.parse().ok())
    }

    /// The first two numbers: 1 and 34 of `v1.34.4`.
    pub fn line(self) -> Option<[u64; 2]> {
        self.first()
    }

    /// The first three numbers, without a suffix: 3, 5 and 24 of `3.5.24-0`.
    pub fn release(self) -> Option<[u64; 3]> {
        self.first()
    }

    fn first<const N: usize>(self) -> Option<[u64; N]> {
        self.numbers().take(N).collect::<Vec<_>>().try_into().ok()
    }

    fn parts(self) -> impl Iterator<Item = u64> + 'a {
        self.main().split('.').map(|part| part.parse().unwrap_or(0))
    }

    /// `rc.1` of `v1.35.0-rc.1`; empty for a release.
    fn pre_release(self) -> &'a str {
        let end = self.0.find('+').unwrap_or(self.0.len());
        self.0[..end].split_once('-').map_or("", |(_, pre)| pre)
    }
}

impl Ord for Version<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, two) = (self.pre_release(), other.pre_release());
        self.parts()
            .cmp(other.parts())
            .then_with(|| one.is_empty().cmp(&two.is_empty()))
            .then_with(|| identifiers(one).cmp(identifiers(two)))
    }
}

impl PartialEq for Version<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version<'_> {}

impl PartialOrd for Version<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Numbers by value and before names (semver 2.0.0, 11.4).
fn identifiers(pre: &str) -> impl Iterator<Item = (bool, u64, &str)> {
    pre.split('.').map(|part| part.parse().map_or((true, 0, part), |number| (false, number, "")))
}

/// An exact version of Kubernetes (semver without build metadata, as its releases have it). Read with or without `v`; shown
/// with it, as its own tools do; in JSON without it. A pre-release comes before its release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KubernetesVersion {
    text: String,
    numbers: [u32; 3],
}

/// What is no exact version of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a version of Kubernetes, like v1.34.4")]
pub struct NotAVersion;

impl KubernetesVersion {
    /// `1.34.4`, as file names, catalogues and addresses have it.
    pub fn bare(&self) -> &str {
        &self.text
    }

    /// `1.34`, the line that kubeadm's constants, support and skew are of.
    pub fn line(&self) -> String {
        let [major, minor, _] = self.numbers;
        format!("{major}.{minor}")
    }

    /// The number of the minor, 34 of `v1.34.4`.
    pub const fn minor(&self) -> u32 {
        self.numbers[1]
    }

    /// The number of the patch, 4 of `v1.34.4`.
    pub const fn patch(&self) -> u32 {
        self.numbers[2]
    }
}

impl FromStr for KubernetesVersion {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        let (main, pre) = bare.split_once('-').map_or((bare, None), |(main, pre)| (main, Some(pre)));
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
        if bare.len() > 64 || pre.is_some_and(|pre| !pre.bytes().all(good) || pre.split('.').any(str::is_empty)) {
            return Err(NotAVersion);
        }
        let mut parts = main.split('.').map(number);
        let (Some(Some(major)), Some(Some(minor)), Some(Some(patch)), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NotAVersion);
        };
        Ok(Self { text: bare.to_owned(), numbers: [major, minor, patch] })
    }
}

/// Digits without a leading zero (semver 2.0.0, 2).
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.text)
    }
}

impl Serialize for KubernetesVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl Ord for KubernetesVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        Version::of(&self.text).cmp(&Version::of(&other.text)).then_with(|| self.text.cmp(&other.text))
    }
}

impl PartialOrd for KubernetesVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> KubernetesVersion {
        text.parse().unwrap()
    }

    #[test]
    fn it_is_read_with_and_without_v_and_shown_with_it() {
        for text in ["1.34.4", "v1.34.4"] {
            let read = version(text);
            assert_eq!((read.to_string().as_str(), read.bare(), read.line().as_str()), ("v1.34.4", "1.34.4", "1.34"));
            assert_eq!((read.minor(), read.patch()), (34, 4));
        }
        assert_eq!(serde_json::to_string(&version("v1.35.0-rc.1")).unwrap(), "\"1.35.0-rc.1\"");
    }

    #[test]
    fn releases_are_ordered_as_semver_orders_them() {
        let ordered = ["1.9.11", "1.10.0-alpha.2", "1.10.0-alpha.10", "1.10.0-rc.1", "1.10.0", "1.10.1", "2.0.0"];
        let mut sorted: Vec<_> = ordered.iter().rev().map(|text| version(text)).collect();
        sorted.sort();
        assert_eq!(sorted.iter().map(KubernetesVersion::bare).collect::<Vec<_>>(), ordered);
    }

    #[test]
    fn what_upstreams_write_has_its_numbers_and_what_has_none_is_not_refused() {
        let read = |text: &'static str| (Version::of(text).line(), Version::of(text).release());
        assert_eq!(read("v1.34.4"), (Some([1, 34]), Some([1, 34, 4])));
        assert_eq!(read("2.2"), (Some([2, 2]), None));
        assert_eq!(read("3.5.24-0"), (Some([3, 5]), Some([3, 5, 24])));
        assert_eq!(read("v1.34.4+k3s1"), read("1.34.4-rc.1+x"));
        assert_eq!(read("2"), (None, None));
        assert_eq!(read("unknown"), (None, None));
        assert_eq!(Version::of("v2.0.0-rc.1").bare(), "2.0.0-rc.1");
    }

    #[test]
    fn versions_are_ordered_by_their_numbers_and_candidates_before_releases() {
        let ordered = ["1.9.0", "1.10", "1.10.0-rc.2", "1.10.0-rc.10", "1.10.0", "1.10.1", "3.5.24-0", "3.5.24"];
        let mut sorted: Vec<_> = ordered.iter().rev().map(|text| Version::of(text)).collect();
        sorted.sort();
        assert_eq!(sorted.iter().map(|version| version.bare()).collect::<Vec<_>>(), ordered);
        assert_eq!(Version::of("v1.34.4"), Version::of("1.34.4+k3s1"));
        assert!(Version::of("RELEASE.2024-12-13") < Version::of("RELEASE.2025-01-20"));
    }

    #[test]
    fn what_is_no_exact_version_is_refused() {
        for bad in [
            "",
            "v",
            "1.34",
            "1.34.4.1",
            "1.034.4",
            "1.34.x",
            "1.34.4-",
            "1.34.4-rc..1",
            "1.34.4-../x",
            "newest",
            "1.34.4+k3s1",
            "1.34.4 ",
        ] {
            assert_eq!(bad.parse::<KubernetesVersion>(), Err(NotAVersion), "{bad:?}");
        }
    }
}
