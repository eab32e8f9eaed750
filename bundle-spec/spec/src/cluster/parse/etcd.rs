//! `spec.etcd`.

use super::take::{maybe, none_of, or, some};
use super::{addresses, values};
use crate::cluster::{Backup, Etcd, EtcdKind, ExternalEtcd, Keyword, Snapshots};
use crate::yaml::{At, Field, Mapping, Object, ProblemKind, Shape};

/// `spec.etcd`.
pub(super) const ETCD: Object = Object::new(
    "What the API server keeps its objects in",
    &[
        Field::new(
            "type",
            Shape::Words(EtcdKind::WORDS),
            "Static pods of kubeadm, binaries under systemd, or one of your own",
        ),
        Field::new("externalConfig", Shape::Mapping(&EXTERNAL), "How an etcd of your own is reached (type external)"),
        Field::new("dataDir", Shape::Text, "Folder of its data on the members"),
        Field::new(
            "quota",
            Shape::Form("^[0-9]+([KMGT]i)?$"),
            "Most bytes of the database, like 8Gi; etcd's own default (2Gi) when left out",
        ),
        Field::new("snapshots", Shape::Mapping(&SNAPSHOTS), "etcd's own snapshots, from which it starts"),
        Field::new(
            "backup",
            Shape::Mapping(&BACKUP),
            "Backups on the members; {} for its defaults, none when left out",
        ),
    ],
);

/// `spec.etcd.externalConfig`.
pub(super) const EXTERNAL: Object = Object::new(
    "An etcd of your own",
    &[
        Field::needed(
            "endpoints",
            Shape::Some(&Shape::Form("^https?://[^/@]+:[0-9]+$")),
            "Client addresses of its members, like https://10.0.0.5:2379",
        ),
        Field::new("caFile", Shape::Text, "On this machine: the CA of the members' certificates"),
        Field::new("certFile", Shape::Text, "On this machine: the API server's client certificate"),
        Field::new("keyFile", Shape::Text, "On this machine: its key"),
    ],
);

/// `spec.etcd.snapshots`.
pub(super) const SNAPSHOTS: Object = Object::new(
    "etcd's own snapshots",
    &[
        Field::new(
            "count",
            Shape::Number(1, 10_000_000),
            "Changes after which one is made (--snapshot-count); etcd's own default when left out",
        ),
        Field::new(
            "keep",
            Shape::Number(1, 1000),
            "How many are kept (--max-snapshots); etcd's own default when left out",
        ),
    ],
);

/// `spec.etcd.backup`.
pub(super) const BACKUP: Object = Object::new(
    "Backups on the members",
    &[
        Field::new("schedule", Shape::Text, "When: a calendar expression of systemd (systemd.time(7))"),
        Field::new("dir", Shape::Text, "Folder on the members"),
        Field::new("keep", Shape::Number(1, 10_000), "How many are kept"),
    ],
);

pub(super) fn etcd(at: &At<'_>) -> Option<Etcd> {
    let map = at.mapping(&ETCD)?;
    let default = Etcd::default();
    let kind = or(map.get("type"), default.kind, |at| at.word());
    let external = maybe(map.get("externalConfig"), external);
    let data_dir = or(map.get("dataDir"), default.data_dir, |at| at.parsed(values::folder));
    let quota = maybe(map.get("quota"), |at| at.parsed(values::quantity));
    let snapshots = or(map.get("snapshots"), default.snapshots, snapshots);
    let backup = maybe(map.get("backup"), backup);
    belongs(&map, kind?);
    Some(Etcd {
        kind: kind?,
        external: external?,
        data_dir: data_dir?,
        quota: quota?,
        snapshots: snapshots?,
        backup: backup?,
    })
}

/// Each type has keys that mean nothing with another.
fn belongs(map: &Mapping<'_>, kind: EtcdKind) {
    if kind == EtcdKind::External {
        if map.get("externalConfig").is_none() {
            let hint = "externalConfig: {endpoints: [\"https://10.0.0.5:2379\"], caFile, certFile, keyFile}";
            map.at().fail(ProblemKind::Missing, "\"externalConfig\" is missing: the address of etcd is unknown", hint);
        }
        let why = "an etcd of your own is not set up by kubexm";
        none_of(map, &["dataDir", "quota", "snapshots", "backup"], why, "leave it out, or choose another type");
    } else {
        none_of(map, &["externalConfig"], "this is about an etcd of your own", "write type: external, or leave it out");
    }
}

fn external(at: &At<'_>) -> Option<ExternalEtcd> {
    let map = at.mapping(&EXTERNAL)?;
    let endpoints = map.need("endpoints").and_then(|at| {
        some(&at, "https://HOST:2379 of each member", |item| {
            if item.holds_login() { None } else { item.parsed(addresses::endpoint) }
        })
    });
    let keys = ["caFile", "certFile", "keyFile"];
    let files = keys.map(|key| maybe(map.get(key), |at| at.parsed(values::path)));
    let given = keys.iter().filter(|key| map.get(key).is_some()).count();
    let tls = endpoints.as_ref().is_some_and(|all| all.iter().any(|endpoint| endpoint.starts_with("https://")));
    if tls && given < keys.len() {
        let missing: Vec<&str> = keys.into_iter().filter(|key| map.get(key).is_none()).collect();
        at.fail(
            ProblemKind::Missing,
            format!("an etcd at https:// is reached with a certificate; missing: {}", missing.join(", ")),
            "paths on the machine that installs",
        );
        return None;
    }
    let [ca_file, cert_file, key_file] = files;
    Some(ExternalEtcd { endpoints: endpoints?, ca_file: ca_file?, cert_file: cert_file?, key_file: key_file? })
}

fn snapshots(at: &At<'_>) -> Option<Snapshots> {
    let map = at.mapping(&SNAPSHOTS)?;
    let count = maybe(map.get("count"), |at| at.number(1..=10_000_000));
    let keep = maybe(map.get("keep"), |at| at.number(1..=1000));
    Some(Snapshots { count: count?, keep: keep? })
}

fn backup(at: &At<'_>) -> Option<Backup> {
    let map = at.mapping(&BACKUP)?;
    let default = Backup::default();
    let schedule = or(map.get("schedule"), default.schedule, |at| at.parsed(values::calendar));
    let dir = or(map.get("dir"), default.dir, |at| at.parsed(values::folder));
    let keep = or(map.get("keep"), default.keep, |at| at.number(1..=10_000));
    Some(Backup { schedule: schedule?, dir: dir?, keep: keep? })
}
