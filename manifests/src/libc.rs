//! What a program needs of a node's C library.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::version;

/// How a program is linked: `static`, or the oldest glibc that it runs with, `2.34`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Libc {
    /// It needs nothing of the node.
    Static,
    /// Major and minor of the oldest glibc.
    Glibc(String),
}

impl Libc {
    /// Whether a node with this glibc runs it.
    pub fn runs_with(&self, glibc: &str) -> bool {
        match self {
            Self::Static => true,
            Self::Glibc(oldest) => version::compare(glibc, oldest).is_ge(),
        }
    }

    /// Reads `static` or a version of glibc.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = |part: &str| !part.is_empty() && part.len() <= 4 && part.bytes().all(|b| b.is_ascii_digit());
        match text.split_once('.') {
            _ if text == "static" => Ok(Self::Static),
            Some((major, minor)) if number(major) && number(minor) => Ok(Self::Glibc(text.to_owned())),
            _ => Err(format!("{text:?} is neither `static` nor a version of glibc, such as 2.34")),
        }
    }
}

impl fmt::Display for Libc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "static",
            Self::Glibc(oldest) => oldest,
        })
    }
}

impl Serialize for Libc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Libc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_glibc_runs_what_was_linked_against_an_older_one() {
        let needs = Libc::parse("2.34").unwrap();
        assert!(
            needs.runs_with("2.34") && needs.runs_with("2.41") && !needs.runs_with("2.31") && !needs.runs_with("2.4")
        );
        assert!(Libc::Static.runs_with("2.17"));
        for bad in ["", "2", "glibc", "2.x", "2.34.1"] {
            assert!(Libc::parse(bad).is_err(), "{bad}");
        }
    }
}
