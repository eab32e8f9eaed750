//! `spec.runtime`.

use serde_json::{Map, Value};

use super::field::{Folder, Version, section};
use crate::keywords::keywords;

section! {
    /// What runs containers
    ///
    /// `spec.runtime`.
    pub struct Runtime {
        /// Which one; docker comes with cri-dockerd
        #[serde(rename = "type", skip_serializing_if = "is_default")]
        #[yaml("type")]
        pub kind: RuntimeKind,
        /// Exact version; the newest that suits the Kubernetes version when left out
        ///
        /// Without `v`.
        #[yaml("version" as Option<Version>)]
        pub version: Option<String>,
        /// Folder of images and containers; the runtime's own when left out
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("dataDir" as Option<Folder>)]
        pub data_dir: Option<String>,
        /// Fields of the runtime's own configuration, merged over the defaults
        #[serde(skip_serializing_if = "Map::is_empty")]
        #[yaml("extraConfig")]
        pub extra_config: Map<String, Value>,
    }
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
