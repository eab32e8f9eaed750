//! `spec.registry`: where images come from inside the gap.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use super::SecretSource;
use crate::keywords::keywords;

/// `spec.registry`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Registry {
    /// What serves images.
    pub kind: RegistryKind,
    /// Its TCP port: 5443 embedded, 5000 with `registry`, 443 with `harbor`.
    pub port: u16,
    /// Where `registry` and `harbor` have their data; `/mnt/registry`.
    pub data_dir: String,
    /// `host[:port][/prefix]` that nodes pull from; a default name when none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_registry: Option<String>,
    /// How registries are logged in to, by `host[:port]`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub auths: BTreeMap<String, RegistryAuth>,
    /// With `harbor` and no other.
    #[serde(rename = "harborConfig", skip_serializing_if = "Option::is_none")]
    pub harbor: Option<Harbor>,
    /// Whether the registry's certificate is not checked, or plain HTTP is used.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// On the controller: the CA of the registry's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// One folder that all images are put into, instead of one by upstream host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_override: Option<String>,
}

keywords! {
    /// `spec.registry.type`.
    pub enum RegistryKind {
        /// kubexm-install itself, read-only, from the node's content store.
        Embedded = "embedded",
        /// The distribution registry as a unit, its file-system layout written by us.
        Registry = "registry",
        /// Harbor, with docker and compose, on the registry host.
        Harbor = "harbor",
        /// The user's own; images are pushed to it.
        External = "external",
        /// No registry: images are imported into every node's runtime.
        None = "none",
    }
}

/// How one registry is logged in to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryAuth {
    /// Who.
    pub username: String,
    /// With what.
    pub password: SecretSource,
}

/// `spec.registry.harborConfig`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Harbor {
    /// Without `v`; the catalogue's default when none.
    pub version: Option<String>,
    /// Password of `admin`; one is made where none is given.
    pub admin_password: Option<SecretSource>,
    /// Password of Harbor's database; one is made where none is given.
    pub database_password: Option<SecretSource>,
    /// Fields of harbor.yml, merged over the defaults.
    pub config: Map<String, Value>,
}

impl RegistryKind {
    /// Its TCP port unless cluster.yaml says another; where it has none, the depot's.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Registry => 5000,
            Self::Harbor => 443,
            Self::Embedded | Self::External | Self::None => crate::names::DEPOT_PORT,
        }
    }

    /// Whether we set up something on the registry host that keeps images.
    pub const fn has_data(self) -> bool {
        matches!(self, Self::Registry | Self::Harbor)
    }
}

impl Registry {
    /// The defaults of a type.
    pub fn of(kind: RegistryKind) -> Self {
        Self {
            kind,
            port: kind.default_port(),
            data_dir: "/mnt/registry".to_owned(),
            private_registry: None,
            auths: BTreeMap::new(),
            harbor: None,
            insecure: false,
            ca_file: None,
            namespace_override: None,
        }
    }

    /// TCP port of the depot, which serves blobs and files beside every registry that is not itself the embedded one.
    pub const fn depot_port(&self) -> u16 {
        match self.kind {
            RegistryKind::Registry | RegistryKind::Harbor | RegistryKind::External => crate::names::DEPOT_PORT,
            RegistryKind::Embedded | RegistryKind::None => self.port,
        }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::of(RegistryKind::default())
    }
}
