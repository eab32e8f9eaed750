//! Kubernetes and etcd.

use super::super::source::Place;
use super::super::yaml::Map;
use super::{number, same};

pub(super) fn kubernetes(from: &Place<'_>) -> Map {
    let mut to = Map::default();
    if let Some(at) = from.get("type") {
        match at.text() {
            Some("kubernetes") => {}
            _ => at.leave("only Kubernetes itself is installed; type kubexm runs its components without kubeadm"),
        }
    }
    same(from, &mut to, &[("version", "version"), ("clusterName", "clusterName"), ("dnsDomain", "dnsDomain")]);
    same(from, &mut to, &[("proxyMode", "proxyMode")]);
    to.maybe("maxPods", from.get("maxPods").and_then(|at| number(&at)));
    to.maybe("certSANs", from.get("apiserverCertExtraSans").map(|at| at.texts()));
    to.maybe("autoRenewCerts", from.get("autoRenewCerts").map(|at| at.is_true()).filter(|yes| *yes));
    if from.get("nodelocaldns").is_some_and(|at| at.is_true()) {
        to.put("nodelocaldns", Map::default());
    }
    if from.at(&["audit", "enabled"]).is_some_and(|at| at.is_true()) {
        to.put("audit", Map::default());
    }
    to.maybe("featureGates", from.get("featureGates").map(|at| gates(&at)));
    for (old, new) in [
        ("apiserverArgs", "apiServerArgs"),
        ("controllerManagerArgs", "controllerManagerArgs"),
        ("schedulerArgs", "schedulerArgs"),
    ] {
        to.maybe(new, from.get(old).map(|at| args(&at)));
    }
    for name in ["kubeletArgs", "kubeProxyArgs"] {
        if let Some(at) = from.get(name) {
            at.leave("flags of this kind are deprecated upstream: write fields of kubelet or kubeProxy (their configuration)");
        }
    }
    let mut kubelet = from.get("kubeletConfiguration").map(|at| raw(&at)).unwrap_or_default();
    kubelet.maybe("podPidsLimit", from.get("podPidsLimit").and_then(|at| number(&at)));
    to.set("kubelet", kubelet);
    let mut proxy = from.get("kubeProxyConfiguration").map(|at| raw(&at)).unwrap_or_default();
    if from.get("masqueradeAll").is_some_and(|at| at.is_true()) {
        let mut iptables = Map::default();
        iptables.put("masqueradeAll", true);
        proxy.set("iptables", iptables);
    }
    to.set("kubeProxy", proxy);
    if let Some(at) = from.get("nodeCidrMaskSize") {
        match at.text() {
            // It is the size that every node gets.
            Some("24") => {}
            _ => at.leave("every node gets a /24 of the pod network"),
        }
    }
    for name in ["nodeFeatureDiscovery", "kata"] {
        let Some(at) = from.get(name) else { continue };
        match at.get("enabled").is_some_and(|at| at.is_true()) {
            true => at.leave("it is not installed by this program; carry its chart with spec.bundle.extraCharts"),
            false => at.taken(),
        }
    }
    if let Some(at) = from.get("disableKubeProxy") {
        match at.is_true() {
            true => at.leave("kube-proxy is always installed"),
            false => at.taken(),
        }
    }
    to
}

fn gates(from: &Place<'_>) -> Map {
    let mut gates = Map::default();
    for (name, at) in from.fields() {
        gates.put(name, at.is_true());
    }
    gates
}

/// `- --flag=value`, `- flag=value`.
fn args(from: &Place<'_>) -> Map {
    let mut args = Map::default();
    for at in from.items() {
        match at.text().and_then(|text| text.trim_start_matches('-').split_once('=')) {
            Some((flag, value)) => args.set(flag, value),
            None => at.leave("it is no flag with a value"),
        }
    }
    args
}

/// A configuration as it is.
fn raw(from: &Place<'_>) -> Map {
    let mut map = Map::default();
    for (name, at) in from.fields() {
        if !matches!(name, "apiVersion" | "kind") {
            map.put(name, at.raw());
        }
    }
    from.taken();
    map
}

pub(super) fn etcd(from: &Place<'_>) -> Map {
    let mut etcd = Map::default();
    let kind = from.get("type").and_then(|at| at.text());
    etcd.maybe("type", kind.map(|kind| if kind == "kubekey" { "kubexm" } else { kind }));
    if let Some(external) = from.get("external") {
        let mut config = Map::default();
        config.maybe("endpoints", external.get("endpoints").map(|at| at.texts()));
        same(&external, &mut config, &[("caFile", "caFile"), ("certFile", "certFile"), ("keyFile", "keyFile")]);
        match kind {
            Some("external") => etcd.set("externalConfig", config),
            _ => external.taken(),
        }
    }
    same(from, &mut etcd, &[("dataDir", "dataDir")]);
    etcd.maybe("quota", from.get("quotaBackendBytes").and_then(|at| number(&at)));
    let mut snapshots = Map::default();
    snapshots.maybe("count", from.get("snapshotCount").and_then(|at| number(&at)));
    snapshots.maybe("keep", from.get("maxSnapshots").and_then(|at| number(&at)));
    etcd.set("snapshots", snapshots);
    let mut backup = Map::default();
    if let Some(at) = from.get("backupPeriod") {
        match number(&at).and_then(calendar) {
            Some(schedule) => backup.set("schedule", schedule),
            None => at.leave("write spec.etcd.backup.schedule, a calendar expression of systemd"),
        }
    }
    same(from, &mut backup, &[("backupDir", "dir")]);
    backup.maybe("keep", from.get("keepBackupNumber").and_then(|at| number(&at)));
    etcd.set("backup", backup);
    if let Some(at) = from.get("backupScript") {
        at.leave("backups are made by a unit of this program, without a script of its own");
    }
    etcd
}

/// Every so many minutes, as systemd says it (systemd.time(7)).
fn calendar(minutes: u64) -> Option<String> {
    match minutes {
        1..=59 if 60_u64.is_multiple_of(minutes) => Some(format!("*:0/{minutes}")),
        60 => Some("hourly".to_owned()),
        1440 => Some("daily".to_owned()),
        61..1440 if minutes.is_multiple_of(60) && 1440_u64.is_multiple_of(minutes) => {
            Some(format!("0/{}:00", minutes / 60))
        }
        _ => None,
    }
}
