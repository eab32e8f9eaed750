//! etcd as a service of its own on the hosts of the role etcd (`spec.etcd.type: kubexm`): program, certificates, one unit.
//!
//! A member's certificates are read again with every connection, so that renewed ones need no restart.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use kubexm_plan::etcd::{
    ADMIN_CERT, ADMIN_KEY, CA, CONFIG, FORMED, MEMBER, PEER_CERT, PEER_KEY, SERVER_CERT, SERVER_KEY, UNIT,
};
use kubexm_plan::op::{Dir, File, MemberAdd, MemberPromote, MemberRemove, StateDir, Unit};
use kubexm_plan::{Authority, CertificateUse, Facts, Probe, SlotProvider, Step, Undo};
use kubexm_spec::cluster::EtcdKind;
use kubexm_spec::{Digest, Program, Version};
use minijinja::context;
use serde_json::{Value, json};

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::etcd_formed::{Formed, StartedWith};
use crate::modules::issued::Issued;
use crate::modules::programs;
use crate::templates::template;
use crate::{paths, yaml};

/// Clients.
const CLIENTS: u16 = 2379;
/// Members among each other.
const PEERS: u16 = 2380;
/// Metrics and health without a certificate, on the host alone; as kubeadm's etcd.
const METRICS: &str = "http://127.0.0.1:2381";
/// As kubeadm's etcd, so that the API server's cache follows the database; nanoseconds.
const PROGRESS_NS: u64 = 5_000_000_000;
/// How long a member may take until it has a leader, in seconds: the others are started at the same time, on hosts that may
/// be slower.
const STARTS_S: u64 = 180;
/// How long a new member may take until it has the data of the others, in seconds; a little more than the act itself waits.
const CATCHES_UP_S: u64 = 1_600;

/// Keeps with which members the one on this host has started, before others join them: its configuration goes on with those. `domain`: the
/// host for which this is done. None if it is kept already.
pub fn keep_started(draft: &mut Draft<'_>, node: &PlannedHost<'_>, members: &[Member], domain: &str) -> Option<Step> {
    let formed = Formed::of(node.facts).filter(|formed| formed.started.is_none())?;
    let started = StartedWith { state: "new".to_owned(), members: initial_cluster(members) };
    let file = draft.file(FORMED, 0o644, Formed { started: Some(started), ..formed }.text());
    let title = "Keep with which members the host's member of etcd has started";
    let step = Step::on(node.name(), "etcd.started", title).domain(domain).ensure(file);
    Some(step.undo(Undo::RestoreBefore).build())
}

/// Adds the member on a new host, without a vote; from a control plane that runs.
pub fn add(on: &PlannedHost<'_>, member: &Member) -> Step {
    let (name, peers) = (member.name.clone(), vec![member.peer.clone()]);
    let title = format!("Add {name} to the members of etcd, without a vote");
    Step::on(on.name(), &format!("etcd.add-{name}"), &title)
        .domain(&name)
        .ensure(MemberAdd { name: name.clone(), peers: peers.clone() })
        .timeout_s(STARTS_S)
        .undo(Undo::Act { act: MemberRemove { name: name.clone(), peers }.into() })
        .build()
}

/// Gives it its vote. Rolled back before the host stops it: a member that is stopped and listed counts for the quorum.
pub fn promote(on: &PlannedHost<'_>, member: &Member) -> Step {
    let (name, peers) = (member.name.clone(), vec![member.peer.clone()]);
    let title = format!("Give {name} its vote among the members of etcd, once it has their data");
    Step::on(on.name(), &format!("etcd.promote-{name}"), &title)
        .domain(&name)
        .ensure(MemberPromote { name: name.clone(), peers: peers.clone() })
        .timeout_s(CATCHES_UP_S)
        .undo(Undo::Act { act: MemberRemove { name: name.clone(), peers }.into() })
        .build()
}

/// A member as the others and its clients know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name of its host.
    pub name: String,
    /// `https://10.0.0.5:2379`.
    pub client: String,
    /// `https://10.0.0.5:2380`.
    pub peer: String,
}

