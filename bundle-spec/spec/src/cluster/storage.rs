//! `spec.storage`: what makes volumes.

use super::field::{Folder, HostName, Line, NfsExport, section};
use crate::yaml::Mapping;

section! {
    /// What makes volumes
    ///
    /// `spec.storage`: each only where it is named.
    #[check(one_default_class(open_ebs, nfs))]
    pub struct Storage {
        /// OpenEBS local PV, volumes in a folder of the node; {} for its defaults
        #[serde(rename = "openebs")]
        #[yaml("openebs")]
        pub open_ebs: Option<OpenEbs>,
        /// Volumes as folders of an NFS export
        #[yaml("nfs")]
        pub nfs: Option<Nfs>,
    }
}

impl Storage {
    /// Whether nothing makes volumes.
    pub const fn is_none(&self) -> bool {
        self.open_ebs.is_none() && self.nfs.is_none()
    }
}

section! {
    /// OpenEBS local PV
    ///
    /// `spec.storage.openebs`.
    pub struct OpenEbs {
        /// Folder on every node
        #[yaml("basePath" as Folder, default = "/var/openebs/local".to_owned())]
        pub base_path: String,
        /// Whether claims that name no class are given one of its volumes
        #[yaml("defaultClass", default = true)]
        pub default_class: bool,
    }
}

section! {
    /// An NFS export
    ///
    /// `spec.storage.nfs`.
    pub struct Nfs {
        /// IP address or DNS name
        #[yaml("server" as HostName, required)]
        pub server: String,
        /// The export
        #[yaml("path" as NfsExport, required)]
        pub path: String,
        /// Options of mount(8)
        #[yaml("mountOptions" as Vec<Line>)]
        pub mount_options: Vec<String>,
        /// Whether claims that name no class are given one of its volumes
        #[yaml("defaultClass")]
        pub default_class: bool,
    }
}

fn one_default_class(map: &Mapping<'_>, open_ebs: Option<&Option<OpenEbs>>, nfs: Option<&Option<Nfs>>) -> Option<()> {
    let (open_ebs, nfs) = (open_ebs?.as_ref(), nfs?.as_ref());
    if open_ebs.is_some_and(|it| it.default_class) && nfs.is_some_and(|it| it.default_class) {
        map.at().bad("two default classes", "openebs is the default unless it has defaultClass: false");
    }
    Some(())
}
