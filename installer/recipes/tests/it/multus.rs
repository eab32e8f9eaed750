//! Multus before a pod network: its manifest, its configuration on each node, and when a node gets it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::{Site, text};
use insta::{Settings, assert_snapshot};
use kubexm_plan::cluster_facts::AppliedCluster;
use kubexm_plan::op::{Manifests, Op};
use kubexm_plan::{ClusterFacts, Plan, Step, StepId, Undo, lint};
use kubexm_recipes::{RecipeError, add_node, sample};
use kubexm_spec::cluster::{Cluster, NetworkPlugin, RegistryKind};
use serde_json::Value;

const CONFIG: &str = "/etc/cni/net.d/00-multus-kubexm.conf";

fn cluster(plugin: NetworkPlugin) -> Cluster {
    let mut cluster = sample::fleet(1, 2);
    (cluster.network.plugin, cluster.network.multus) = (plugin, true);
    cluster
}

fn checked(site: &Site) -> Plan {
    let plan = site.create().unwrap_or_else(|error| panic!("{error}"));
    let (_, warnings) = lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(warnings, Vec::new());
    plan
}

fn step<'p>(plan: &'p Plan, id: &str) -> &'p Step {
    plan.step(&StepId(id.to_owned())).unwrap_or_else(|| panic!("{id}"))
}

fn manifests(plan: &Plan) -> &Manifests {
    match step(plan, "node1/network.multus").ops.as_slice() {
        [Op::Manifests(op)] => op,
        other => panic!("{other:?}"),
    }
}

/// A cluster that was created with this cluster.yaml, and whose last host has not joined.
fn running(cluster: &Cluster) -> (Site, ClusterFacts) {
    let mut site = Site::of(cluster.clone());
    let map: Value = serde_json::from_str(text(&site.create().unwrap(), "kubexm-cluster")).unwrap();
    site.join_all_but(&cluster.hosts.last().unwrap().name);
    let applied = Some(AppliedCluster::of_config_map(&map).unwrap());
    (site, ClusterFacts { applied, ..ClusterFacts::default() })
}

#[test]
fn the_plan_the_manifest_and_the_configuration() {
    let plan = checked(&Site::of(cluster(NetworkPlugin::Flannel)));
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("../golden/multus");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        assert_snapshot!("plan", plan.render());
        assert_snapshot!("manifest", &plan.texts[&manifests(&plan).blob]);
        assert_snapshot!("config", text(&plan, CONFIG));
    });
}

#[test]
fn it_is_before_each_network_and_its_image_is_on_every_node() {
    for (plugin, primary) in [
        (NetworkPlugin::Flannel, "/etc/cni/net.d/10-flannel.conflist"),
        (NetworkPlugin::Calico, "/etc/cni/net.d/10-calico.conflist"),
        (NetworkPlugin::Cilium, "/etc/cni/net.d/05-cilium.conflist"),
    ] {
        let plan = checked(&Site::of(cluster(plugin)));
        let config: Value = serde_json::from_str(text(&plan, CONFIG)).unwrap();
        assert_eq!(config["readinessindicatorfile"], primary);
        for host in ["node1", "node2", "node3"] {
            let links = |op: &Op| matches!(op, Op::Link(link) if link.target == primary);
            assert!(step(&plan, &format!("{host}/network.multus-config")).ops.iter().any(links), "{host}");
            let loads = |step: &&Step| step.host == host && step.title.contains("/multus-cni:");
            assert_eq!(plan.steps.iter().filter(loads).count(), 1, "{host} must start it while there is no registry");
        }
        assert!(matches!(step(&plan, "node1/network.multus").undo, Undo::WithParent { .. }));
    }
    let mut without = cluster(NetworkPlugin::Flannel);
    without.registry.kind = RegistryKind::None;
    let plan = checked(&Site::of(without));
    assert_eq!(plan.steps.iter().filter(|step| step.title.contains("/multus-cni:")).count(), 3);
}

#[test]
fn without_it_nothing_of_it_is_planned() {
    let plan = checked(&Site::of(sample::fleet(1, 2)));
    assert!(!plan.render().contains("multus"), "{}", plan.render());
}

#[test]
fn a_host_that_joins_has_it_before_its_first_pod_and_a_node_gets_it_when_it_runs() {
    let order = |plan: &Plan, host: &str| {
        let after = |step: &Step, id: &str| step.after.contains(&StepId(id.to_owned()));
        let config = format!("{host}/network.multus-config");
        let joins = step(plan, &format!("node1/join.await-{host}"));
        (after(joins, &config), after(step(plan, &config), "node1/network.multus-config"))
    };
    let mut site = Site::of(cluster(NetworkPlugin::Flannel));
    assert_eq!([order(&site.create().unwrap(), "node2"), order(&site.create().unwrap(), "node3")], [(true, false); 2]);
    site.join_all_but("node3");
    let plan = checked(&site);
    assert_eq!((order(&plan, "node2"), order(&plan, "node3")), ((false, true), (true, false)));
    assert_eq!(step(&plan, "node1/network.multus").undo, Undo::RestoreBefore);
    let ready = step(&plan, "node1/check.ready-node2");
    assert!(ready.after.contains(&StepId("node2/network.multus-config".to_owned())), "{ready:?}");
}

#[test]
fn a_cluster_without_it_gets_it_by_create_and_not_by_a_join() {
    let with = cluster(NetworkPlugin::Flannel);
    let mut plain = with.clone();
    plain.network.multus = false;
    let (_, made) = running(&plain);
    let (site, of_it) = running(&with);
    let add = |site: &Site, running: &ClusterFacts| add_node(&site.cx(), running, &["node3".to_owned()]);
    let refused = add(&site, &made).unwrap_err();
    assert!(matches!(refused, RecipeError::NetworkChanged { .. }), "{refused}");
    assert!(refused.to_string().contains("spec.network.multus is true, and the cluster has no multus"), "{refused}");
    let plan = add(&site, &of_it).unwrap();
    assert!(plan.steps.iter().any(|step| step.id.0 == "node3/network.multus-config"));
    assert!(!plan.steps.iter().any(|step| step.id.0.starts_with("node1/network.multus")), "others keep theirs");
}
