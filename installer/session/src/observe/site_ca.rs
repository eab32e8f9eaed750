//! Preflight of the site's own CA (`spec.kubernetes.ca`): whether it can sign for this cluster, before any host gets it.

use std::time::SystemTime;

use kubexm_engine::site_ca::unfit;
use kubexm_recipes::preflight::Severity;
use kubexm_recipes::{Finding, PlanContext};
use kubexm_spec::cluster::{CLUSTER_CA_KEY, Kubernetes, Validity};

use super::findings::SITE_CA as NAME;
use crate::run::secrets::read_secret;
use crate::session::Session;

/// What is wrong with it; nothing without one, and nothing once the cluster runs: that it is the same one is another check.
pub(super) fn findings(session: &Session<'_>, cx: &PlanContext<'_>) -> Vec<Finding> {
    let kubernetes = cx.cluster.kubernetes.as_ref();
    let Some((kubernetes, ca)) = kubernetes.and_then(|kubernetes| Some((kubernetes, kubernetes.ca.as_ref()?))) else {
        return Vec::new();
    };
    let planes = &cx.cluster.role_groups.control_plane;
    if planes.iter().filter_map(|name| cx.facts.get(name)).any(|facts| facts.joined) {
        return Vec::new();
    }
    let certificate = match cx.material(&ca.cert_file) {
        Ok(certificate) => certificate,
        Err(error) => return vec![failed(error.to_string(), "build the bundle from this cluster.yaml")],
    };
    let key = match read_secret(session, cx.cluster, CLUSTER_CA_KEY) {
        Ok(key) => key,
        Err(reason) => {
            return vec![failed(reason, "correct spec.kubernetes.ca.keyFrom, or its source on this machine")];
        }
    };
    let all = unfit(certificate, Some(&key), SystemTime::now(), period(kubernetes));
    all.into_iter().map(|why| failed(format!("spec.kubernetes.ca: {why}"), FIX)).collect()
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
