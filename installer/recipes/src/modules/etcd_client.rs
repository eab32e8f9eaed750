//! The API server's access to an etcd that is not kubeadm's.
//!
//! All control planes have the same certificate: kubeadm copies the files of the first one to those that join.

use kubexm_plan::etcd::{CLIENT, CLIENT_CA, CLIENT_CERT, CLIENT_KEY};
use kubexm_plan::op::Dir;
use kubexm_plan::{Probe, Step, Undo};
use serde_json::{Value, json};

use crate::context::{Node, PlanCx};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::etcd::{self, Member};

const SLOT: &str = "etcd-client-apiserver";
/// As kubeadm names it.
const COMMON_NAME: &str = "kube-apiserver-etcd-client";

/// The API server's certificate on a control plane; with it every member is asked from there.
pub fn step(draft: &mut Draft<'_>, node: &Node<'_>, members: &[Member]) -> Step {
    let ca = etcd::ca(draft, CLIENT_CA);
    let pair = etcd::pair(draft, SLOT, (CLIENT_CERT, CLIENT_KEY), COMMON_NAME, Vec::new());
    let probe = Probe::EtcdHealthy {
        members: etcd::urls(members),
        ca: CLIENT_CA.to_owned(),
        certificate: CLIENT_CERT.to_owned(),
        key: CLIENT_KEY.to_owned(),
    };
    Step::on(node.name(), "etcd.client", "Give the API server its certificate for etcd, and ask every member with it")
        .ensure(Dir { path: CLIENT.to_owned(), mode: 0o700 })
        .ensure(ca)
        .ensure_all(pair)
        .probe(probe, 60)
        .undo(Undo::RestoreBefore)
        .build()
}

/// `etcd.external` of kubeadm's ClusterConfiguration; none if etcd is kubeadm's.
pub fn external(cx: &PlanCx<'_>) -> Result<Option<Value>, RecipeError> {
    let endpoints: Vec<String> = etcd::members(cx)?.into_iter().map(|member| member.client).collect();
    let external =
        json!({"endpoints": endpoints, "caFile": CLIENT_CA, "certFile": CLIENT_CERT, "keyFile": CLIENT_KEY});
    Ok((!endpoints.is_empty()).then_some(external))
}