/// The members in the order of the role group; none if kubexm runs no etcd of its own.
pub fn members(cx: &PlanContext<'_>) -> Result<Vec<Member>, RecipeError> {
    if cx.cluster.etcd.kind != EtcdKind::Kubexm {
        return Ok(Vec::new());
    }
    let nodes = cx.nodes()?;
    let found = cx.cluster.role_groups.etcd.iter().filter_map(|name| nodes.iter().find(|node| node.name() == name));
    let members: Vec<Member> = found.map(Member::of).collect();
    if members.is_empty() { Err(RecipeError::NoHosts { what: "etcd" }) } else { Ok(members) }
}

impl Member {
    fn of(node: &PlannedHost<'_>) -> Self {
        Self::at(node.name(), node.ip)
    }

    /// On this host.
    pub fn at(name: &str, ip: IpAddr) -> Self {
        let url = |port| format!("https://{}", SocketAddr::from((ip, port)));
        Self { name: name.to_owned(), client: url(CLIENTS), peer: url(PEERS) }
    }
}

/// What the members are that one is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// All of them start as one new cluster, and wait for each other, on hosts that get more or less before.
    New,
    /// They are one already: each is waited for, before the next is touched.
    Running,
    /// They are one already, and this one joins it.
    Joined,
}

/// Starts the member on this host.
pub fn serve(
    draft: &mut Draft<'_>,
    node: &PlannedHost<'_>,
    members: &[Member],
    among: Among,
) -> Result<Step, RecipeError> {
    let data_dir = draft.cx.cluster.etcd.data_dir.clone();
    let (config, unit) = started_with(draft, node, (members, among))?;
    let mut files = vec![ca(draft, CA)];
    files.extend(issued(node.name(), node.ip).into_iter().flat_map(|one| draft.issued(one)));
    let program = programs::etcd(draft.cx, node, paths::BIN)?;
    let own: Vec<&Member> = members.iter().filter(|member| member.name == node.name()).collect();
    let step = Step::on(node.name(), "etcd.serve", "Start the host's member of etcd")
        .ensure(program)
        .ensure(Dir { path: MEMBER.to_owned(), mode: 0o700 })
        .ensure_all(files)
        .ensure(config)
        .ensure(StateDir::at(&data_dir))
        .ensure(Dir { path: data_dir, mode: 0o700 })
        .ensure(unit)
        .ensure(running())
        .timeout_s(STARTS_S + 120);
    let step = if among == Among::Running { step.probe(healthy(own), STARTS_S) } else { step };
    Ok(step.undo(Undo::RestoreBefore).build())
}

/// Another etcd in the place of the member's program, with the data that it has: the configuration goes with the version. Ends when
/// every member is healthy.
pub fn replace(
    draft: &mut Draft<'_>,
    node: &PlannedHost<'_>,
    members: &[Member],
    undo: Undo,
) -> Result<Step, RecipeError> {
    let program = programs::etcd(draft.cx, node, paths::BIN)?;
    let (config, unit) = started_with(draft, node, (members, Among::Running))?;
    let known = known(draft, node, (members, Among::Running))?;
    let version = &draft.cx.program(Program::Etcd, node.platform)?.version;
    Ok(Step::on(node.name(), "upgrade.member", &format!("Replace the host's member of etcd by etcd {version}"))
        .ensure(program)
        .ensure(config)
        .ensure(unit)
        // Before it runs: a create with an earlier bundle is refused by this file, and must not put an older etcd on newer data.
        .ensure(known)
        .ensure(running())
        .probe(healthy(members), STARTS_S)
        .timeout_s(STARTS_S + 120)
        .undo(undo)
        .build())
}

/// While it is replaced the others serve alone.
pub fn others_are_healthy(node: &PlannedHost<'_>, members: &[Member]) -> Option<Step> {
    let others: Vec<&Member> = members.iter().filter(|member| member.name != node.name()).collect();
    let step = Step::on(node.name(), "upgrade.other-members", "Check that every other member of etcd is healthy");
    (!others.is_empty()).then(|| step.probe(healthy(others), 60).timeout_s(80).undo(Undo::Nothing).build())
}

/// The files that a member is started with, beside its certificates.
fn started_with(
    draft: &mut Draft<'_>,
    node: &PlannedHost<'_>,
    members: (&[Member], Among),
) -> Result<(File, File), RecipeError> {
    let config = yaml::documents("etcd config", &[config(draft.cx, node, members)?])?;
    let config = draft.file(CONFIG, 0o644, config);
    let values =
        context! { bin => paths::BIN, config => CONFIG, formed => FORMED, data_dir => &draft.cx.cluster.etcd.data_dir };
    Ok((config, draft.template(paths::unit(UNIT), template!("kubexm-etcd.service"), values)?))
}

