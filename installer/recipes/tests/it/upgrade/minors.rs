//! From each minor version to the next one.

use kubexm_manifests::Catalogue;
use kubexm_plan::cluster_facts::Component;
use kubexm_recipes::context::INSTALLABLE;
use kubexm_recipes::preflight::Severity;
use kubexm_recipes::preflight_before_upgrade;
use kubexm_spec::Digest;
use kubexm_spec::cluster::NetworkPlugin;
use serde_json::json;

use super::*;

/// The newest patch that the catalogue has, and the etcd of its clusters, both as their images are tagged.
fn newest(minor: &str) -> (String, String) {
    let catalogue = Catalogue::embedded();
    let release = catalogue.release(minor).expect("a release");
    let patch = catalogue.newest_patch(minor).expect("a patch").to_owned();
    let number = patch.rsplit('.').next().expect("a number").parse().expect("a number");
    let constants = release.constants(number).expect("constants");
    (format!("v{patch}"), release.etcd(constants).to_owned())
}

/// A cluster of one minor that was made with `cluster`, and a bundle of another one.
fn between(cluster: &Cluster, from: (&str, &str), to: &str) -> Case {
    let mut old = cluster.clone();
    old.kubernetes.as_mut().expect("Kubernetes").version = Some(from.0.to_owned());
    let made = text(&Site::of(old).create().expect("a plan"), "/etc/kubexm/kubeadm.yaml").to_owned();
    let mut case = Case::with(cluster.clone(), to);
    let facts = case.site.facts.get_mut("node1").expect("a host");
    (facts.kubeadm_config, facts.kubeadm_config_text) = (Some(Digest::of(&made)), Some(made));
    case.running.server_version = Some(from.0.to_owned());
    case.running.nodes.iter_mut().for_each(|node| from.0.clone_into(&mut node.kubelet));
    let etcd = from.1.split('-').next().expect("a version");
    case.running.etcd.iter_mut().for_each(|member| member.version = Some(etcd.to_owned()));
    for Component { name, image, .. } in &mut case.running.components {
        let tag = if name == "etcd" { from.1 } else { from.0 };
        *image = format!("registry.k8s.io/{name}:{tag}");
    }
    case
}

fn acts(plan: &Plan) -> Vec<&KubeadmUpgrade> {
    let acts = plan.steps.iter().flat_map(|step| &step.ops).filter_map(|op| match op {
        Op::Act(Act::KubeadmUpgrade(act)) => Some(act),
        _ => None,
    });
    acts.collect()
}

#[test]
fn every_minor_is_upgraded_to_the_next_one_and_nothing_of_its_own_is_taken_for_a_change_of_cluster_yaml() {
    let plain = sample::fleet(2, 1);
    let mut without_proxy = plain.clone();
    without_proxy.network.plugin = NetworkPlugin::Cilium;
    without_proxy.network.options.insert("kubeProxyReplacement".to_owned(), json!(true));
    for (cluster, skips) in [(plain, false), (without_proxy, true)] {
        for pair in INSTALLABLE.windows(2) {
            let (from, to) = (newest(pair[0]), newest(pair[1]));
            let case = between(&cluster, (&from.0, &from.1), &to.0);
            let plan = case.steps();
            let found = preflight_before_upgrade(&case.site.cx());
            let failed: Vec<_> = found.iter().filter(|one| one.severity == Severity::Fail).collect();
            assert!(failed.is_empty(), "{} to {}: {failed:#?}", from.0, to.0);
            assert!(
                !found.iter().any(|one| one.found.contains("other settings")),
                "{} to {}: {found:#?}",
                from.0,
                to.0
            );
            let acts = acts(&plan);
            assert_eq!(acts.len(), 3, "{} to {}", from.0, to.0);
            // Until 1.31 `kubeadm upgrade` has no such phase.
            let has_phase = INSTALLABLE.iter().skip_while(|minor| **minor != "1.32").any(|minor| *minor == pair[1]);
            for act in acts {
                assert_eq!(act.version, to.0);
                assert_eq!(!act.skip_phases.is_empty(), skips && has_phase, "{} to {}", from.0, to.0);
                let etcd = act.images.get("etcd").map(|image| image.ends_with(&format!(":{}", to.1)));
                assert_ne!(etcd, Some(false), "{:?}", act.images);
            }
        }
    }
}

/// Up to 1.24.8 images are of k8s.gcr.io, where kubeadm looks for CoreDNS in a folder of its own.
#[test]
fn a_cluster_with_images_of_the_earlier_registry_gets_those_of_todays() {
    let old = ("v1.24.8", "3.5.5-0");
    let case = between(&sample::fleet(1, 1), old, "v1.24.17");
    let config = case.site.facts["node1"].kubeadm_config_text.clone().expect("a config");
    assert!(config.contains("imageRepository: k8s.gcr.io\n"), "{config}");
    let plan = case.steps();
    assert!(text(&plan, "/etc/kubexm/kubeadm-upgrade.yaml").contains("imageRepository: registry.k8s.io\n"));
    let found = preflight_before_upgrade(&case.site.cx());
    assert!(found.iter().all(|one| one.severity != Severity::Fail), "{found:#?}");
}
