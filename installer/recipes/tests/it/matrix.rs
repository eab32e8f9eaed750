//! Of all that recipes build, the plans of every pipeline name nothing that the cluster does not require: each blob they
//! deliver, each image they load and each program they unpack is of the bundle that `require` describes. (A reset knows no bundle.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::collections::BTreeSet;

use crate::common::Site;
use kubexm_manifests::Catalogue;
use kubexm_plan::Plan;
use kubexm_recipes::context::INSTALLABLE;
use kubexm_recipes::{RecipeError, sample};
use kubexm_spec::cluster::{Cluster, LoadBalancerMode, Registry, RegistryKind};
use kubexm_spec::{Digest, ExitCode};
use serde_json::Value;

const REGISTRIES: [RegistryKind; 3] = [RegistryKind::Embedded, RegistryKind::Registry, RegistryKind::None];

/// Every way to put the parts together that recipes know, on one host, on two and on four.
fn clusters() -> Vec<(String, Cluster)> {
    let mut all = Vec::new();
    let balancers = [LoadBalancerMode::None, LoadBalancerMode::at("10.77.0.100".parse().unwrap(), 6443)];
    for minor in INSTALLABLE {
        for containerd in [None, Some("1.7.34")].into_iter().filter(|asked| asked.is_none() || minor != "1.36") {
            for registry in REGISTRIES {
                for balancer in &balancers {
                    for (control_planes, workers) in [(1, 0), (1, 1), (3, 1)] {
                        let mut cluster = sample::fleet(control_planes, workers);
                        cluster.kubernetes.as_mut().unwrap().version = Some(format!("v{minor}"));
                        cluster.runtime.version = containerd.map(str::to_owned);
                        cluster.registry = Registry::of(registry);
                        cluster.load_balancer.mode = balancer.clone();
                        let name = format!("{minor} {containerd:?} {registry} {balancer:?} {control_planes}+{workers}");
                        all.push((name, cluster));
                    }
                }
            }
        }
    }
    all
}

/// Everything in a plan that can be a digest of the bundle's.
fn named(plan: &Plan) -> BTreeSet<Digest> {
    fn walk(value: &Value, found: &mut BTreeSet<Digest>) {
        match value {
            Value::String(text) => found.extend(text.parse::<Digest>()),
            Value::Array(all) => all.iter().for_each(|value| walk(value, found)),
            Value::Object(all) => {
                found.extend(all.keys().filter_map(|key| key.parse::<Digest>().ok()));
                all.values().for_each(|value| walk(value, found));
            }
            _ => (),
        }
    }
    let mut found = BTreeSet::new();
    walk(&serde_json::to_value(&plan.steps).unwrap(), &mut found);
    found
}

fn inside(what: &str, site: &Site, plan: &Plan) {
    let mut known: BTreeSet<Digest> = plan.texts.keys().copied().collect();
    for artifact in &site.manifest.artifacts {
        known.insert(artifact.digest);
        known.extend(artifact.manifest);
        known.extend(artifact.blobs.iter().map(|blob| blob.digest));
    }
    let named = named(plan);
    assert!(!named.is_empty(), "{what}: a plan that names nothing");
    let outside: Vec<_> = named.difference(&known).collect();
    assert!(outside.is_empty(), "{what}: {outside:?} is in no bundle of this cluster");
}

#[test]
fn plans_name_nothing_that_the_cluster_does_not_require() {
    let all = clusters();
    assert!(all.len() > 100, "{}", all.len());
    for (name, mut cluster) in all {
        cluster.bundle.os = vec!["debian-12".to_owned()];
        let mut site = Site::of(cluster);
        for facts in site.facts.values_mut() {
            facts.programs.insert("socat".to_owned(), None);
        }
        let create = site.create().unwrap_or_else(|error| panic!("{name}: {error}"));
        inside(&format!("create {name}"), &site, &create);
        let Some(last) = site.cluster.hosts.last().filter(|_| site.cluster.hosts.len() > 1).map(|h| h.name.clone())
        else {
            continue;
        };
        site.join_all_but(&last);
        let join = kubexm_recipes::add_node(&site.cx(), &kubexm_plan::ClusterFacts::default(), &[last])
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        inside(&format!("join {name}"), &site, &join);
    }
}

#[test]
fn a_minor_that_no_recipe_was_made_for_is_refused_before_a_host_is_touched_and_the_others_are_named() {
    let catalogue = Catalogue::embedded();
    let installable: Vec<&str> = catalogue
        .releases
        .values()
        .filter(|release| release.installable)
        .map(|release| release.minor.as_str())
        .collect();
    assert_eq!(installable, INSTALLABLE, "the catalogue and the recipes disagree");
    let mut site = Site::of(sample::cluster());
    // As an overlay adds one.
    let mut release = site.catalogue.releases.pop_first().unwrap().1;
    (release.minor, release.installable) = ("1.99".to_owned(), false);
    site.catalogue.releases.insert("1.99".to_owned(), release);
    for artifact in &mut site.manifest.artifacts {
        if artifact.key.to_string() == "binary/kubeadm" {
            artifact.version = "1.99.0".to_owned();
        }
    }
    let refused = kubexm_recipes::config::check(&site.cx());
    let error = refused.first().unwrap_or_else(|| panic!("it is taken"));
    assert!(matches!(error, RecipeError::Unsupported { .. }), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Unsupported);
    assert!(error.to_string().contains("1.24, 1.25, 1.26") && error.to_string().contains("1.35, 1.36"), "{error}");
    assert!(site.create().is_err(), "it is planned");
}
