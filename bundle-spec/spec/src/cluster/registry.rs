//! `spec.registry`: where images come from inside the gap.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use super::SecretSource;
use super::data_folder;
use super::field::{
    FieldType, Folder, LoginName, Named, Port, PrivateRegistry, Quantity, RegistryHost, Repository, Version,
    inline_in_raw, section,
};
use super::parse::take::none_of;
use crate::keywords::keywords;
use crate::names;
use crate::yaml::{At, Mapping, ProblemKind, Shape};

section! {
    /// Where images come from inside the gap
    ///
    /// `spec.registry`.
    #[check(belongs(kind, port, data_dir))]
    #[hides(foreign(kind))]
    pub struct Registry {
        /// kubexm-install itself, the distribution registry, Harbor, your own, or none (imported on every node)
        #[yaml("type")]
        pub kind: RegistryKind,
        /// Its TCP port: 5443 embedded, 5000 registry, 443 harbor
        #[yaml("port" as Port, default = RegistryKind::default().default_port())]
        pub port: u16,
        /// Where the depot and the distribution registry listen: on all addresses of their host, or on the node's only
        ///
        /// Harbor listens on all.
        #[serde(skip_serializing_if = "is_default")]
        #[yaml("listen")]
        pub listen: Listen,
        /// Folder of its data (registry, harbor)
        #[yaml("dataDir" as Folder, default = "/mnt/registry".to_owned())]
        pub data_dir: String,
        /// host[:port][/prefix] that nodes pull from; a default name when left out
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("privateRegistry" as Option<PrivateRegistry>)]
        pub private_registry: Option<String>,
        /// Whether hosts take the bundle's content from each other too, on port 5444 while a run lasts
        #[serde(rename = "fanOut", skip_serializing_if = "is_true")]
        #[yaml("fanOut", default = true)]
        pub fan_out: bool,
        /// How registries are logged in to, by host[:port]
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        #[yaml("auths" as Named<RegistryHost, RegistryAuth>)]
        pub auths: BTreeMap<String, RegistryAuth>,
        /// With type harbor
        #[serde(rename = "harborConfig", skip_serializing_if = "Option::is_none")]
        #[yaml("harborConfig")]
        pub harbor: Option<Harbor>,
        /// Whether the registry's certificate is not checked, or plain HTTP is used (external)
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        #[yaml("insecure")]
        pub insecure: bool,
        /// On this machine: the CA of the registry's certificate (external)
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("caFile")]
        pub ca_file: Option<PathBuf>,
        /// One folder for all images, instead of one for each upstream host
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("namespaceOverride" as Option<Repository>)]
        pub namespace_override: Option<String>,
    }
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

