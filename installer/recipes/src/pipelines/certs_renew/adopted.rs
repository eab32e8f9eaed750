//! A cluster that was adopted: what kubeadm has made there is renewed as everywhere, and what others have made is left alone.

use kubexm_plan::kubeadm_certificates::{ADMIN_CONF, PKI, SUPER_ADMIN_CONF};
use kubexm_plan::runtime;
use kubexm_spec::one_line;

use super::context::RenewContext;
use super::due::Plane;
use crate::adoption;
use crate::error::RecipeError;

const BY_HAND: &str = "run `kubeadm certs renew all` on one control plane after the other, and restart its etcd, kube-apiserver, \
                       kube-controller-manager and kube-scheduler";

/// Refuses what kubexm-install cannot renew: it would leave control planes whose pods have not read their new certificates.
///
/// # Errors
/// A runtime whose programs are not looked for there, another endpoint of it, or certificates in another folder than kubeadm's own.
pub(super) fn refuse(cx: &RenewContext<'_>) -> Result<(), RecipeError> {
    let kind = cx.cluster.runtime.kind;
    let mut problems = Vec::new();
    let possible = runtime::RESTARTED_AS_FOUND.map(|traits| traits.kind);
    if !possible.contains(&kind) {
        let possible = possible.map(|kind| kind.to_string()).join(", ");
        problems.push(format!(
            "the container runtime is {kind}, and pods of an adopted cluster are restarted with {possible} only"
        ));
    }
    problems.extend(adoption::other_etcd(cx.cluster, cx.running).iter().map(|line| one_line(line)));
    let wanted = runtime::of(kind).endpoint;
    for plane in planes(cx) {
        let Some(kubelet) = cx.running.kubelets.iter().find(|one| one.host == *plane) else { continue };
        if let Some(found) = kubelet.certificates.as_ref().filter(|found| *found != PKI) {
            let found = one_line(found);
            problems.push(format!("{plane}: the certificates are in {found}, and are renewed in {PKI} only"));
        }
        // kubeadm finds runtimes below /var/run, which is a link to /run.
        let endpoint = kubelet.runtime.as_ref().map(|found| found.replacen("unix:///var/run/", "unix:///run/", 1));
        if let Some(found) = endpoint.filter(|found| found != wanted) {
            let found = one_line(&found);
            problems.push(format!(
                "{plane}: kubelet's runtime is at {found}, and containers are looked for at {wanted} only"
            ));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(RecipeError::ByHand {
            cluster: cx.cluster.name.clone(),
            what: "renew its certificates",
            problems,
            by_hand: BY_HAND,
        }),
    }
}

/// Static pods that others have put beside kubeadm's, where what they may read is renewed.
pub(super) fn left_running(cx: &RenewContext<'_>, planes: &[Plane<'_>]) -> Option<String> {
    let is_read =
        |plane: &&Plane<'_>| plane.due.iter().any(|one| one.path == ADMIN_CONF || one.path == SUPER_ADMIN_CONF);
    adoption::left_running(planes.iter().filter(is_read).filter_map(|plane| cx.facts.get(plane.name)))
}

fn planes<'a>(cx: &'a RenewContext<'_>) -> impl Iterator<Item = &'a String> {
    cx.cluster.role_groups.control_plane.iter()
}
