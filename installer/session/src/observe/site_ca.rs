//! Preflight of the site's own CA (`spec.kubernetes.ca`): whether it can sign for this cluster, before any host gets it.

use std::time::SystemTime;

use kubexm_engine::site_ca::unfit;
use kubexm_recipes::preflight::Severity;
use kubexm_recipes::{Finding, PlanContext, SignedCertificates};
use kubexm_spec::cluster::{CLUSTER_CA_KEY, Kubernetes, Validity};

use super::findings::SITE_CA as NAME;
use crate::bundle::opened::Opened;
use crate::run::secrets::read_secret;
use crate::session::Session;
use crate::site_certificates::{MEND, SERVICE_ACCOUNT, faults_of};

/// What is wrong with it; nothing without one, and nothing once the cluster runs: that it is the same one is another check. Where its key
/// stays with the site, what is wrong with what it has signed for hosts that are no nodes yet.
pub(super) fn findings(session: &Session<'_>, opened: &Opened, cx: &PlanContext<'_>) -> Vec<Finding> {
    let kubernetes = cx.cluster.kubernetes.as_ref();
    let Some((kubernetes, ca)) = kubernetes.and_then(|kubernetes| Some((kubernetes, kubernetes.ca.as_ref()?))) else {
        return Vec::new();
    };
    let mut found: Vec<Finding> = opened.signed().map(|signed| of_signed(signed, cx)).unwrap_or_default();
    let planes = &cx.cluster.role_groups.control_plane;
    if planes.iter().filter_map(|name| cx.facts.get(name)).any(|facts| facts.joined) {
        return found;
    }
    let certificate = match cx.material(&ca.cert_file) {
        Ok(certificate) => certificate,
        Err(error) => return vec![failed(error.to_string(), "build the bundle from this cluster.yaml")],
    };
    let key = match ca.signs_elsewhere() {
        true => None,
        false => match read_secret(session, cx.cluster, CLUSTER_CA_KEY) {
            Ok(key) => Some(key),
            Err(reason) => {
                return vec![failed(reason, "correct spec.kubernetes.ca.keyFrom, or its source on this machine")];
            }
        },
    };
    let all = unfit(certificate, key.as_ref().map(|key| key.as_str()), SystemTime::now(), period(kubernetes));
    found.extend(all.into_iter().map(|why| failed(format!("spec.kubernetes.ca: {why}"), FIX)));
    found
}

/// Each certificate of a new host that is missing or cannot be used.
fn of_signed(found: &SignedCertificates, cx: &PlanContext<'_>) -> Vec<Finding> {
    let joined = |host: &str| cx.facts.get(host).is_some_and(|facts| facts.joined);
    let mut all = Vec::new();
    let new = cx.cluster.hosts.iter().filter(|host| cx.cluster.roles(&host.name).in_cluster() && !joined(&host.name));
    for host in new {
        let faults = faults_of(found, cx.cluster, &host.name);
        all.extend(faults.into_iter().map(|fault| Finding { host: Some(host.name.clone()), ..failed_to_sign(fault) }));
    }
    let first = cx.cluster.first_control_plane().is_some_and(|first| !joined(&first.name));
    if first && found.service_account.is_none() {
        let why = found.faults.get(SERVICE_ACCOUNT).map(|faults| faults.join("; "));
        all.push(failed_to_sign(
            why.unwrap_or_else(|| "this home has made no requests for this cluster yet".to_owned()),
        ));
    }
    all
}

fn failed_to_sign(found: String) -> Finding {
    Finding {
        needed: "certificates that your site's CA has signed for this cluster's requests".to_owned(),
        ..failed(found, MEND)
    }
}

const FIX: &str = "ask your site for a CA that signs for this cluster alone, or give certificateValidityPeriod if it ends too soon; \
                   without spec.kubernetes.ca kubeadm makes one";

fn period(kubernetes: &Kubernetes) -> Validity {
    kubernetes.certificate_validity.unwrap_or(Validity::OF_CERTIFICATES)
}

fn failed(found: String, fix: &str) -> Finding {
    Finding {
        severity: Severity::Fail,
        check: NAME.to_owned(),
        host: None,
        found,
        needed: "a CA whose certificates every component accepts, and its key".to_owned(),
        fix: fix.to_owned(),
        detail: None,
    }
}
