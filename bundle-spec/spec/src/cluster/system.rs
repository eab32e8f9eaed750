//! `spec.system` and `spec.extra`: what is done to every machine.

use std::net::IpAddr;

use serde::Serialize;

use super::material::MaterialFile;
use crate::keywords::keywords;

/// `spec.system`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct System {
    /// What becomes of firewalld and ufw.
    pub firewall: Firewall,
    /// What becomes of SELinux.
    pub selinux: Selinux,
    /// Time servers, by name or address: chrony follows these and no others. The name or an address of a host of the cluster makes that
    /// one the others' server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ntp_servers: Vec<String>,
    /// Name of the IANA time zone database (`Asia/Shanghai`); left as it is when none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Names of RPM packages that every node gets, beyond what the cluster needs. Units that they bring are neither started nor
    /// enabled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rpms: Vec<String>,
    /// Names of Debian packages that every node gets, beyond what the cluster needs. Units that they bring are neither started nor
    /// enabled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub debs: Vec<String>,
    /// Run on every node before anything else is done to it, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_install: Vec<Script>,
    /// Run on every node after everything else, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_install: Vec<Script>,
    /// Name, swap, modules and kernel parameters are left as the operator made them.
    #[serde(rename = "skipConfigureOS", skip_serializing_if = "std::ops::Not::not")]
    pub skip_configure_os: bool,
    /// What of the packages that the cluster needs is installed.
    #[serde(skip_serializing_if = "is_default")]
    pub os_packages: OsPackages,
}

fn is_default(packages: &OsPackages) -> bool {
    *packages == OsPackages::default()
}

keywords! {
    /// `spec.system.firewall`.
    pub enum Firewall {
        /// Left as it is.
        Keep = "keep",
        /// firewalld and ufw stopped and disabled (restored on reset).
        Off = "off",
    }
}

keywords! {
    /// `spec.system.selinux`.
    pub enum Selinux {
        /// Left as it is.
        Keep = "keep",
        /// Permissive now and at boot; never `disabled` (going back would need a relabel).
        Permissive = "permissive",
    }
}

keywords! {
    /// `spec.system.osPackages`.
    pub enum OsPackages {
        /// What a node lacks: what has the programs that are wanted is left as it is.
        Auto = "auto",
        /// None: preflight looks for the programs all the same.
        None = "none",
        /// The whole set, whatever a node has.
        Full = "full",
    }
}

/// One of `preInstall` and `postInstall`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Script {
    /// What it does, in a few words.
    pub name: String,
    /// What bash runs, in the folder that has the materials.
    pub bash: String,
    /// Texts that it needs; they travel in the bundle.
    pub materials: Vec<MaterialFile>,
    /// Seconds after which it is stopped, and counts as failed; the same for its undo.
    pub timeout: u32,
    /// What bash is given to undo it, whole or half done, in the same folder: it may be run more than once. None: it cannot be rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
}

impl Script {
    /// Seconds that one may take where cluster.yaml does not say.
    pub const TIMEOUT: u32 = 600;
}

/// `spec.extra`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Extra {
    /// Lines for /etc/hosts.
    pub hosts: Vec<ExtraHost>,
    /// DNS servers put on top of the node's own.
    pub resolves: Vec<IpAddr>,
}

/// One entry of `spec.extra.hosts`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtraHost {
    /// DNS name.
    pub domain: String,
    /// Its address.
    pub address: IpAddr,
}
