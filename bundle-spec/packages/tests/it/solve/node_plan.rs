//! What a node would have to do, and why a package is in a closure.

use std::collections::BTreeMap;

use kubexm_packages::solve::{Baseline, NodePlan, PackageState, node_plan, why};
use kubexm_spec::Family::Deb;

use crate::solve::common::{baseline, pool, roots, solved};

fn plan(installed: &str, text: &str, wanted: &str, present: &[(&str, &str)]) -> (NodePlan, Vec<String>) {
    let present: BTreeMap<Box<str>, Box<str>> =
        present.iter().map(|(name, by)| ((*name).into(), (*by).into())).collect();
    let plan = node_plan(&pool(Deb, text), &roots(wanted), &baseline(Deb, installed), &present);
    let reported = plan.roots.iter().map(|(root, standing)| {
        let standing = match standing {
            PackageState::Satisfied { by } => format!("there by {by}"),
            PackageState::Install => "comes".to_owned(),
            PackageState::Upgrade => "comes with an upgrade".to_owned(),
            PackageState::Conflict(unsolvable) => format!("cannot be: {unsolvable}"),
        };
        format!("{} {standing}", root.name)
    });
    let reported = reported.collect();
    (plan, reported)
}

const TEXT: &str = "socat 2; Depends: libwrap
    libwrap 1
    conntrack 1; Depends: libnl (>= 2)
    libnl 2
    chrony 1; Conflicts: ntp
    ipset 1";

#[test]
fn each_root_is_installed_planned_upgraded_or_impossible() {
    let (plan, reported) = plan(
        "ipset 1\n libnl 1\n ntp 1",
        TEXT,
        "socat conntrack chrony ipset ebtables",
        &[("ebtables", "/sbin/ebtables")],
    );
    assert_eq!(reported[0], "socat comes");
    assert_eq!(reported[1], "conntrack comes with an upgrade");
    assert!(reported[2].starts_with("chrony cannot be: chrony 1 conflicts with ntp"), "{}", reported[2]);
    assert_eq!(reported[3], "ipset there by ipset 1");
    assert_eq!(reported[4], "ebtables there by /sbin/ebtables");
    assert!(!plan.is_possible());
    assert_eq!((plan.install.len(), plan.upgrade.len()), (3, 1), "the roots that can come are planned for");
    assert_eq!(plan.upgrade[0].replaces.as_deref(), Some("1"));
}

#[test]
fn a_node_that_has_all_has_nothing_to_do() {
    let (plan, _) = plan("socat 1\n libwrap 1", TEXT, "socat", &[]);
    assert!(plan.is_possible() && plan.install.is_empty() && plan.upgrade.is_empty());
}

#[test]
fn of_two_roots_that_exclude_each_other_the_second_is_reported() {
    let (plan, reported) = plan("", "a 1; Conflicts: b\n b 1\n c 1", "a b c", &[]);
    assert_eq!((&*reported[0], &*reported[2]), ("a comes", "c comes"));
    assert!(reported[1].starts_with("b cannot be: "), "{}", reported[1]);
    assert_eq!(plan.install.len(), 2);
}

#[test]
fn a_package_is_explained_from_its_root_on_and_by_all_that_need_it() {
    let pool = pool(Deb, "a 1; Depends: b\n b 1; Depends: c (>= 1)\n c 1\n d 1; Depends: c | e");
    let closure = solved(&pool, "a d", &Baseline::empty()).unwrap();
    let found = why(&pool, &closure, "c").unwrap();
    let name = |id| &*pool.package(id).name;
    assert_eq!(found.chain.iter().map(|one| name(one.package)).collect::<Vec<_>>(), ["d", "c"]);
    let needed_by: Vec<_> = found.needed_by.iter().map(|(by, wants)| (name(*by), &**wants)).collect();
    assert_eq!(needed_by, [("b", "c (>= 1)"), ("d", "c | e")]);
    assert!(why(&pool, &closure, "e").is_none());
}
