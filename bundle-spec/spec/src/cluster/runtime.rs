//! `spec.runtime`.

use serde_json::{Map, Value};

use super::data_folder;
use super::field::{Folder, Version, section};
use crate::keywords::keywords;
use crate::yaml::Mapping;

section! {
    /// What runs containers
    ///
    /// `spec.runtime`.
    #[check(belongs(kind, data_dir))]
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

impl Runtime {
    /// Where it has its images and containers.
    pub fn data_folder(&self) -> &str {
        self.data_dir.as_deref().unwrap_or(self.kind.data_dir())
    }

    /// That folder, where it is another one than the runtime's usual.
    pub fn own_folder(&self) -> Option<&str> {
        self.data_dir.as_deref().filter(|folder| *folder != self.kind.data_dir())
    }
}

fn belongs(map: &Mapping<'_>, kind: Option<&RuntimeKind>, data_dir: Option<&Option<String>>) -> Option<()> {
    let usual = kind.map(|kind| kind.data_dir());
    if let (Some(at), Some(folder)) = (map.get("dataDir"), data_dir.and_then(Option::as_deref))
        && data_folder::is_of_others(folder, usual)
    {
        at.bad(
            format!("{folder} is, or holds, a folder of the system or of kubexm"),
            "give images and containers a folder of their own, like /data/containerd, best a disk mounted there",
        );
    }
    Some(())
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

    /// Whether it comes as packages of the hosts' system, in the version that these have.
    pub const fn is_packaged(self) -> bool {
        matches!(self, Self::Isulad)
    }
}
