//! `spec.system` and `spec.extra`: what is done to every machine.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::field::{FieldType, HostName, Line, Number, Package, Subdomain, Timezone, section};
use super::host::{Role, RoleGroups};
use super::material::MaterialFile;
use super::parse::roles::{HostNames, RoleWord};
use crate::credential;
use crate::keywords::keywords;
use crate::yaml::{At, Field, Object, ProblemKind, Shape};

section! {
    /// Preparation of every node
    ///
    /// `spec.system`.
    pub struct System {
        /// Time servers; a host of the cluster among them becomes the others' server
        ///
        /// By name or address: chrony follows these and no others.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("ntpServers" as Vec<HostName>)]
        pub ntp_servers: Vec<String>,
        /// Time zone, like Asia/Shanghai; left as it is when left out
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("timezone" as Option<Timezone>)]
        pub timezone: Option<String>,
        /// Whether firewalld and ufw are kept or stopped
        #[yaml("firewall")]
        pub firewall: Firewall,
        /// Whether SELinux is kept, made permissive, or kept with containers confined by it
        #[yaml("selinux")]
        pub selinux: Selinux,
        /// Further RPM packages for every node; services that they bring are not started
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("rpms" as Vec<Package>)]
        pub rpms: Vec<String>,
        /// Further Debian packages for every node; services that they bring are not started
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("debs" as Vec<Package>)]
        pub debs: Vec<String>,
        /// Run on every node, or those selected, before anything else is done to it
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("preInstall")]
        pub pre_install: Vec<Script>,
        /// Run on every node, or those selected, after everything else
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("postInstall")]
        pub post_install: Vec<Script>,
        /// Do not change name, swap, modules and kernel parameters; preflight demands what Kubernetes needs of them
        #[serde(rename = "skipConfigureOS", skip_serializing_if = "std::ops::Not::not")]
        #[yaml("skipConfigureOS")]
        pub skip_configure_os: bool,
        /// Install packages that are missing on a node, none, or the whole set
        #[serde(skip_serializing_if = "is_default")]
        #[yaml("osPackages")]
        pub os_packages: OsPackages,
    }
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
        /// Left as it is, and containers get labels of their own; hosts need the policy of container-selinux.
        Confine = "confine",
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

section! {
    /// Something of your own to run on nodes
    ///
    /// One of `preInstall` and `postInstall`.
    pub struct Script {
        /// What it does, in a few words
        #[yaml("name" as Line, required)]
        pub name: String,
        /// What bash runs, in the folder that has the materials
        #[yaml("bash" as Bash, required)]
        pub bash: String,
        /// Texts that it needs, beside this file; they travel in the bundle
        #[yaml("materials")]
        pub materials: Vec<MaterialFile>,
        /// Seconds after which it is stopped and counts as failed
        ///
        /// The same for its undo.
        #[yaml("timeout" as Number<1, 86400>, default = Self::TIMEOUT)]
        pub timeout: u32,
        /// What bash runs to undo it, also when half done and more than once; without it there is no rollback
        ///
        /// In the same folder.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("undo" as Option<Bash>)]
        pub undo: Option<String>,
        /// Run it on the hosts of these roles; on every node when roles and hosts are left out
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("roles" as Vec<RoleWord>)]
        pub roles: Vec<Role>,
        /// Run it on these hosts; node[1:3] is short for node1, node2, node3
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("hosts" as HostNames)]
        pub hosts: Vec<String>,
    }
}

impl Script {
    /// Seconds that one may take where cluster.yaml does not say.
    pub const TIMEOUT: u32 = 600;

    /// Whether it runs on a host.
    pub fn runs_on(&self, groups: &RoleGroups, host: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|name| name == host);
        let all = self.roles.is_empty() && self.hosts.is_empty();
        all || is_in(&self.hosts) || self.roles.iter().any(|role| is_in(groups.of(*role)))
    }
}

/// What bash is given to run. It travels in the bundle and is in the plan.
struct Bash;

impl FieldType for Bash {
    type Value = String;

    const SHAPE: Shape = Shape::Text;

    fn read(at: &At<'_>) -> Option<String> {
        let text = at.parsed(|text| {
            let good = !text.trim().is_empty() && !text.contains('\0');
            if good { Ok(text.to_owned()) } else { Err("there is nothing to run here".to_owned()) }
        })?;
        if let Some(what) = credential::in_text(&text) {
            let found = format!("the script holds {what}, in a file that travels in the bundle");
            at.fail(
                ProblemKind::InlineSecret,
                found,
                "read it on the host, from a file that the script does not bring",
            );
            return None;
        }
        Some(text)
    }

    fn show(value: &String) -> Option<Value> {
        String::show(value)
    }
}

section! {
    /// Entries that are added to every node and removed on delete
    ///
    /// `spec.extra`.
    pub struct Extra {
        /// Lines for /etc/hosts
        #[yaml("hosts")]
        pub hosts: Vec<ExtraHost>,
        /// DNS servers put before the node's own
        #[yaml("resolves" as Vec<Resolve>)]
        pub resolves: Vec<IpAddr>,
    }
}

section! {
    /// A line for /etc/hosts
    pub struct ExtraHost {
        /// DNS name
        #[yaml("domain" as Subdomain, required)]
        pub domain: String,
        /// Its IP address
        #[yaml("address", required)]
        pub address: IpAddr,
    }
}

/// One of `spec.extra.resolves`: `{address}`.
struct Resolve;

impl Resolve {
    const OBJECT: Object = Object::new("A DNS server", &[Field::needed("address", Shape::Text, "Its IP address")]);
}

impl FieldType for Resolve {
    type Value = IpAddr;

    const SHAPE: Shape = Shape::Mapping(&Self::OBJECT);

    fn read(at: &At<'_>) -> Option<IpAddr> {
        at.mapping(&Self::OBJECT)?.need("address").and_then(|at| IpAddr::read(&at))
    }

    fn show(value: &IpAddr) -> Option<Value> {
        Some(json!({"address": value}))
    }
}
