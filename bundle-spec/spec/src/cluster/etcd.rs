//! `spec.etcd`.

use serde_json::Value;

use super::field::{AgeRecipient, Calendar, EtcdEndpoint, EtcdPrefix, FieldType, Folder, Number, Quantity, section};
use super::parse::take::none_of;
use super::{MaterialFile, SecretSource, data_folder};
use crate::keywords::keywords;
use crate::yaml::{At, Mapping, ProblemKind, Shape};

section! {
    /// What the API server keeps its objects in
    ///
    /// `spec.etcd`.
    #[check(belongs(kind, data_dir, backup))]
    #[hides(foreign(kind))]
    pub struct Etcd {
        /// Static pods of kubeadm, binaries under systemd, or one of your own
        #[serde(rename = "type")]
        #[yaml("type")]
        pub kind: EtcdKind,
        /// How an etcd of your own is reached (type external)
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("externalConfig")]
        pub external: Option<ExternalEtcd>,
        /// Folder of its data on the members
        #[yaml("dataDir" as Folder, default = Self::DATA_DIR.to_owned())]
        pub data_dir: String,
        /// Most bytes of the database, like 8Gi; etcd's own default (2Gi) when left out
        ///
        /// `--quota-backend-bytes`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("quota" as Option<Quantity>)]
        pub quota: Option<u64>,
        /// etcd's own snapshots, from which it starts
        #[yaml("snapshots")]
        pub snapshots: Snapshots,
        /// Backups on the members; {} for its defaults, none when left out
        #[serde(skip_serializing_if = "Option::is_none")]
        #[yaml("backup")]
        pub backup: Option<Backup>,
    }
}

keywords! {
    /// `spec.etcd.type`.
    pub enum EtcdKind {
        /// A static pod on every control plane.
        Kubeadm = "kubeadm",
        /// A binary under systemd on the hosts of the role etcd.
        Kubexm = "kubexm",
        /// The user's own.
        External = "external",
    }
}

section! {
    /// An etcd of your own
    ///
    /// `spec.etcd.externalConfig`.
    #[check(certificate(endpoints))]
    pub struct ExternalEtcd {
        /// Client addresses of its members, like https://10.0.0.5:2379
        #[yaml("endpoints" as Endpoints, required)]
        pub endpoints: Vec<String>,
        /// The CA of the members' certificates, a path beside this file
        ///
        /// With `https` only, as the two others.
        #[yaml("caFile")]
        pub ca_file: Option<MaterialFile>,
        /// The API server's client certificate, a path beside this file
        #[yaml("certFile")]
        pub cert_file: Option<MaterialFile>,
        /// Where its key is read from; it never travels in the bundle
        #[serde(rename = "keyFrom", skip_serializing_if = "Option::is_none")]
        #[yaml("keyFrom")]
        pub key: Option<SecretSource>,
        /// What the API server's keys begin with, for an etcd that others use too
        ///
        /// `--etcd-prefix`.
        #[yaml("prefix" as EtcdPrefix, default = "/registry".to_owned())]
        pub prefix: String,
    }
}

section! {
    /// etcd's own snapshots
    ///
    /// `spec.etcd.snapshots`: a slow member catches up by them too.
    pub struct Snapshots {
        /// Changes after which one is made (--snapshot-count); etcd's own default when left out
        #[yaml("count" as Option<Number<1, 10_000_000>>)]
        pub count: Option<u32>,
        /// How many are kept (--max-snapshots); etcd's own default when left out
        #[yaml("keep" as Option<Number<1, 1000>>)]
        pub keep: Option<u32>,
    }
}

section! {
    /// Backups on the members
    ///
    /// `spec.etcd.backup`: each member saves and verifies a snapshot of etcd.
    #[check(apart(dir))]
    pub struct Backup {
        /// When: a calendar expression of systemd (systemd.time(7))
        #[yaml("schedule" as Calendar, default = "daily".to_owned())]
        pub schedule: String,
        /// Folder on the members
        #[yaml("dir" as Folder, default = Self::DIR.to_owned())]
        pub dir: String,
        /// How many are kept
        #[yaml("keep" as Number<1, 10_000>, default = 6)]
        pub keep: u32,
        /// Public keys of age (age1…) for which each is encrypted; not encrypted when left out
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[yaml("recipients" as Vec<AgeRecipient>)]
        pub recipients: Vec<String>,
    }
}

