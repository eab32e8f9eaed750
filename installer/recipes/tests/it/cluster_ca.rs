//! The site's own CA of the cluster, and how long certificates are valid.

use kubexm_plan::StepId;
use kubexm_recipes::preflight;
use kubexm_recipes::preflight::Severity;
use kubexm_spec::Digest;
use kubexm_spec::cluster::{Cluster, one_certificate};

use crate::common::{Site, text};

fn cluster(kubernetes: &str) -> Cluster {
    let yaml = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  hosts:\n  - {{name: node1, address: \
         10.77.0.11}}\n  - {{name: node2, address: 10.77.0.12}}\n  roleGroups: {{master: [node1, node2]}}\n  kubernetes: {{version: \
         v1.34.4, {kubernetes}}}\n"
    );
    kubexm_spec::cluster::parse(&yaml).unwrap()
}

fn of_the_site() -> Site {
    Site::of(cluster("ca: {certFile: site/ca.crt, keyFrom: {env: KEY}}, certificateValidityPeriod: 200d"))
}

fn failures(site: &Site) -> Vec<String> {
    let all = preflight(&site.cx()).into_iter().filter(|finding| finding.severity == Severity::Fail);
    all.map(|finding| format!("{}: {}", finding.host.unwrap_or_default(), finding.found)).collect()
}

#[test]
fn the_first_control_plane_gets_it_before_kubeadm_looks_for_one_and_kubeadm_hands_it_on() {
    let site = of_the_site();
    let plan = site.checked();
    let with: Vec<&str> = plan
        .steps
        .iter()
        .filter(|step| step.id.0.ends_with("/control-plane.ca"))
        .map(|step| step.host.as_str())
        .collect();
    assert_eq!(with, ["node1"]);
    let init = plan.step(&StepId("node1/control-plane.init".to_owned())).unwrap();
    assert!(init.after.iter().any(|id| id.0 == "node1/control-plane.ca"), "{:?}", init.after);
    let found = text(&plan, "/etc/kubernetes/pki/ca.crt");
    assert_eq!(found, one_certificate(&site.materials["site/ca.crt"]).unwrap());
    let kubeadm = text(&plan, "/etc/kubexm/kubeadm.yaml");
    assert!(kubeadm.contains("certificateValidityPeriod: 4800h0m0s\n"), "{kubeadm}");
    assert!(!kubeadm.contains("caCertificateValidityPeriod"), "{kubeadm}");
}

#[test]
fn a_running_control_plane_gets_no_ca_and_must_have_this_one() {
    let mut site = of_the_site();
    site.join_all_but("");
    let ca = Digest::of(one_certificate(&site.materials["site/ca.crt"]).unwrap());
    for facts in site.facts.values_mut() {
        facts.cluster_ca = Some(ca);
    }
    let plan = site.checked();
    assert!(!plan.steps.iter().any(|step| step.id.0.ends_with("/control-plane.ca")));
    let of_ca = |site: &Site| failures(site).into_iter().filter(|one| one.contains("whose CA")).collect::<Vec<_>>();
    assert_eq!(of_ca(&site), Vec::<String>::new());
    for facts in site.facts.values_mut() {
        facts.cluster_ca = Some(Digest::of("kubeadm's own"));
    }
    let found = of_ca(&site);
    assert!(
        matches!(found.as_slice(), [one, _] if one.starts_with("node1: ") && one.contains("certFile")),
        "{found:?}"
    );
}
