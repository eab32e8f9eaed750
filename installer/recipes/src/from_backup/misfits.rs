//! What of cluster.yaml and the bundle does not belong to the cluster of a backup. Its objects come back as they were: a plugin, a network
//! or an add-on that differs would have half of each.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use kubexm_plan::backup::BackedUpCluster;
use kubexm_plan::cluster_facts::{AppliedCluster, applied};
use kubexm_plan::kubeadm_certificates::CLUSTER_CA;
use kubexm_plan::{BundleRecord, ClusterFacts};
use kubexm_spec::cluster::{Cluster, EtcdKind, Keyword as _, NetworkPlugin, one_certificate};
use kubexm_spec::{Digest, Version, one_line};
use serde_json::Value;

use crate::backup_source::{API_SERVER, BackupSource, CONTROLLER_MANAGER, KUBEADM, PAIRS, missing};
use crate::context::PlanContext;
use crate::modules::config_differences::differences;
use crate::modules::{kubeadm_config, removed_addons};
use crate::network;

/// What a comparison has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Each of them refuses the backup.
    pub problems: Vec<String>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// Settings of kubeadm that name hosts, or versions, which have a check of their own.
const OF_HOSTS: [&str; 7] = [
    "controlPlaneEndpoint",
    "apiServer.certSANs",
    "kubernetesVersion",
    "etcd.local.imageTag",
    "dns.imageTag",
    "KubeletConfiguration.resolvConf",
    "KubeletConfiguration.cgroupDriver",
];
/// Settings that are in objects of the cluster, and cannot be others afterwards.
const FIXED: [&str; 2] = ["networking.", "clusterName"];

/// Compares a backup with cluster.yaml and the bundle, before any host is contacted.
pub fn compare(cx: &PlanContext<'_>, source: &BackupSource) -> Compared {
    let (cluster, mut found) = (cx.cluster, Compared::default());
    let problems = &mut found.problems;
    if source.cluster != cluster.name {
        problems.push(format!(
            "it is of cluster {}, and cluster.yaml describes {}: give the cluster.yaml of that cluster, with the new hosts, or another backup",
            source.cluster.escape_default(),
            cluster.name
        ));
    }
    if source.now < source.created {
        problems.push("it was made later than the clock of this machine says it is now: set the clock".to_owned());
    }
    if cluster.etcd.kind != EtcdKind::Kubeadm {
        problems.push(format!(
            "spec.etcd.type is {}, and a cluster can be made from a backup with etcd of kubeadm's alone (type: kubeadm) yet: give the \
             snapshot to every member by hand (docs/operations/create-from-backup.md, \"From a backup onto new hosts by hand\")",
            cluster.etcd.kind
        ));
    }
    if cluster.external_ca().is_some() {
        problems.push(
            "spec.kubernetes.ca.certificatesFolder: no cluster is made from a backup where the CA's key stays with the site, since the backup \
             has no such key; create an empty cluster and apply your objects again, or restore the hosts that there are (`kubexm-install \
             restore`)"
                .to_owned(),
        );
    }
    let files = PAIRS.iter().filter_map(|(text, key)| {
        let text = (!source.texts.contains_key(*text)).then_some(*text);
        text.or_else(|| (!source.keys.contains(*key)).then_some(*key))
    });
    problems.extend(files.chain(unread(source)).map(missing));
    ca(cx, source, problems);
    versions(cx, source, &mut found);
    networks(cluster, source, &mut found);
    settings(cx, source, &mut found);
    match &source.had {
        Some(had) => applied_of(cluster, had, &mut found),
        None => found.warnings.push(
            "the backup does not say which pod network and add-ons its cluster had: it must be those of cluster.yaml"
                .to_owned(),
        ),
    }
    // A host may have written what was compared.
    found.problems.iter_mut().for_each(|problem| *problem = one_line(problem));
    found
}

