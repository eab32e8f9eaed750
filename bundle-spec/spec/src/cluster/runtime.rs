//! `spec.runtime`.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::keywords::keywords;

/// `spec.runtime`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    /// What runs containers.
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub kind: RuntimeKind,
    /// Without `v`; the catalogue's default when none.
    pub version: Option<String>,
    /// Folder of images and containers; the runtime's own when none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<String>,
    /// Fields of the runtime's own configuration, merged over the defaults.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra_config: Map<String, Value>,
}

fn is_default(kind: &RuntimeKind) -> bool {
    *kind == RuntimeKind::default()
}

keywords! {
    /// `spec.runtime.type`.
    pub enum RuntimeKind {
        /// containerd, spoken to by CRI.
        Containerd = "containerd",
        /// dockerd with cri-dockerd.
        Docker = "docker",
        /// CRI-O.
        CriO = "cri-o",
        /// iSulad, from the packages of openEuler.
        Isulad = "isulad",
    }
}

impl RuntimeKind {
    /// Where the runtime has its images and containers unless it is reported.
    pub const fn data_dir(self) -> &'static str {
        match self {
            Self::Containerd => "/var/lib/containerd",
            Self::Docker => "/var/lib/docker",
            Self::CriO => "/var/lib/containers",
            Self::Isulad => "/var/lib/isulad",
        }
    }
}
