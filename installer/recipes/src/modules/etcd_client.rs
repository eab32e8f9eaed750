//! The API server's access to an etcd that is not kubeadm's: one of kubexm's, or the user's.
//!
//! All control planes have the same certificate: kubeadm copies the files of the first one to those that join.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::etcd::{CLIENT, CLIENT_CA, CLIENT_CERT, CLIENT_KEY, KEYSPACE};
use kubexm_plan::op::{Dir, EtcdEndpoints, EtcdServers, File};
use kubexm_plan::{Probe, SlotProvider, Step, Undo};
use kubexm_spec::cluster::{EXTERNAL_ETCD_KEY, EtcdKind, ExternalEtcd, MaterialFile};
use serde_json::{Value, json};

use crate::balancer;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::etcd::{self, Member};
use crate::modules::issued::Issued;

const SLOT: &str = "etcd-client-apiserver";
/// Slot of the key of the user's certificate.
const KEY_SLOT: &str = "external-etcd-key";
/// As kubeadm names it.
const COMMON_NAME: &str = "kube-apiserver-etcd-client";
/// kube-apiserver's own (`--etcd-prefix`).
const PREFIX: &str = "/registry";

/// The API server's certificate on a control plane; with it every member is asked from there. None where etcd is kubeadm's.
pub fn step(draft: &mut Draft<'_>, node: &PlannedHost<'_>, members: &[Member]) -> Result<Option<Step>, RecipeError> {
    let (files, urls, unnamed) = match (draft.cx.cluster.etcd.kind, &draft.cx.cluster.etcd.external) {
        (EtcdKind::Kubexm, _) => {
            let ca = etcd::ca(draft, CLIENT_CA);
            let pair = draft.issued(issued());
            ([ca].into_iter().chain(pair).collect(), etcd::urls(members), false)
        }
        (EtcdKind::External, Some(external)) => (of_the_user(draft, external)?, urls_of(external), true),
        (EtcdKind::External, None) | (EtcdKind::Kubeadm, _) => return Ok(None),
    };
    Ok(Some(give(node, files, urls, unnamed)))
}

/// How long an API server may take that is started anew, in seconds.
const RESTARTS_S: u64 = 360;

/// kubeadm's configuration of the cluster has these members of an etcd of kubexm's. `domain`: the host for which this is done.
pub fn known_to_kubeadm((first, domain): (&PlannedHost<'_>, &str), members: &[Member]) -> Step {
    let endpoints = members.iter().map(|member| member.client.clone()).collect();
    let title = "Write the members of etcd into kubeadm's configuration of the cluster";
    let step = Step::on(first.name(), "etcd.endpoints", title).domain(domain).ensure(EtcdEndpoints { endpoints });
    step.retries(3).undo(Undo::RestoreBefore).build()
}

/// The API server that runs on a control plane asks these members.
pub fn asked(cx: &PlanContext<'_>, (plane, domain): (&PlannedHost<'_>, &str), members: &[Member]) -> Step {
    let servers = members.iter().map(|member| member.client.clone()).collect();
    Step::on(plane.name(), "etcd.servers", "Let the API server ask the members of etcd")
        .domain(domain)
        .ensure(EtcdServers { servers, runtime: cx.cluster.runtime.kind })
        // Also where a run before has changed it, and did not see it answer.
        .probe(balancer::answers(), 90)
        .timeout_s(RESTARTS_S)
        .undo(Undo::RestoreBefore)
        .build()
}

/// The API servers' certificate for an etcd of kubexm's.
pub fn issued() -> Issued {
    etcd::signed(SLOT, (CLIENT_CERT, CLIENT_KEY), COMMON_NAME, Vec::new())
}

fn give(node: &PlannedHost<'_>, files: Vec<File>, members: BTreeMap<String, String>, unnamed: bool) -> Step {
    let probe = healthy(members, unnamed);
    Step::on(node.name(), "etcd.client", "Give the API server its certificate for etcd, and ask every member with it")
        .ensure(Dir { path: CLIENT.to_owned(), mode: 0o700 })
        .ensure_all(files)
        .probe(probe, 60)
        .undo(Undo::RestoreBefore)
        .build()
}