fn unread(source: &BackupSource) -> impl Iterator<Item = &'static str> {
    [API_SERVER, CONTROLLER_MANAGER].into_iter().filter(|path| !source.texts.contains_key(*path))
}

/// A site's own CA must be that of the backup: every kubeconfig and certificate hangs on it.
fn ca(cx: &PlanContext<'_>, source: &BackupSource, problems: &mut Vec<String>) {
    let named = cx.cluster.kubernetes.as_ref().and_then(|kubernetes| kubernetes.ca.as_ref());
    let (Some(named), Some(has)) = (named, source.texts.get(CLUSTER_CA)) else { return };
    let wanted = cx.material(&named.cert_file).ok().and_then(|text| one_certificate(text).ok());
    if wanted.as_deref().map(str::trim) != one_certificate(has).ok().as_deref().map(str::trim) {
        problems.push(
            "its CA is not spec.kubernetes.ca.certFile: the cluster has the CA of the backup; name that certificate, or leave \
             spec.kubernetes.ca out if kubeadm made it"
                .to_owned(),
        );
    }
}

/// The flags of a static pod.
fn flags(source: &BackupSource, path: &str) -> BTreeMap<String, String> {
    let pod: Option<Value> = source.texts.get(path).and_then(|text| serde_saphyr::from_str(text).ok());
    let command = pod.as_ref().and_then(|pod| pod.pointer("/spec/containers/0/command")?.as_array());
    let words = command.into_iter().flatten().filter_map(Value::as_str);
    let flags = words.filter_map(|word| word.strip_prefix("--")?.split_once('='));
    flags.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// `1.34.4`, from the image of its API server.
fn version(source: &BackupSource) -> Option<String> {
    let pod: Value = serde_saphyr::from_str(source.texts.get(API_SERVER)?).ok()?;
    let image = pod.pointer("/spec/containers/0/image")?.as_str()?;
    Some(image.split('@').next()?.rsplit_once(":v")?.1.to_owned())
}

fn versions(cx: &PlanContext<'_>, source: &BackupSource, found: &mut Compared) {
    let bundled = cx.manifest.platforms.first().and_then(|platform| cx.kubernetes_version(*platform).ok());
    let (Some(has), Some(bundled)) = (version(source), bundled) else { return };
    let bundled = bundled.trim_start_matches('v');
    let minor = |version: &str| version.split('.').take(2).collect::<Vec<_>>().join(".");
    if minor(&has) != minor(bundled) {
        found.problems.push(format!(
            "its cluster had Kubernetes {has}, and the bundle has {bundled}: use a bundle of {}, and upgrade afterwards",
            minor(&has)
        ));
    } else if has != bundled {
        let older = Version::of(bundled).numbers().lt(Version::of(&has).numbers());
        let text = format!("its cluster had Kubernetes {has}, and the bundle has {bundled}");
        match older {
            true => found.problems.push(format!("{text}, which is older: use a bundle of {has} or a later patch")),
            false => found.warnings.push(text),
        }
    }
}

fn joined(networks: impl Iterator<Item = IpNet>) -> String {
    networks.map(|network| network.to_string()).collect::<Vec<_>>().join(",")
}

/// From the flags of static pods, which every control plane has.
fn networks(cluster: &Cluster, source: &BackupSource, found: &mut Compared) {
    let (api_server, manager) = (flags(source, API_SERVER), flags(source, CONTROLLER_MANAGER));
    let rows = [
        (
            "spec.network.serviceCidr",
            api_server.get("service-cluster-ip-range"),
            joined(cluster.network.service_cidrs()),
        ),
        ("spec.network.podCidr", manager.get("cluster-cidr"), joined(cluster.network.pod_cidrs())),
    ];
    for (field, has, wanted) in rows {
        let Some(has) = has.filter(|has| **has != wanted) else { continue };
        found.problems.push(format!(
            "{field} is {wanted}, and its cluster had {has}: Services and nodes in it have addresses of that"
        ));
    }
    let own = cluster.etcd.kind == EtcdKind::Kubeadm;
    if let Some(etcd) = api_server.get("etcd-servers").filter(|_| own).filter(|etcd| *etcd != "https://127.0.0.1:2379")
    {
        found.problems.push(format!(
            "its cluster had an etcd that is not kubeadm's ({etcd}), and cluster.yaml says spec.etcd.type kubeadm"
        ));
    }
}

/// The configuration of kubeadm, where the backup has the one of before.
fn settings(cx: &PlanContext<'_>, source: &BackupSource, found: &mut Compared) {
    let first = cx.cluster.first_control_plane().map(|host| &host.name);
    let nodes = cx.nodes().unwrap_or_default();
    let node = nodes.iter().find(|node| Some(&node.host.name) == first);
    let (Some(old), Some(Ok(new))) = (source.texts.get(KUBEADM), node.map(|node| kubeadm_config::init(cx, node)))
    else {
        return;
    };
    let is_of_hosts = |one: &String| {
        let name = one.split(':').next().unwrap_or_default();
        OF_HOSTS.contains(&name) || name.starts_with("InitConfiguration") || name.ends_with("apiVersion")
    };
    let Some(all) = differences(old, &new) else {
        let text = format!(
            "its {KUBEADM} is not what kubexm writes: it is not known with which settings its cluster was made"
        );
        found.warnings.push(text);
        return;
    };
    let all = all.into_iter().filter(|one| !is_of_hosts(one));
    let (fixed, others): (Vec<String>, Vec<String>) =
        all.partition(|one| FIXED.iter().any(|name| one.starts_with(name)));
    // Networks have a sentence of their own.
    let fixed = fixed
        .into_iter()
        .filter(|one| !one.starts_with("networking.podSubnet") && !one.starts_with("networking.serviceSubnet"));
    found.problems.extend(fixed.map(|one| format!("its cluster was made with another setting: {one}")));
    if !others.is_empty() {
        found.warnings.push(format!(
            "its cluster was made with other settings, and gets those of cluster.yaml: {}",
            others.join("; ")
        ));
    }
}

/// Pod network and add-ons, as they were applied.
fn applied_of(cluster: &Cluster, had: &BackedUpCluster, found: &mut Compared) {
    let default = NetworkPlugin::default().word();
    let of_record = had
        .applied
        .as_ref()
        .map(|applied| applied.pointer("/spec/network/plugin").and_then(Value::as_str).unwrap_or(default));
    let (plugin, wanted) = (of_record.or(had.network.as_deref()), cluster.network.plugin.word());
    match plugin {
        Some(plugin) if plugin != wanted => {
            found
                .problems
                .push(format!("spec.network.plugin is {wanted}, and its cluster had {}", plugin.escape_default()));
        }
        Some(_) => {}
        None => found.warnings.push("the backup does not say which pod network its cluster had".to_owned()),
    }
    let Some(record) = had.applied.clone() else {
        found.warnings.push("the backup does not say which add-ons its cluster had".to_owned());
        return;
    };
    let record = AppliedCluster {
        schema: applied::SCHEMA.to_owned(),
        name: cluster.name.clone(),
        id: None,
        kubernetes: String::new(),
        cluster_sha256: Digest::of(""),
        cluster: record,
        bundle: BundleRecord { manifest: Digest::of(""), signers: BTreeSet::new(), date: None, sequence: None },
        program: String::new(),
    };
    for removed in removed_addons::of(cluster, Some(&record)) {
        let addon = &removed.addon;
        found.problems.push(format!(
            "add-on {} ({}, namespace {}) is in the backup, and not in cluster.yaml: write it there as it was, and remove it with `create` \
             afterwards",
            addon.name, addon.kind, addon.namespace
        ));
    }
    let running = ClusterFacts { applied: Some(record), ..ClusterFacts::default() };
    let changed = network::changed(cluster, &running).into_iter().filter(|one| !one.starts_with("spec.network.plugin"));
    found.problems.extend(changed);
}
