//! Who sets the clocks of the hosts, by `spec.system.ntpServers`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::{Site, text};
use kubexm_plan::facts::InstalledPackages;
use kubexm_plan::op::Op;
use kubexm_plan::{Plan, Probe, Step, lint};
use kubexm_recipes::preflight::Severity;
use kubexm_recipes::{RecipeError, preflight, sample};
use kubexm_spec::{Cluster, ExitCode, Family};

const DEB: &str = "/etc/chrony/chrony.conf";

/// A control plane and two workers of Debian 12 with chrony, and these time servers.
fn site(servers: &[&str]) -> Site {
    of(sample::fleet(1, 2), servers)
}

fn of(mut cluster: Cluster, servers: &[&str]) -> Site {
    cluster.system.ntp_servers = servers.iter().map(|one| (*one).to_owned()).collect();
    let mut site = Site::of(cluster);
    site.facts
        .values_mut()
        .for_each(|facts| drop(facts.programs.insert("chronyd".to_owned(), Some("/usr/sbin/chronyd".to_owned()))));
    site.facts.values_mut().for_each(|facts| facts.time_services = vec!["chrony.service".to_owned()]);
    site
}

fn checked(plan: Plan) -> Plan {
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    plan
}

fn step<'p>(plan: &'p Plan, id: &str) -> &'p Step {
    plan.steps.iter().find(|step| step.id.0 == id).unwrap_or_else(|| panic!("no {id}: {}", plan.render()))
}

/// The configuration that a step writes, without comments.
fn config(plan: &Plan, id: &str) -> Vec<String> {
    let digest = step(plan, id).ops.iter().find_map(Op::text).unwrap();
    let lines = plan.texts[&digest].lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.take_while(|line| !line.starts_with("driftfile")).map(str::to_owned).collect()
}

fn waits(plan: &Plan, id: &str, before: &str) -> bool {
    let step = step(plan, id);
    step.after.iter().any(|one| one.0 == before || waits(plan, &one.0, before))
}

fn findings(site: &Site, severity: Severity) -> Vec<String> {
    let all = preflight(&site.cx());
    let of = all.iter().filter(|finding| finding.check == "time" && finding.severity == severity);
    of.map(ToString::to_string).collect()
}

#[test]
fn every_host_follows_the_servers_of_the_list_and_nobody_else_before_kubeadm_looks_at_the_clock() {
    let plan = checked(site(&["10.0.0.9", "ntp.example.com", "10.0.0.9"]).create().unwrap());
    for (host, first) in [("node1", "node1/control-plane.init"), ("node3", "node3/join.node")] {
        let id = format!("{host}/time.client");
        assert_eq!(config(&plan, &id), ["server 10.0.0.9 iburst", "server ntp.example.com iburst"]);
        assert!(waits(&plan, first, &id), "{first} does not wait for {id}");
        assert!(
            matches!(&step(&plan, &id).probe.as_ref().unwrap().probe, Probe::ClockFollows { servers } if servers.len() == 2)
        );
    }
    // The whole file is ours: one that includes others could name servers of the internet.
    let whole = text(&plan, DEB);
    for other in ["pool", "confdir", "sourcedir", "include"] {
        assert!(!whole.lines().any(|line| line.starts_with(other)), "{whole}");
    }
    assert!(!plan.render().contains("time.before"), "chrony is there, and nothing else runs");
    assert!(!plan.render().contains("time.server"));
}

#[test]
fn a_host_of_the_cluster_in_the_list_serves_the_others_and_them_alone() {
    for said in ["node2", "10.77.0.12"] {
        let plan = checked(site(&[said]).create().unwrap());
        assert_eq!(
            config(&plan, "node2/time.server"),
            ["allow 10.77.0.11", "allow 10.77.0.13", "local stratum 10"],
            "of {said}"
        );
        // It has nobody to follow.
        assert!(step(&plan, "node2/time.server").probe.is_none());
        assert_eq!(config(&plan, "node1/time.client"), ["server 10.77.0.12 iburst"]);
        assert!(waits(&plan, "node1/time.client", "node2/time.server"));
        // The others cannot do without it.
        let server = plan.hosts.iter().find(|host| host.name == "node2").unwrap();
        assert!(!server.optional && plan.hosts[2].optional);
    }
}

#[test]
fn servers_of_the_cluster_follow_the_ones_outside_and_each_other() {
    let plan = checked(site(&["10.0.0.9", "node1", "node2"]).create().unwrap());
    assert_eq!(
        config(&plan, "node1/time.server"),
        [
            "server 10.0.0.9 iburst",
            "server 10.77.0.12 iburst",
            "allow 10.77.0.12",
            "allow 10.77.0.13",
            "local stratum 10"
        ]
    );
    assert_eq!(
        config(&plan, "node2/time.server").last().unwrap(),
        "local stratum 11",
        "two that are worth the same follow nobody"
    );
    assert_eq!(config(&plan, "node3/time.client").len(), 3);
}

