//! etcd.

use super::super::fields::{carry, lists, numbers, same};
use super::super::source::Place;
use super::super::yaml::{Map, Yaml};

/// Fields that KubeKey reads with an etcd of its own (type kubekey) only.
const OWN: &[&str] = &[
    "dataDir",
    "quotaBackendBytes",
    "snapshotCount",
    "maxSnapshots",
    "backupPeriod",
    "backupDir",
    "keepBackupNumber",
    "backupScript",
];

pub(super) fn etcd(from: &Place<'_>) -> Map {
    let mut etcd = Map::default();
    let kind = from.get("type").and_then(|at| at.text());
    carry(from, "type", &mut etcd, "type", |_| kind.map(|kind| if kind == "kubekey" { "kubexm" } else { kind }.into()));
    match kind {
        None | Some("kubekey") => own(from, &mut etcd),
        Some(_) => {
            for at in OWN.iter().filter_map(|name| from.get(name)) {
                at.leave("KubeKey reads it with an etcd of type kubekey only");
            }
        }
    }
    if let Some(external) = from.get("external") {
        let mut config = Map { origin: Some(external.origin()), ..Map::default() };
        lists(&external, &mut config, &[("endpoints", "endpoints")]);
        for key in ["caFile", "certFile"] {
            carry(&external, key, &mut config, key, |at| {
                let path = at.text()?;
                if path.starts_with('/') {
                    at.leave("lay a copy of that file beside cluster.yaml, and name it here: bundles carry it");
                }
                // Its name, since a material lies beside the file.
                Some(Yaml::Text(path.rsplit('/').next().unwrap_or(path).to_owned()))
            });
        }
        carry(&external, "keyFile", &mut config, "keyFrom", |at| {
            let mut source = Map { origin: Some(at.origin()), ..Map::default() };
            source.set("file", Yaml::Text(at.text()?.to_owned()));
            Some(source.into())
        });
        match kind {
            Some("external") => etcd.set("externalConfig", config),
            _ if config.fields.is_empty() => {}
            _ => external.leave("it is about an etcd of type external"),
        }
    }
    etcd
}

fn own(from: &Place<'_>, etcd: &mut Map) {
    same(from, etcd, &[("dataDir", "dataDir")]);
    numbers(from, etcd, &[("quotaBackendBytes", "quota")]);
    let mut snapshots = Map::default();
    numbers(from, &mut snapshots, &[("snapshotCount", "count"), ("maxSnapshots", "keep")]);
    etcd.set("snapshots", snapshots);
    let mut backup = Map::default();
    carry(from, "backupPeriod", &mut backup, "schedule", |at| {
        let minutes = at.number()?;
        if minutes > DAY {
            at.leave("KubeKey backs up once a day where more is asked for, and so does what is written");
        }
        Some(Yaml::Text(calendar(minutes)))
    });
    same(from, &mut backup, &[("backupDir", "dir")]);
    numbers(from, &mut backup, &[("keepBackupNumber", "keep")]);
    etcd.set("backup", backup);
    if let Some(at) = from.get("backupScript") {
        at.leave("backups are made by a unit of this program, without a script of its own");
    }
}

/// Minutes.
const DAY: u64 = 1440;

/// When KubeKey's timer runs for so many minutes (`BackupTimeOnCalendar`), as short as systemd.time(7) has it.
fn calendar(minutes: u64) -> String {
    match (minutes / 60, minutes % 60) {
        _ if minutes >= DAY => "daily".to_owned(),
        (0, minutes) => format!("*:0/{minutes}"),
        (1, 0) => "hourly".to_owned(),
        (hours, minutes) => format!("0/{hours}:{minutes:02}"),
    }
}
