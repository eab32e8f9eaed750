//! Packages that nodes have in an older version than the bundle come in the node's turn, last, while no pods run there.

use kubexm_manifests::{Catalogue, require};
use kubexm_packages::model::{Comparison, Constraint, Deferred, Relations, Requirement};
use kubexm_plan::op::{NodeDrain, PACKAGES, Packages};
use kubexm_spec::PackageRole;
use kubexm_spec::cluster::OsPackages;

use super::*;
use crate::common::install;

/// A cluster of Debian whose Kubernetes is the bundle's, with a package that is older than the bundle's on these nodes.
fn older_packages(target: &str, older: &[&str]) -> Case {
    let mut cluster = sample::fleet(1, 2);
    cluster.bundle.os = vec!["debian-12".to_owned()];
    let mut case = Case::with(cluster, target);
    for name in older {
        install(case.site.facts.get_mut(*name).expect("a host"), "socat=0.9-1");
    }
    case.options.os_packages = true;
    case
}

fn upgraded<'p>(plan: &'p Plan, host: &str) -> Option<&'p Packages> {
    let step = plan.steps.iter().find(|step| step.id.0 == format!("{host}/packages.newer"))?;
    step.ops.iter().find_map(|op| if let Op::Packages(packages) = op { Some(packages) } else { None })
}

#[test]
fn an_older_package_is_upgraded_in_a_drained_node_after_all_that_can_be_rolled_back() {
    let plan = older_packages(PATCH, &["node1", "node2"]).steps();
    assert_eq!(upgraded(&plan, "node2").expect("an upgrade").upgrades().collect::<Vec<_>>(), ["socat"]);
    for (one, other) in [
        ("node2/packages.repository", "node1/upgrade.apply"),
        ("node1/upgrade.drain-node1", "node1/upgrade.kubelet"),
        ("node1/upgrade.etcd", "node1/packages.newer"),
        ("node1/packages.newer", "node1/packages.static-pods"),
        ("node1/packages.etcd", "node1/upgrade.uncordon-node1"),
        ("node1/upgrade.drain-node2", "node2/upgrade.kubelet"),
        ("node1/upgrade.ready-node2", "node2/packages.newer"),
        ("node2/packages.newer", "node1/packages.ready-node2"),
        ("node1/packages.ready-node2", "node1/upgrade.packages-node2"),
        ("node1/upgrade.packages-node2", "node1/upgrade.uncordon-node2"),
    ] {
        assert!(before(&plan, one, other), "{one} is not before {other}");
    }
    let undo = &plan.steps.iter().find(|step| step.id.0 == "node2/packages.newer").expect("a step").undo;
    let Undo::Irreversible { why } = undo else { panic!("{undo}") };
    assert!(why.starts_with("socat 0.9-1 is upgraded to 1.0-1"), "{why}");
    // The third has the bundle's already: a patch of Kubernetes alone drains nothing.
    assert!(upgraded(&plan, "node3").is_none() && !has(&plan, "node1/upgrade.drain-node3"));
}

#[test]
fn without_the_option_nothing_is_upgraded_and_with_it_packages_alone_are_a_turn() {
    let mut case = older_packages(OLD, &["node2"]);
    let plan = case.steps();
    assert!(upgraded(&plan, "node2").is_some());
    assert!(has(&plan, "node1/upgrade.drain-node2") && !has(&plan, "node1/upgrade.drain-node3"));
    assert!(!has(&plan, "node1/upgrade.apply") && !has(&plan, "node1/upgrade.snapshot"));
    case.options.os_packages = false;
    let plan = case.steps();
    assert!(upgraded(&plan, "node2").is_none() && !has(&plan, "node1/upgrade.drain-node2"));
}

/// Its kubelet has the version from the beginning: that alone does not say that the node was drained for its packages.
#[test]
fn a_node_is_drained_until_it_says_that_it_has_the_packages() {
    let plan = older_packages(OLD, &["node2"]).steps();
    let of = |id: &str| &plan.steps.iter().find(|step| step.id.0 == id).expect("a step").ops;
    let drain = of("node1/upgrade.drain-node2").iter().find_map(|op| match op {
        Op::Act(Act::NodeDrain(drain)) => Some(drain),
        _ => None,
    });
    let drain: &NodeDrain = drain.expect("a drain");
    let mark = of("node1/upgrade.packages-node2").iter().find_map(|op| match op {
        Op::NodeAnnotation(mark) if mark.key == PACKAGES => Some(mark.value.as_str()),
        _ => None,
    });
    assert_eq!(drain.unless_packages.as_deref(), Some(mark.expect("a mark")));
    let unless = drain.drained_for();
    assert!(!unless.is_there(OLD, None) && !unless.is_there(OLD, Some("other")) && !unless.is_there(MINOR, mark));
    assert!(unless.is_there(OLD, mark));
}

