//! All profiles, the roots and the vendors' public keys, as they were compiled in.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use kubexm_spec::yaml::nearest;
use serde::Deserialize;

use super::profile::Profile;
use super::roots::Root;
use crate::error::CatalogueError;

/// What build.rs has made of `data/os/`.
const DATA: &str = include_str!(concat!(env!("OUT_DIR"), "/os.json"));

/// Every profile that this program knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiles {
    /// By name.
    pub all: BTreeMap<String, Profile>,
    /// What nodes need, in the order in which it is asked for.
    pub roots: Vec<Root>,
    /// Vendors' public keys.
    pub keys: Vec<VendorKey>,
}

/// A public key that a vendor signs with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VendorKey {
    /// Of the primary key: 40 or 64 upper-case hex digits.
    pub fingerprint: String,
    /// Whose it is: its user id.
    pub owner: String,
    /// Its source: a package of a distribution.
    pub source: String,
    /// File below `data/os/keys/`.
    pub file: String,
    /// The certificate, ASCII-armored.
    pub armored: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    profiles: Vec<Profile>,
    roots: Vec<Root>,
    keys: Vec<VendorKey>,
}

/// A name that no profile has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no operating system {name:?}; nearest known: {}", .near.join(", "))]
pub struct UnknownOs {
    /// What was asked for.
    pub name: String,
    /// Names that look alike, the nearest first.
    pub near: Vec<String>,
}

impl UnknownOs {
    /// The exit code of a program that ends with it.
    pub const fn exit_code(&self) -> kubexm_spec::ExitCode {
        kubexm_spec::ExitCode::UnknownVersion
    }
}

impl Profiles {
    /// The profiles this program was built with.
    #[expect(
        clippy::expect_used,
        reason = "the data is compiled in, and a test reads it: no input of a run reaches this"
    )]
    pub fn embedded() -> &'static Self {
        static READ: OnceLock<Profiles> = OnceLock::new();
        READ.get_or_init(|| Self::read().expect("the embedded profiles are well-formed"))
    }

    /// Reads what is compiled in; a test asks.
    pub fn read() -> Result<Self, CatalogueError> {
        let data: Data = serde_json::from_str(DATA)
            .map_err(|error| CatalogueError::Embedded { file: "os.json".to_owned(), text: error.to_string() })?;
        Ok(Self {
            all: data.profiles.into_iter().map(|profile| (profile.name.clone(), profile)).collect(),
            roots: data.roots,
            keys: data.keys,
        })
    }

    /// A profile by its name, or by the codename of its release.
    pub fn get(&self, name: &str) -> Result<&Profile, UnknownOs> {
        let of_codename = || self.all.get(kubexm_spec::names::os_of_codename(name)?);
        self.all.get(name).or_else(of_codename).ok_or_else(|| UnknownOs {
            name: name.to_owned(),
            near: nearest(name, self.all.keys().map(String::as_str)).into_iter().take(3).map(str::to_owned).collect(),
        })
    }

    /// The profile of a host; see [`Profile::matches`].
    pub fn of_host(&self, id: &str, version_id: &str, version: &str) -> Option<&Profile> {
        self.all.values().find(|profile| profile.matches(id, version_id, version))
    }

    /// Certificates of some fingerprints, each file once, ASCII-armored.
    pub fn certificates<'a>(&'a self, fingerprints: &[String]) -> Vec<&'a VendorKey> {
        self.keys.iter().filter(|key| fingerprints.contains(&key.fingerprint)).collect()
    }
}
