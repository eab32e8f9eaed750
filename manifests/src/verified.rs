//! What a row of the catalogue was compared with.

use std::fmt;

use serde::{Deserialize, Serialize};

/// By what a row was checked, and when: written by `scripts/catalogue compare` into `data/verified.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verified {
    /// Repository and file of upstream's, or what else was asked.
    pub by: String,
    /// The tag or commit that it was read at; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// The day, `2026-11-23`; empty where it is not recorded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub date: String,
}

impl Verified {
    /// Whether it is somebody else's copy of upstream's word that was read, and not upstream's.
    pub fn is_second_hand(&self) -> bool {
        self.by.ends_with("(second-hand)")
    }
}

/// Whether a fact was compared with upstream: with what, or why it was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Compared {
    /// It is upstream's.
    Verified(Verified),
    /// It was not compared, or differs; the reason.
    Unverified(String),
}

impl Compared {
    /// With what it was compared.
    pub const fn verified(&self) -> Option<&Verified> {
        match self {
            Self::Verified(verified) => Some(verified),
            Self::Unverified(_) => None,
        }
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.by)?;
        if !self.tag.is_empty() {
            write!(f, " at {}", self.tag)?;
        }
        if !self.date.is_empty() {
            write!(f, " on {}", self.date)?;
        }
        Ok(())
    }
}
