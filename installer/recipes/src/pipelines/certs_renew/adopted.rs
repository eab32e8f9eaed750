//! A cluster that was adopted: what kubeadm has made there is renewed as everywhere, and what others have made is left alone.

use kubexm_plan::kubeadm_certificates::PKI;
use kubexm_plan::{Facts, runtime};
use kubexm_spec::cluster::RuntimeKind;

use super::context::RenewContext;
use crate::adoption;
use crate::error::RecipeError;

const BY_HAND: &str = "run `kubeadm certs renew all` on one control plane after the other, and restart its etcd, kube-apiserver, \
                       kube-controller-manager and kube-scheduler";

/// Whether it was adopted, by what its control planes say: others have no part in it.
pub(super) fn is_adopted(cx: &RenewContext<'_>) -> bool {
    planes(cx).filter_map(|name| cx.facts.get(name)?.stamp.as_ref()).any(|stamp| stamp.adopted)
}

/// Refuses what kubexm-install cannot renew: it would leave control planes whose pods have not read their new certificates.
///
/// # Errors
/// Another runtime than containerd, or certificates in another folder than kubeadm's own.
pub(super) fn refuse(cx: &RenewContext<'_>) -> Result<(), RecipeError> {
    let kind = cx.cluster.runtime.kind;
    let mut problems = Vec::new();
    if kind != RuntimeKind::Containerd {
        problems.push(format!(
            "the container runtime is {kind}, and pods of an adopted cluster are restarted with containerd only"
        ));
    }
    let wanted = runtime::of(kind).endpoint;
    for plane in planes(cx) {
        let Some(kubelet) = cx.running.kubelets.iter().find(|one| one.host == *plane) else { continue };
        if let Some(found) = kubelet.certificates.as_ref().filter(|found| *found != PKI) {
            problems.push(format!("{plane}: the certificates are in {found}, and are renewed in {PKI} only"));
        }
        // kubeadm finds runtimes below /var/run, which is a link to /run.
        let endpoint = kubelet.runtime.as_ref().map(|found| found.replacen("unix:///var/run/", "unix:///run/", 1));
        if let Some(found) = endpoint.filter(|found| found != wanted) {
            problems.push(format!(
                "{plane}: kubelet's runtime is at {found}, and containers are looked for at {wanted} only"
            ));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(RecipeError::RenewedByHand { cluster: cx.cluster.name.clone(), problems, by_hand: BY_HAND }),
    }
}

/// What to do about the kubelet of a control plane that cannot renew its certificate any more: `kubeadm kubeconfig user` signs another
/// one only with a configuration of kubeadm's, which kubexm has only on hosts that it has made.
pub(super) const LATE_KUBELET: &str = "kubelet has not renewed its certificate, which has ended or ends within 7 days, and kubexm-install \
                                       gives no other one to kubelets of adopted clusters: mend it by hand, as kubeadm's documentation says \
                                       (Troubleshooting kubeadm: \"Kubelet client certificate rotation fails\")";

/// Static pods that others have put beside kubeadm's.
pub(super) fn left_running(cx: &RenewContext<'_>) -> Option<String> {
    let facts = planes(cx).filter_map(|name| cx.facts.get(name));
    let of_host = |facts: &Facts| adoption::foreign_pods(facts).map(|pod| format!("{pod} on {}", facts.host)).collect();
    let pods: Vec<Vec<String>> = facts.map(of_host).collect();
    let pods = pods.concat();
    (!pods.is_empty()).then(|| {
        format!(
            "static pods that are not kubeadm's are not restarted: {}; one that reads admin.conf or super-admin.conf (kube-vip does) keeps \
             the earlier certificate until you restart it, which must be before that one ends",
            pods.join(", ")
        )
    })
}

fn planes<'a>(cx: &'a RenewContext<'_>) -> impl Iterator<Item = &'a String> {
    cx.cluster.role_groups.control_plane.iter()
}