/// The service, started again if what it loads has changed.
pub fn running() -> Unit {
    let loaded = [CONFIG, CA].map(str::to_owned).into_iter().chain([paths::unit(UNIT), paths::bin("etcd")]);
    Unit { name: UNIT.to_owned(), enabled: true, running: Some(true), loaded: loaded.collect(), reloaded: Vec::new() }
}

/// After all members have started: each is asked from here. Then the member is known to have data.
pub fn formed(
    draft: &mut Draft<'_>,
    node: &PlannedHost<'_>,
    members: &[Member],
    among: Among,
) -> Result<Step, RecipeError> {
    let known = known(draft, node, (members, among))?;
    Ok(Step::on(node.name(), "etcd.formed", "Check that every member of etcd is healthy")
        .ensure(known)
        .probe(healthy(members), STARTS_S)
        .timeout_s(STARTS_S + 30)
        .undo(Undo::RestoreBefore)
        .build())
}

/// The file that says that the member has data, and which version it runs.
fn known(draft: &mut Draft<'_>, node: &PlannedHost<'_>, members: (&[Member], Among)) -> Result<File, RecipeError> {
    let version = draft.cx.program(Program::Etcd, node.platform)?.version.clone();
    let etcd = &draft.cx.cluster.etcd;
    let folder = etcd.has_own_folder().then(|| etcd.data_dir.clone());
    let formed = Formed { id: token(draft.cx), version, folder, started: started(node, members) };
    Ok(draft.file(FORMED, 0o644, formed.text()))
}

/// The version in that file; none of a host whose member was never healthy.
pub fn formed_version(facts: &Facts) -> Option<&str> {
    facts.etcd_formed.as_deref().map(|text| text.lines().nth(1).unwrap_or_default())
}

/// With which members the one on this host has started, if these are not simply all.
fn started(node: &PlannedHost<'_>, (members, among): (&[Member], Among)) -> Option<StartedWith> {
    let joins = || StartedWith { state: "existing".to_owned(), members: initial_cluster(members) };
    Formed::of(node.facts).and_then(|formed| formed.started).or_else(|| (among == Among::Joined).then(joins))
}

/// etcd's `initial-cluster`.
pub fn initial_cluster<'m>(members: impl IntoIterator<Item = &'m Member>) -> String {
    let named = members.into_iter().map(|member| format!("{}={}", member.name, member.peer));
    named.collect::<Vec<_>>().join(",")
}

/// Every member answers, asked from a member's host.
pub fn healthy<'m>(members: impl IntoIterator<Item = &'m Member>) -> Probe {
    asked_from_a_member(urls(members))
}

/// Members by their names and client URLs, asked with the client's certificate that is on a member's host.
pub fn asked_from_a_member(members: BTreeMap<String, String>) -> Probe {
    Probe::EtcdMembersHealthy {
        members,
        unnamed: false,
        ca: CA.to_owned(),
        certificate: ADMIN_CERT.to_owned(),
        key: ADMIN_KEY.to_owned(),
    }
}

/// Client URLs by name.
pub fn urls<'m>(members: impl IntoIterator<Item = &'m Member>) -> BTreeMap<String, String> {
    members.into_iter().map(|member| (member.name.clone(), member.client.clone())).collect()
}

/// Two clusters whose members have the same addresses never take each other for their own.
fn token(cx: &PlanContext<'_>) -> String {
    cx.cluster_id.map_or_else(|| cx.cluster.name.clone(), |id| id.to_string())
}