/// A worker that fails behind its packages stays cordoned, and the next one gets its turn all the same.
#[test]
fn pods_come_back_to_a_node_only_where_its_packages_have_come() {
    let plan = older_packages(PATCH, &["node2"]).steps();
    let step = |id: &str| plan.steps.iter().find(|step| step.id.0 == id).unwrap_or_else(|| panic!("no {id}"));
    let uncordon = step("node1/upgrade.uncordon-node2");
    assert_eq!(uncordon.domain(), "node2");
    assert!(uncordon.after_end.is_empty(), "{:?}", uncordon.after_end);
    assert!(before(&plan, "node1/upgrade.packages-node2", "node1/upgrade.uncordon-node2"));
    let next = plan.steps.iter().find(|step| step.host == "node3" && step.after_end.contains(&uncordon.id));
    assert!(next.is_some(), "node3 does not wait for the end of node2");
}

/// The same command is what an operator types after a package's script has failed.
#[test]
fn what_an_interrupted_upgrade_has_left_half_there_comes_whole() {
    for (version, upgrade) in [("0.9-1", true), ("1.0-1", false)] {
        let mut case = older_packages(OLD, &[]);
        let installed = case.site.facts.get_mut("node2").expect("a host").packages.as_mut().expect("a list");
        installed.list.push_str(&format!(
            "Package: socat\nStatus: install ok half-configured\nVersion: {version}\nArchitecture: amd64\n\n"
        ));
        let plan = case.steps();
        let packages = upgraded(&plan, "node2").expect("it comes");
        assert_eq!(packages.packages["socat"].upgrade, upgrade, "{version}");
        assert!(has(&plan, "node1/upgrade.drain-node2"), "{version}");
    }
}

/// Each plan has its own: a node that has older packages again says still that it had them once.
#[test]
fn another_plan_drains_for_the_same_packages_again() {
    let mark = |now| {
        let mut case = older_packages(OLD, &["node2"]);
        case.options.now = now;
        let plan = case.steps();
        let ops = plan.steps.into_iter().flat_map(|step| step.ops);
        ops.into_iter().find_map(|op| if let Op::NodeAnnotation(mark) = op { Some(mark.value) } else { None })
    };
    assert_eq!(mark(1), mark(1));
    assert_ne!(mark(1), mark(2));
}

#[test]
fn what_is_held_or_a_load_balancers_stays_and_is_told() {
    let mut case = older_packages(OLD, &[]);
    let installed = case.site.facts.get_mut("node2").expect("a host").packages.as_mut().expect("a list");
    installed.list.push_str("Package: socat\nStatus: hold ok installed\nVersion: 0.9-1\nArchitecture: amd64\n\n");
    assert!(upgraded(&case.steps(), "node2").is_none());
    assert!(case.warnings().contains("node2: socat 0.9-1 is held; the bundle has 1.0-1"), "{}", case.warnings());
    let mut balancer = older_packages(OLD, &["node2"]);
    let roots = &mut balancer.site.packages.sets[0].set.roots;
    roots.iter_mut().filter(|root| root.name == "socat").for_each(|root| root.role = PackageRole::Haproxy);
    assert!(upgraded(&balancer.steps(), "node2").is_none());
    assert!(balancer.warnings().contains("socat 0.9-1 is a load balancer's"), "{}", balancer.warnings());
    // What only comes with it stays, too.
    install(balancer.site.facts.get_mut("node2").expect("a host"), "conntrack=0.9-1");
    let carried = &mut balancer.site.packages.sets[0];
    let mut all: Vec<_> = carried.pool.packages().cloned().collect();
    let relation = Constraint {
        name: "socat".into(),
        arch: Default::default(),
        version: Some((Comparison::Equal, "1.0-1".into())),
    };
    let requires = vec![Requirement::One(relation)];
    for package in all.iter_mut().filter(|package| &*package.name == "conntrack") {
        package.relations = Deferred::Ready(Box::new(Relations { requires: requires.clone(), ..Relations::default() }));
    }
    let need = require(&balancer.site.cluster, &Catalogue::embedded()).expect("requirements").packages.remove(0);
    carried.pool = sample::pool(&need, all);
    assert!(upgraded(&balancer.steps(), "node2").is_none());
    assert!(balancer.warnings().contains("conntrack stays as it is"), "{}", balancer.warnings());
}

#[test]
fn a_node_without_packages_in_the_bundle_is_refused_by_name() {
    let refused = |case: &Case| case.plan().map(|_| ()).expect_err("it is refused").to_string();
    let mut other = older_packages(PATCH, &["node1"]);
    other.site.facts.get_mut("node2").expect("a host").os_version = "11".to_owned();
    let text = refused(&other);
    assert!(
        text.contains("cannot be upgraded; without --os-packages")
            && text.contains("- node2: the bundle has packages for debian-12"),
        "{text}"
    );
    let mut none = Case::of(1, 2, PATCH);
    none.options.os_packages = true;
    assert!(refused(&none).contains("the bundle has no packages; name debian-12 in bundle.os"), "{}", refused(&none));
    let mut unwanted = older_packages(PATCH, &["node1"]);
    unwanted.site.cluster.system.os_packages = OsPackages::None;
    assert!(refused(&unwanted).contains("osPackages: none"), "{}", refused(&unwanted));
    let mut unreadable = older_packages(PATCH, &["node1"]);
    unreadable.site.facts.get_mut("node2").expect("a host").packages.as_mut().expect("a list").broken =
        Some("dpkg was interrupted".to_owned());
    assert!(refused(&unreadable).contains("dpkg was interrupted"), "{}", refused(&unreadable));
}
