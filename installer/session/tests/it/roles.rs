//! Hosts that are no nodes: preflight looks at them too.

use std::sync::atomic::Ordering;

use kubexm_session::{Access, BundleOptions, HostOptions, TrustOptions, Unreachable};
use kubexm_spec::{ExitCode, ExitError as _};

use crate::bundle::write_bundle;
use crate::sessions::Site;

const HOSTS: [&str; 4] = ["n1", "etcd1", "lb1", "lb2"];

fn site(more: &str) -> Site {
    let host = |host: &&str| {
        let address = kubexm_engine::sim::facts(host).interfaces[0].addresses[0].replace("/24", "");
        format!("  - {{name: {host}, address: {address}, user: root, privateKeyPath: /nowhere/key}}\n")
    };
    let yaml = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: roles}}\nspec:\n  hosts:\n{}  \
         roleGroups: {{master: [n1], worker: [n1], etcd: [etcd1], loadbalancer: [lb1, lb2]}}\n  \
         kubernetes: {{version: v1.34.4}}\n  network: {{plugin: flannel}}\n  etcd: {{type: kubexm}}\n  \
         loadBalancer: {{mode: external, external: {{type: kubexm-kn}}, vip: 10.77.0.250}}\n{more}",
        HOSTS.iter().map(host).collect::<String>(),
    );
    Site::of("roles", &HOSTS, &yaml, write_bundle)
}

#[tokio::test]
async fn hosts_of_etcd_and_of_the_load_balancer_are_checked() {
    let site = site("");
    let session = site.session();
    let options = BundleOptions { bundle: vec![site.bundle.clone()], ..BundleOptions::default() };
    let (hosts, trust) = (HostOptions::default(), TrustOptions::default());
    let opened = session.open(&options).unwrap();
    opened.check_closed_world().unwrap();
    let access = Access::obtain(&session, opened.cluster(), &trust, &hosts).unwrap();
    let observed = session.observe("preflight", opened, &access, &hosts, Unreachable::Refused("")).await.unwrap();
    let survey = observed.leave().await.unwrap();
    assert_eq!(site.hosts.agents.connected.load(Ordering::Relaxed), HOSTS.len());
    let document = survey.findings().document();
    assert_eq!(document["hosts"], serde_json::json!(HOSTS));
    let dials = document["mesh"].as_array().unwrap();
    let dialed = |from: &str, to: &str| dials.iter().any(|dial| dial["from"] == from && dial["to"] == to);
    assert!(dialed("n1", "etcd1") && dialed("lb1", "n1") && dialed("n1", "lb2"), "{document:#}");
}

#[tokio::test]
async fn settings_that_no_recipe_supports_are_refused_before_a_host_is_asked() {
    let site = site("  system: {rpms: [nfs-utils]}\n");
    let options = BundleOptions { bundle: vec![site.bundle.clone()], ..BundleOptions::default() };
    let opened = site.session().open(&options).unwrap();
    let refused = opened.check_closed_world().unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::Unsupported);
    assert!(refused.to_string().contains("spec.system.rpms"), "{refused}");

    let refused = site.create().await.unwrap_err();
    assert_eq!(refused.exit_code(), ExitCode::Unsupported);
    assert_eq!(site.hosts.agents.connected.load(Ordering::Relaxed), 0, "create connects to nobody");
}