#[test]
fn a_host_that_joins_is_let_in_by_the_server_and_no_other_host_is_touched_for_it() {
    let mut site = site(&["node1"]);
    site.join_all_but("node3");
    let plan = checked(
        kubexm_recipes::add_node(&site.cx(), &kubexm_plan::ClusterFacts::default(), &["node3".to_owned()]).unwrap(),
    );
    assert!(config(&plan, "node1/time.server").contains(&"allow 10.77.0.13".to_owned()));
    assert!(waits(&plan, "node3/time.client", "node1/time.server"));
    assert!(!plan.steps.iter().any(|step| step.id.0 == "node2/time.client"), "{}", plan.render());
}

#[test]
fn a_host_is_not_added_if_its_time_server_in_the_cluster_has_no_chrony() {
    let mut site = site(&["node1"]);
    site.join_all_but("node3");
    site.facts.get_mut("node1").unwrap().programs.insert("chronyd".to_owned(), None);
    let error = kubexm_recipes::add_node(&site.cx(), &kubexm_plan::ClusterFacts::default(), &["node3".to_owned()])
        .unwrap_err()
        .to_string();
    assert!(error.contains("node1") && error.contains("run `create` first"), "{error}");
}

#[test]
fn rpms_family_has_other_names() {
    let mut site = site(&["10.0.0.9"]);
    for facts in site.facts.values_mut() {
        (facts.os_id, facts.os_version, facts.os_edition) =
            ("rocky".to_owned(), "9.4".to_owned(), "9.4 (Blue Onyx)".to_owned());
        facts.packages = Some(InstalledPackages { family: Family::Rpm, list: String::new(), broken: None });
    }
    let plan = checked(site.create().unwrap());
    assert!(text(&plan, "/etc/chrony.conf").contains("driftfile /var/lib/chrony/drift\n"));
    assert!(plan.render().contains("unit chronyd.service enabled, running"), "{}", plan.render());
}

#[test]
fn another_time_service_stops_before_chrony_comes_and_is_reported() {
    let mut site = site(&["10.0.0.9"]);
    site.facts().time_services = vec!["ntpd.service".to_owned()];
    let plan = checked(site.create().unwrap());
    assert!(plan.render().contains("unit ntpd.service disabled, stopped"), "{}", plan.render());
    assert!(waits(&plan, "node1/time.client", "node1/time.before"));
    let reported = findings(&site, Severity::Warn);
    assert!(
        reported[0].contains("node1: time: found ntpd.service, which will be stopped and disabled"),
        "{reported:#?}"
    );
    assert!(
        reported[1].contains("node2") && reported[1].contains("configuration file will be replaced"),
        "{reported:#?}"
    );
    site.join_all_but("none");
    assert_eq!(
        self::findings(&site, Severity::Warn),
        Vec::<String>::new(),
        "what a former run of ours made is reported again"
    );
}

#[test]
fn chrony_comes_from_the_bundle_and_takes_the_place_of_timesyncd() {
    let mut cluster = sample::cluster();
    cluster.bundle.os = vec!["debian-12".to_owned()];
    cluster.system.ntp_servers = vec!["10.0.0.9".to_owned()];
    let site = Site::of(cluster);
    let plan = checked(site.create().unwrap());
    assert!(waits(&plan, "node1/time.client", "node1/packages.install"));
    assert!(waits(&plan, "node1/packages.install", "node1/time.before"));
    // A step that nothing changed in is in no ledger: what chrony fills is named where it comes.
    let ops = &step(&plan, "node1/packages.install").ops;
    assert!(ops.iter().any(|op| matches!(op, Op::StateDir(dir) if dir.path == DEB)), "{}", plan.render());
    assert_eq!(findings(&site, Severity::Fail), Vec::<String>::new());
}

#[test]
fn a_host_without_chrony_and_a_bundle_without_it_are_refused_before_anything_changes() {
    let mut site = site(&["10.0.0.9"]);
    site.facts().programs.insert("chronyd".to_owned(), None);
    let error = site.create().unwrap_err();
    assert!(matches!(&error, RecipeError::Packages { host, .. } if host == "node1"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Preflight);
    let reported = findings(&site, Severity::Fail);
    assert!(
        reported.len() == 1 && reported[0].contains("no chronyd") && reported[0].contains("spec.bundle.os"),
        "{reported:#?}"
    );
}

#[test]
fn the_port_of_a_time_server_is_free_or_of_a_service_that_is_stopped() {
    let mut site = site(&["node1"]);
    let listener = kubexm_plan::facts::Listener {
        protocol: "udp".to_owned(),
        port: 123,
        process: Some("ntpd".to_owned()),
        pid: Some(7),
        ours: false,
    };
    site.facts().listeners.push(listener);
    let held =
        |site: &Site| preflight(&site.cx()).iter().any(|finding| finding.found.contains("123/udp in use by ntpd"));
    site.facts().time_services.clear();
    assert!(held(&site), "{:#?}", preflight(&site.cx()));
    site.facts().time_services.push("ntpd.service".to_owned());
    assert!(!held(&site));
}

/// Members look at each other's certificates from their first moment.
#[test]
fn a_member_of_etcd_starts_when_the_clock_of_its_host_is_set() {
    let plan = checked(of(sample::with_etcd(), &["10.0.0.9"]).create().unwrap());
    for host in ["etcd1", "etcd2", "etcd3"] {
        assert!(waits(&plan, &format!("{host}/etcd.serve"), &format!("{host}/time.client")), "{host}");
    }
}