impl Backup {
    /// The usual folder.
    const DIR: &str = "/var/backups/etcd";
}

/// A folder of kubexm or of etcd would go with the cluster, and the backups in it.
fn apart(map: &Mapping<'_>, dir: Option<&String>) -> Option<()> {
    if let (Some(at), Some(folder)) = (map.get("dir"), dir)
        && data_folder::is_of_others(folder, Some(Backup::DIR))
    {
        at.bad(
            format!("{folder} is, or holds, a folder of the system or of kubexm"),
            "give the backups a folder of their own, like /var/backups/etcd or /mnt/backup/etcd, best of another disk",
        );
    }
    Some(())
}

/// Keys that mean nothing with a type.
const fn foreign(kind: EtcdKind) -> &'static [&'static str] {
    match kind {
        EtcdKind::External => &["dataDir", "quota", "snapshots", "backup"],
        EtcdKind::Kubeadm | EtcdKind::Kubexm => &["externalConfig"],
    }
}

impl Etcd {
    /// The usual folder of its data.
    pub const DATA_DIR: &str = "/var/lib/etcd";

    /// Whether its data is in another folder than the usual one.
    pub fn has_own_folder(&self) -> bool {
        self.data_dir != Self::DATA_DIR
    }
}

fn belongs(
    map: &Mapping<'_>,
    kind: Option<&EtcdKind>,
    data_dir: Option<&String>,
    backup: Option<&Option<Backup>>,
) -> Option<()> {
    let kind = *kind?;
    if let (Some(at), Some(Some(backup)), Some(data)) = (map.get("backup"), backup, data_dir)
        && (data_folder::holds(data, &backup.dir) || data_folder::holds(&backup.dir, data))
    {
        at.bad(
            format!(
                "the backups would be in {}, and etcd's data is in {data}: they would be lost together",
                backup.dir
            ),
            "give the backups a folder outside of etcd's data, best of another disk",
        );
    }
    if let (Some(at), Some(folder)) = (map.get("dataDir"), data_dir)
        && data_folder::is_of_others(folder, Some(Etcd::DATA_DIR))
    {
        at.bad(
            format!("{folder} is, or holds, a folder of the system or of kubexm"),
            "give etcd's data a folder of their own, like /data/etcd, best a disk mounted there",
        );
    }
    if kind != EtcdKind::External {
        none_of(map, foreign(kind), "this is about an etcd of your own", "write type: external, or leave it out");
        return Some(());
    }
    if map.get("externalConfig").is_none() {
        let hint = "externalConfig: {endpoints: [\"https://10.0.0.5:2379\"], caFile, certFile, keyFrom}";
        map.at().fail(ProblemKind::Missing, "\"externalConfig\" is missing: the address of etcd is unknown", hint);
    }
    let why = "an etcd of your own is not set up by kubexm";
    none_of(map, foreign(kind), why, "leave it out, or choose another type");
    Some(())
}

fn certificate(map: &Mapping<'_>, endpoints: Option<&Vec<String>>) -> Option<()> {
    let tls = endpoints.is_some_and(|all| all.iter().any(|endpoint| endpoint.starts_with("https://")));
    let missing: Vec<&str> =
        ["caFile", "certFile", "keyFrom"].into_iter().filter(|key| map.get(key).is_none()).collect();
    if !tls || missing.is_empty() {
        return Some(());
    }
    map.at().fail(
        ProblemKind::Missing,
        format!("an etcd at https:// is reached with a certificate; missing: {}", missing.join(", ")),
        "caFile and certFile are paths beside this file, and keyFrom is {file: PATH} or {env: NAME}",
    );
    None
}

/// At least one.
struct Endpoints;

impl FieldType for Endpoints {
    type Value = Vec<String>;

    const SHAPE: Shape = Shape::Some(&EtcdEndpoint::SHAPE);

    fn read(at: &At<'_>) -> Option<Vec<String>> {
        let all = Vec::<EtcdEndpoint>::read(at)?;
        if all.is_empty() {
            at.bad("expected at least one", "https://HOST:2379 of each member");
        }
        (!all.is_empty()).then_some(all)
    }

    fn show(value: &Vec<String>) -> Option<Value> {
        Vec::<EtcdEndpoint>::show(value)
    }
}
