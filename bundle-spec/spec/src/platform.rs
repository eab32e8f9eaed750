//! Operating system and architecture of an artifact, in OCI's words.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A machine architecture, named as Go and OCI name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// x86-64.
    Amd64,
    /// AArch64.
    Arm64,
}

impl Arch {
    /// `amd64` or `arm64`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The kernel's word for it (`uname -m`).
    pub const fn uname(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// Reads either spelling.
    pub fn from_any(text: &str) -> Option<Self> {
        match text {
            "amd64" | "x86_64" => Some(Self::Amd64),
            "arm64" | "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A platform as OCI writes it: `linux/amd64`. Only Linux is ever a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Platform {
    /// The machine architecture.
    pub arch: Arch,
}

impl Platform {
    /// `linux/amd64`.
    pub const LINUX_AMD64: Self = Self { arch: Arch::Amd64 };
    /// `linux/arm64`.
    pub const LINUX_ARM64: Self = Self { arch: Arch::Arm64 };
    /// Every platform a bundle may be built for.
    pub const ALL: [Self; 2] = [Self::LINUX_AMD64, Self::LINUX_ARM64];

    /// Always `linux`.
    pub const fn os(self) -> &'static str {
        "linux"
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.arch)
    }
}

/// A platform that no bundle can be built for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a platform: known are linux/amd64 and linux/arm64")]
pub struct ParsePlatformError(pub String);

impl FromStr for Platform {
    type Err = ParsePlatformError;

    fn from_str(text: &str) -> Result<Self, ParsePlatformError> {
        match text {
            "linux/amd64" => Ok(Self::LINUX_AMD64),
            "linux/arm64" => Ok(Self::LINUX_ARM64),
            _ => Err(ParsePlatformError(text.to_owned())),
        }
    }
}

impl Serialize for Platform {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Platform {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
