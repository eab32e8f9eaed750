//! Hosts of a cluster that is made from a backup: fresh ones, or those of an earlier try with the same backup; and the hosts of before,
//! whose API servers must not answer any more.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use kubexm_plan::backup::FromBackup;
use kubexm_plan::facts::Stamp;
use kubexm_plan::kubeadm_certificates::CLUSTER_CA;
use kubexm_plan::mesh::{ConnectionCheck, ConnectionResult, Port, Protocol};
use kubexm_plan::{ClusterId, Facts};
use kubexm_spec::cluster::{API_PORT, Cluster};
use kubexm_spec::{amount, amount_needed};

use crate::backup_source::BackupSource;
use crate::context::PlanContext;
use crate::error::RecipeError;
use crate::mesh::LOAD_BALANCER;
use crate::paths;
use crate::preflight::{Finding, Severity, disk_of};

/// The name of its findings.
const CHECK: &str = "from-backup";

/// What a host's file says of the cluster in its stamp; an unreadable one is of some backup.
fn mark(facts: &Facts, stamp: &Stamp) -> Option<Option<FromBackup>> {
    let text = facts.from_backup.as_deref()?;
    match serde_json::from_str::<FromBackup>(text) {
        // Written for a cluster that never came to be: its stamp was not written.
        Ok(mark) if Some(mark.cluster_id) != stamp.id => None,
        Ok(mark) => Some(Some(mark)),
        Err(_) => Some(None),
    }
}

/// Refuses a host with anything of a cluster, but of an earlier try with this backup.
pub(crate) fn only_fresh(cx: &PlanContext<'_>, source: &BackupSource) -> Result<(), RecipeError> {
    let own = FromBackup { cluster_id: source.cluster_id, archive: source.archive.sha256 };
    let problem = |(host, facts): (&String, &Facts)| {
        let stamp = facts.stamp.as_ref()?;
        if mark(facts, stamp) == Some(Some(own.clone())) {
            return None;
        }
        let id = stamp.id.map(|id: ClusterId| format!(", id {id}")).unwrap_or_default();
        Some(format!(
            "{host} has the stamp of cluster {}{id}: a cluster is made from a backup on fresh hosts alone. Use another host; free this one with \
             `kubexm-install reset` if nobody needs what is on it; or give a cluster that runs the data of the backup with \
             `kubexm-install restore`",
            stamp.cluster
        ))
    };
    let mut problems: Vec<String> = cx.facts.iter().filter_map(problem).collect();
    problems.extend(room(cx, source));
    if problems.is_empty() { Ok(()) } else { Err(RecipeError::NotFresh { problems }) }
}

/// What etcd allocates for its log beside the data.
const WAL: u64 = 256 << 20;

/// What is too full on the first control plane, beside what preflight finds: the snapshot lies beside the data for a while.
fn room(cx: &PlanContext<'_>, source: &BackupSource) -> Vec<String> {
    let Some((first, facts)) =
        cx.cluster.first_control_plane().and_then(|host| Some((host, cx.facts.get(&host.name)?)))
    else {
        return Vec::new();
    };
    if facts.joined {
        return Vec::new();
    }
    let data = cx.cluster.etcd.data_dir.as_str();
    let needs = [(paths::STATE, source.archive.size), (data, source.snapshot.saturating_mul(2).saturating_add(WAL))];
    let mut wanted: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (path, bytes) in needs {
        if let Some(disk) = disk_of(&facts.disks, path) {
            let (needed, _) = wanted.entry(&disk.mount).or_insert((0, disk.free));
            *needed = needed.saturating_add(bytes);
        }
    }
    let full = wanted.into_iter().filter(|(_, (needed, free))| needed > free);
    let text = |(mount, (needed, free)): (&str, (u64, u64))| {
        format!(
            "{}: {mount} has {} free, and the data of the backup needs {}: make room there",
            first.name,
            amount(free),
            amount_needed(needed)
        )
    };
    full.map(text).collect()
}

/// Refuses a `create` without the backup on hosts where one with it has not come to its control plane: it would make an empty cluster with
/// the id of the backup's.
pub(crate) fn refuse_without(cluster: &Cluster, facts: &BTreeMap<String, Facts>) -> Result<(), RecipeError> {
    let marked = facts.iter().find(|(_, facts)| {
        let stamp = facts.stamp.as_ref().filter(|stamp| stamp.cluster == cluster.name);
        stamp.is_some_and(|stamp| mark(facts, stamp).is_some())
    });
    let Some((host, _)) = marked else { return Ok(()) };
    let first = cluster.first_control_plane().map(|first| first.name.as_str());
    // kubelet.conf is there in the middle of an init; others join after its end alone.
    let begun = facts
        .iter()
        .any(|(host, facts)| facts.kubeadm_config.is_some() || (facts.joined && Some(host.as_str()) != first));
    if begun {
        return Ok(());
    }
    Err(RecipeError::BackupNeeded { host: host.clone(), cluster: cluster.name.clone() })
}