fn config(
    cx: &PlanContext<'_>,
    node: &PlannedHost<'_>,
    (members, among): (&[Member], Among),
) -> Result<Value, RecipeError> {
    let own = Member::of(node);
    let first = || StartedWith { state: "new".to_owned(), members: initial_cluster(members) };
    let StartedWith { state, members: initial } = started(node, (members, among)).unwrap_or_else(first);
    let tls = |certificate: &str, key: &str| json!({"cert-file": certificate, "key-file": key, "client-cert-auth": true, "trusted-ca-file": CA});
    let etcd = &cx.cluster.etcd;
    let mut config = json!({
        "name": own.name,
        "data-dir": etcd.data_dir,
        "listen-client-urls": format!("https://127.0.0.1:{CLIENTS},{}", own.client),
        "advertise-client-urls": own.client,
        "listen-peer-urls": own.peer,
        "initial-advertise-peer-urls": own.peer,
        // With data, etcd ignores both.
        "initial-cluster": initial,
        "initial-cluster-state": state,
        "initial-cluster-token": token(cx),
        "listen-metrics-urls": METRICS,
        "client-transport-security": tls(SERVER_CERT, SERVER_KEY),
        "peer-transport-security": tls(PEER_CERT, PEER_KEY),
    });
    let version = &cx.program(Program::Etcd, node.platform)?.version;
    config[progress(version)] = json!(PROGRESS_NS);
    let (check, value) = corruption_check(version);
    config[check] = value;
    for (key, value) in [
        ("quota-backend-bytes", etcd.quota),
        ("snapshot-count", etcd.snapshots.count.map(u64::from)),
        ("max-snapshots", etcd.snapshots.keep.map(u64::from)),
    ] {
        if let Some(value) = value {
            config[key] = json!(value);
        }
    }
    Ok(config)
}

/// It was an experiment before 3.6 (its changelog).
fn progress(version: &str) -> &'static str {
    match is_before_3_6(version) {
        true => "experimental-watch-progress-notify-interval",
        false => "watch-progress-notify-interval",
    }
}

/// As kubeadm's etcd: a member compares its data with the others' before it serves.
fn corruption_check(version: &str) -> (&'static str, Value) {
    match is_before_3_6(version) {
        true => ("experimental-initial-corrupt-check", json!(true)),
        false => ("feature-gates", json!("InitialCorruptCheck=true")),
    }
}

fn is_before_3_6(version: &str) -> bool {
    Version::of(version).line().is_some_and(|line| line < [3, 6])
}

/// A member's certificates, one for each use, as kubeadm makes them for its etcd.
pub fn issued(host: &str, ip: IpAddr) -> [Issued; 3] {
    let (name, ip) = (host.to_owned(), ip.to_string());
    let local = ["localhost", "127.0.0.1"].map(str::to_owned);
    let of_server = [name.clone(), ip.clone()].into_iter().chain(local).collect();
    let of =
        |role: &str, common_name: &str, sans, files| signed(&format!("etcd-{role}-{host}"), files, common_name, sans);
    [
        of("server", host, of_server, (SERVER_CERT, SERVER_KEY)),
        of("peer", host, vec![name, ip], (PEER_CERT, PEER_KEY)),
        of("admin", "kubexm-etcd-admin", Vec::new(), (ADMIN_CERT, ADMIN_KEY)),
    ]
}

/// The certificate of etcd's authority.
pub fn ca(draft: &mut Draft<'_>, path: &str) -> File {
    draft.slot_file(path, 0o644, CA_SLOT, authority(BTreeSet::new()))
}

/// The slot of the authority's certificate.
pub const CA_SLOT: &str = "etcd-ca";

/// Who provides it; `replaces`: digests of certificates that are renewed.
pub const fn authority(replaces: BTreeSet<Digest>) -> SlotProvider {
    SlotProvider::Authority { authority: Authority::Etcd, valid_h: None, replaces }
}

/// A certificate of etcd's authority.
pub fn signed(
    slot: &str,
    (certificate, key): (&'static str, &'static str),
    common_name: &str,
    sans: Vec<String>,
) -> Issued {
    let usage = CertificateUse {
        authority: Authority::Etcd,
        // At most 64 characters (RFC 5280).
        common_name: (common_name.len() <= 64).then(|| common_name.to_owned()),
        sans,
        client: true,
        ..CertificateUse::default()
    };
    Issued { slot: slot.to_owned(), key_slot: format!("{slot}-key"), usage, certificate, key }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_progress_interval_follows_the_version() {
        let experiment = ["3.4.13", "3.5.24"].map(progress);
        assert!(experiment.iter().all(|key| key.starts_with("experimental-")));
        assert!(["3.6.5", "4.0.0"].iter().all(|version| !progress(version).starts_with("experimental-")));
    }
}