keywords! {
    /// `spec.registry.listen`.
    pub enum Listen {
        /// On every address of the host (IPv4).
        AllAddresses = "all-addresses",
        /// On the address that nodes use, so that a host in several networks serves only the cluster's.
        NodeAddress = "node-address",
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_true(fan_out: &bool) -> bool {
    *fan_out
}

fn is_default(listen: &Listen) -> bool {
    *listen == Listen::default()
}

section! {
    /// How one registry is logged in to
    #[refused("password" => "passwordFrom")]
    pub struct RegistryAuth {
        /// Who; without a colon
        #[yaml("username" as LoginName, required)]
        pub username: String,
        /// Where the password comes from
        #[yaml("passwordFrom", required)]
        pub password: RegistryPassword,
    }
}

/// Where the password of a registry is read from when it is needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RegistryPassword {
    /// `{dockerConfig: PATH}`: docker's `config.json` or podman's `auth.json` on the controller, with the helpers that it names.
    DockerConfig(PathBuf),
    /// Where any secret may be.
    #[serde(untagged)]
    Secret(SecretSource),
}

impl From<SecretSource> for RegistryPassword {
    fn from(source: SecretSource) -> Self {
        Self::Secret(source)
    }
}

section! {
    /// Harbor
    ///
    /// `spec.registry.harborConfig`.
    #[refused("adminPassword" => "adminPasswordFrom", "databasePassword" => "databasePasswordFrom")]
    pub struct Harbor {
        /// Exact version; the catalogue's default when left out
        ///
        /// Without `v`.
        #[yaml("version" as Option<Version>)]
        pub version: Option<String>,
        /// Password of admin; one is made when left out
        #[yaml("adminPasswordFrom")]
        pub admin_password: Option<SecretSource>,
        /// Password of its database; one is made when left out
        #[yaml("databasePasswordFrom")]
        pub database_password: Option<SecretSource>,
        /// Whether everybody may pull the bundle's images, without a login
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        #[yaml("public")]
        pub public: bool,
        /// Most bytes of each upstream host's project, like 200Gi; no limit when left out
        #[serde(rename = "projectQuota", skip_serializing_if = "Option::is_none")]
        #[yaml("projectQuota" as Option<Quantity>)]
        pub project_quota: Option<u64>,
        /// Fields of harbor.yml, merged over the defaults; no passwords
        #[yaml("config" as HarborConfig)]
        pub config: Map<String, Value>,
    }
}

/// Fields of harbor.yml.
struct HarborConfig;

impl FieldType for HarborConfig {
    type Value = Map<String, Value>;

    const SHAPE: Shape = Shape::Raw;

    fn read(at: &At<'_>) -> Option<Map<String, Value>> {
        inline_in_raw(at, "use adminPasswordFrom or databasePasswordFrom");
        Map::read(at)
    }

    fn show(value: &Map<String, Value>) -> Option<Value> {
        Map::show(value)
    }
}

/// Keys that mean nothing with a type.
const fn foreign(kind: RegistryKind) -> &'static [&'static str] {
    match kind {
        RegistryKind::Embedded => &["dataDir", "harborConfig", "insecure", "caFile"],
        RegistryKind::Registry => &["harborConfig", "insecure", "caFile"],
        RegistryKind::Harbor => &["insecure", "caFile"],
        RegistryKind::External => &["port", "dataDir", "harborConfig"],
        RegistryKind::None => {
            &["port", "dataDir", "privateRegistry", "harborConfig", "insecure", "caFile", "namespaceOverride"]
        }
    }
}

/// Each type has keys that mean nothing with another, and keys that it needs.
fn belongs(
    map: &Mapping<'_>,
    kind: Option<&RegistryKind>,
    port: Option<&u16>,
    data_dir: Option<&String>,
) -> Option<()> {
    let kind = *kind?;
    if kind == RegistryKind::Harbor
        && let (Some(at), Some(folder)) = (map.get("dataDir"), data_dir)
        && data_folder::is_of_others(folder, None)
    {
        at.bad(
            format!("{folder} is, or holds, a folder of the system or of kubexm"),
            "give Harbor's data a folder of their own, like /mnt/registry or /srv/registry, best a disk mounted there",
        );
    }
    if kind == RegistryKind::Registry
        && let (Some(at), Some(folder)) = (map.get("dataDir"), data_dir)
        && data_folder::is_named(folder)
    {
        at.bad(
            format!("{folder} is, or holds, a folder of the system or of kubexm"),
            "give the registry's data a folder of their own, like /mnt/registry",
        );
    }
    if kind.has_data()
        && port == Some(&names::DEPOT_PORT)
        && let Some(at) = map.get("port")
    {
        at.bad(
            format!("port {} is the depot's, which is beside this registry", names::DEPOT_PORT),
            format!("choose another one; it is {} when left out", kind.default_port()),
        );
    }
    none_of(map, foreign(kind), "the registry of this type has none", "leave it out");
    if kind == RegistryKind::External && map.get("privateRegistry").is_none() {
        map.at().fail(
            ProblemKind::Missing,
            "\"privateRegistry\" is missing: the address of your registry is unknown",
            "privateRegistry: registry.example.com:5000",
        );
    }
    if let (Some(at), Some(_)) = (map.get("insecure"), map.get("caFile"))
        && at.text_quiet() == Some("true")
    {
        at.bad("a certificate that is not checked needs no CA", "leave one of the two out");
    }
    Some(())
}

impl RegistryKind {
    /// Its TCP port unless cluster.yaml says another; where it has none, the depot's.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Registry => 5000,
            Self::Harbor => 443,
            Self::Embedded | Self::External | Self::None => names::DEPOT_PORT,
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
        Self { kind, port: kind.default_port(), ..Self::default() }
    }

    /// TCP port of the depot, which serves blobs and files beside every registry that is not itself the embedded one.
    pub const fn depot_port(&self) -> u16 {
        match self.kind {
            RegistryKind::Registry | RegistryKind::Harbor | RegistryKind::External => names::DEPOT_PORT,
            RegistryKind::Embedded | RegistryKind::None => self.port,
        }
    }
}