/// The most addresses of earlier control planes that are asked: one that does not answer takes ten seconds, and all of them have to be
/// done with in the time of one request. Whoever may write node objects could give a cluster thousands.
const MOST_ASKED: usize = 64;

/// Where the cluster of before may still answer, asked from the first control plane with the CA of the backup, and a warning where these
/// are not all. Nothing once the first control plane was begun with this backup: then it is the new cluster that answers.
pub fn dials(cx: &PlanContext<'_>, source: &BackupSource) -> (BTreeMap<String, Vec<ConnectionCheck>>, Option<Finding>) {
    let Some(first) = cx.cluster.first_control_plane() else { return (BTreeMap::new(), None) };
    let begun = cx.facts.get(&first.name).is_some_and(|facts| facts.joined && facts.from_backup.is_some());
    let Some(ca) = source.texts.get(CLUSTER_CA).filter(|_| !begun) else { return (BTreeMap::new(), None) };
    let mut all: BTreeSet<(String, SocketAddr)> = BTreeSet::new();
    let mode = &cx.cluster.load_balancer.mode;
    if let Some(vip) = mode.vip() {
        all.insert((LOAD_BALANCER.to_owned(), SocketAddr::from((vip, mode.port()))));
    }
    let had = had(source);
    let not_asked = had.len().saturating_sub(MOST_ASKED);
    all.extend(
        had.into_iter().take(MOST_ASKED).map(|(.., name, ip)| (name.to_owned(), SocketAddr::from((ip, API_PORT)))),
    );
    // The new ones too: one may have the address of an earlier control plane that was not shut down.
    let planes = cx.cluster.role_groups.control_plane.iter().filter_map(|name| cx.cluster.host(name));
    all.extend(planes.filter_map(|host| Some((host.name.clone(), SocketAddr::from((host.node_ip()?, API_PORT))))));
    let check = |(to, address): (String, SocketAddr)| ConnectionCheck {
        to,
        address: address.ip(),
        port: Port { protocol: Protocol::Tcp, number: address.port() },
        pod: None,
        authority: Some(ca.clone()),
        router: None,
    };
    let dials = BTreeMap::from([(first.name.clone(), all.into_iter().map(check).collect())]);
    (dials, (not_asked > 0).then(|| unasked(&first.name, not_asked)))
}

/// Addresses of the control planes of before, with their names. First those with a member of etcd, which nobody has by a label; then
/// one of each node.
fn had(source: &BackupSource) -> BTreeSet<(bool, usize, &str, IpAddr)> {
    let members: BTreeSet<&String> = source.had.iter().flat_map(|had| &had.members).collect();
    let mut all = BTreeSet::new();
    for node in source.had.iter().flat_map(|had| &had.nodes).filter(|node| node.control_plane) {
        let has_no_member = !members.contains(&node.name);
        let addresses = node.addresses.iter().filter_map(|address| address.parse::<IpAddr>().ok()).enumerate();
        all.extend(addresses.map(|(number, ip)| (has_no_member, number, node.name.as_str(), ip)));
    }
    all
}

fn unasked(first: &str, number: usize) -> Finding {
    Finding {
        severity: Severity::Warn,
        check: CHECK.to_owned(),
        host: Some(first.to_owned()),
        found: format!(
            "addresses of control planes in the backup that were not asked for an API server, beyond {MOST_ASKED} that were: {number}"
        ),
        needed: "the hosts of before to be off: two clusters with one CA and one id would take each other's nodes and clients".to_owned(),
        fix: "see for yourself that none of them runs; `kubexm-install backup verify --json` shows which nodes the backup has".to_owned(),
        detail: None,
    }
}

/// Each of them that answers with a certificate of the backup's CA.
pub fn live(dialed: &BTreeMap<String, Vec<ConnectionResult>>) -> Vec<Finding> {
    let all = dialed.iter().flat_map(|(from, dialed)| dialed.iter().map(move |one| (from, one)));
    let answered = all.filter(|(_, one)| one.blocked.is_none() && one.dial.authority.is_some());
    answered
        .map(|(from, one)| Finding {
            severity: Severity::Fail,
            check: CHECK.to_owned(),
            host: Some(from.clone()),
            found: format!("an API server of the cluster in the backup, at {} port {} ({})", one.dial.address, one.dial.port, one.dial.to),
            needed: "the hosts of before to be off: two clusters with one CA and one id would take each other's nodes and clients".to_owned(),
            fix: "shut that host down, or reset it with `kubexm-install reset`; if its cluster is to go on, `kubexm-install restore` gives it \
                  the data of the backup"
                .to_owned(),
            detail: None,
        })
        .collect()
}