/// Every member of an etcd that is not kubeadm's is asked on a control plane; none where it is.
pub fn all_healthy(cx: &PlanContext<'_>) -> Result<Option<Probe>, RecipeError> {
    let cluster = cx.cluster;
    Ok(match (cluster.etcd.kind, &cluster.etcd.external) {
        (EtcdKind::Kubexm, _) => Some(healthy(etcd::urls(&etcd::members(cx)?), false)),
        (EtcdKind::External, Some(external)) => Some(healthy(urls_of(external), true)),
        (EtcdKind::External, None) | (EtcdKind::Kubeadm, _) => None,
    })
}

/// Endpoints of the user's are known by their URLs.
fn urls_of(external: &ExternalEtcd) -> BTreeMap<String, String> {
    external.endpoints.iter().map(|url| (url.clone(), url.clone())).collect()
}

/// Every member is asked with the API server's certificate.
pub fn healthy(members: BTreeMap<String, String>, unnamed: bool) -> Probe {
    Probe::EtcdMembersHealthy {
        members,
        unnamed,
        ca: CLIENT_CA.to_owned(),
        certificate: CLIENT_CERT.to_owned(),
        key: CLIENT_KEY.to_owned(),
    }
}

fn of_the_user(draft: &mut Draft<'_>, external: &ExternalEtcd) -> Result<Vec<File>, RecipeError> {
    let mut files = Vec::new();
    for (file, path) in [(&external.ca_file, CLIENT_CA), (&external.cert_file, CLIENT_CERT)] {
        let text = text(draft.cx, file.as_ref())?;
        files.push(draft.file(path, 0o644, text));
    }
    let key = SlotProvider::Secret { field: EXTERNAL_ETCD_KEY.to_owned() };
    files.push(draft.file(KEYSPACE, 0o644, keyspace(external)));
    files.push(draft.slot_file(CLIENT_KEY, 0o600, KEY_SLOT, key));
    Ok(files)
}

/// The text of [`KEYSPACE`].
fn keyspace(external: &ExternalEtcd) -> String {
    [&external.prefix].into_iter().chain(&external.endpoints).map(|line| format!("{line}\n")).collect()
}

/// Whether a control plane's API server has its objects there already: below the same prefix, in an etcd that has one of the
/// endpoints.
pub fn is_keyspace(found: &str, external: &ExternalEtcd) -> bool {
    let mut lines = found.lines();
    lines.next() == Some(external.prefix.as_str()) && lines.any(|line| external.endpoints.iter().any(|one| one == line))
}

/// Endpoints that cluster.yaml has, and that a control plane's API server was given.
pub fn named_in(found: &str, external: &ExternalEtcd) -> Vec<String> {
    let given: BTreeSet<&str> = found.lines().skip(1).collect();
    external.endpoints.iter().filter(|one| given.contains(one.as_str())).cloned().collect()
}

fn text<'a>(cx: &PlanContext<'a>, file: Option<&MaterialFile>) -> Result<&'a str, RecipeError> {
    let missing = || RecipeError::Unsupported {
        what: "an etcd of your own without certificates".to_owned(),
        hint: "give caFile, certFile and keyFrom in spec.etcd.externalConfig".to_owned(),
    };
    cx.material(file.ok_or_else(missing)?)
}

/// `etcd.external.endpoints` in a text of kubeadm's configuration; none where etcd is kubeadm's.
pub fn endpoints_in(kubeadm_config: &str) -> BTreeSet<String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(kubeadm_config).unwrap_or_default();
    let endpoints = documents.iter().filter_map(|document| document.pointer("/etcd/external/endpoints")?.as_array());
    endpoints.flatten().filter_map(|url| url.as_str().map(str::to_owned)).collect()
}

/// `etcd.external` of kubeadm's ClusterConfiguration; none if etcd is kubeadm's.
pub fn external(cx: &PlanContext<'_>) -> Result<Option<Value>, RecipeError> {
    let endpoints: Vec<String> = match &cx.cluster.etcd.external {
        Some(external) if cx.cluster.etcd.kind == EtcdKind::External => external.endpoints.clone(),
        _ => etcd::members(cx)?.into_iter().map(|member| member.client).collect(),
    };
    let external = json!({"endpoints": endpoints, "caFile": CLIENT_CA, "certFile": CLIENT_CERT, "keyFile": CLIENT_KEY});
    Ok((!endpoints.is_empty()).then_some(external))
}

/// The flag of the API server for keys that do not begin as usual.
pub fn prefix_flag(cx: &PlanContext<'_>) -> Option<(&'static str, String)> {
    let external = cx.cluster.etcd.external.as_ref()?;
    (external.prefix != PREFIX).then(|| ("etcd-prefix", external.prefix.clone()))
}
