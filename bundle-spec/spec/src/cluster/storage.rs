//! `spec.storage`: what makes volumes.

use super::data_folder;
use super::field::{Folder, HostName, MountOption, NfsExport, section};
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

    /// What makes volumes, in the order in which it is installed.
    pub fn provisioners(&self) -> impl Iterator<Item = Provisioner> {
        let open_ebs = self.open_ebs.as_ref().map(|_| Provisioner::OpenEbs);
        open_ebs.into_iter().chain(self.nfs.as_ref().map(|_| Provisioner::Nfs))
    }

    /// Which one serves claims that name no class.
    pub fn default_class(&self) -> Option<Provisioner> {
        let open_ebs = self.open_ebs.as_ref().filter(|it| it.default_class).map(|_| Provisioner::OpenEbs);
        open_ebs.or_else(|| self.nfs.as_ref().filter(|it| it.default_class).map(|_| Provisioner::Nfs))
    }
}

/// A program in the cluster that makes volumes: a chart of the catalogue, which is a release of helm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provisioner {
    /// `spec.storage.openebs`.
    OpenEbs,
    /// `spec.storage.nfs`.
    Nfs,
}

impl Provisioner {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::OpenEbs, Self::Nfs];

    /// Its key below `spec.storage`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::OpenEbs => "openebs",
            Self::Nfs => "nfs",
        }
    }

    /// Its name in the catalogue, of its release and of the release's namespace.
    pub const fn release(self) -> &'static str {
        match self {
            Self::OpenEbs => "openebs",
            Self::Nfs => "nfs-provisioner",
        }
    }

    /// Its storage class: upstream's own name, which claims and documents know.
    pub const fn class(self) -> &'static str {
        match self {
            Self::OpenEbs => "openebs-hostpath",
            Self::Nfs => "nfs-client",
        }
    }
}

section! {
    /// OpenEBS local PV
    ///
    /// `spec.storage.openebs`.
    #[check(folder_of_its_own(base_path))]
    pub struct OpenEbs {
        /// Folder on every node
        #[yaml("basePath" as Folder, default = OpenEbs::BASE_PATH.to_owned())]
        pub base_path: String,
        /// Whether claims that name no class are given one of its volumes
        #[yaml("defaultClass", default = true)]
        pub default_class: bool,
    }
}

impl OpenEbs {
    /// Where it keeps volumes on a node, unless cluster.yaml names another folder.
    pub const BASE_PATH: &str = "/var/openebs/local";
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
        #[yaml("mountOptions" as Vec<MountOption>)]
        pub mount_options: Vec<String>,
        /// Whether claims that name no class are given one of its volumes
        #[yaml("defaultClass")]
        pub default_class: bool,
    }
}

fn folder_of_its_own(map: &Mapping<'_>, base_path: Option<&String>) -> Option<()> {
    if let (Some(at), Some(folder)) = (map.get("basePath"), base_path)
        && data_folder::is_of_others(folder, Some(OpenEbs::BASE_PATH))
    {
        at.bad(
            format!("{folder} is, or holds, a folder of the system or of kubexm"),
            "give volumes a folder of their own, like /data/volumes, best a disk mounted there",
        );
    }
    Some(())
}

fn one_default_class(map: &Mapping<'_>, open_ebs: Option<&Option<OpenEbs>>, nfs: Option<&Option<Nfs>>) -> Option<()> {
    let (open_ebs, nfs) = (open_ebs?.as_ref(), nfs?.as_ref());
    if open_ebs.is_some_and(|it| it.default_class) && nfs.is_some_and(|it| it.default_class) {
        map.at().bad("two default classes", "openebs is the default unless it has defaultClass: false");
    }
    Some(())
}
