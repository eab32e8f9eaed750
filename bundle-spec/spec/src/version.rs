//! A release of Kubernetes.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

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

    /// `rc.1` of `v1.35.0-rc.1`; empty for a release.
    fn pre_release(&self) -> &str {
        self.text.split_once('-').map_or("", |(_, pre)| pre)
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
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let (one, two) = (self.pre_release(), other.pre_release());
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| one.is_empty().cmp(&two.is_empty()))
            .then_with(|| identifiers(one).cmp(identifiers(two)))
            .then_with(|| self.text.cmp(&other.text))
    }
}

impl PartialOrd for KubernetesVersion {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Numbers by value and before names (semver 2.0.0, 11.4).
fn identifiers(pre: &str) -> impl Iterator<Item = (bool, u64, &str)> {
    pre.split('.').map(|part| part.parse().map_or((true, 0, part), |number| (false, number, "")))
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
