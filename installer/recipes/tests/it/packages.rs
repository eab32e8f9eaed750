//! Which packages come to a host, in which steps, and what of them can be rolled back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use crate::common::{Site, install};
use kubexm_manifests::requirements::PackageNeed;
use kubexm_manifests::{Catalogue, require};
use kubexm_packages::model::{Comparison, Constraint, Deferred, Package, Relations, Requirement};
use kubexm_plan::op::{Op, Packages};
use kubexm_plan::{Plan, Undo, lint};
use kubexm_recipes::preflight::Severity;
use kubexm_recipes::{RecipeError, preflight, sample};
use kubexm_spec::ExitCode;
use kubexm_spec::cluster::{Cluster, OsPackages};

/// One host of Debian 12 whose bundle has its packages.
fn cluster() -> Cluster {
    let mut cluster = sample::cluster();
    cluster.bundle.os = vec!["debian-12".to_owned()];
    cluster
}

fn need(cluster: &Cluster) -> PackageNeed {
    require(cluster, &Catalogue::embedded()).unwrap().packages.remove(0)
}

fn site(change: impl FnOnce(&mut Cluster)) -> Site {
    let mut cluster = cluster();
    change(&mut cluster);
    Site::of(cluster)
}

/// The bundle's packages are these besides, or in their place.
fn carrying(site: &mut Site, packages: Vec<Package>) {
    let need = need(&site.cluster);
    let carried = &mut site.packages.sets[0];
    let mut all: Vec<Package> = carried.pool.packages().cloned().collect();
    all.retain(|one| !packages.iter().any(|other| other.name == one.name));
    all.extend(packages);
    carried.pool = sample::pool(&need, all);
}

fn package(site: &Site, name: &str, change: impl FnOnce(&mut Package)) -> Package {
    let mut package = sample::package(&need(&site.cluster), name);
    change(&mut package);
    package
}

fn relation(name: &str, version: Option<(Comparison, &str)>) -> Requirement {
    let version = version.map(|(comparison, version)| (comparison, version.into()));
    Requirement::One(Constraint { name: name.into(), arch: Default::default(), version })
}

fn needs(package: &mut Package, requires: Vec<Requirement>) {
    package.relations = Deferred::Ready(Box::new(Relations { requires, ..Relations::default() }));
}

fn without(site: &mut Site, program: &str) {
    site.facts().programs.insert(program.to_owned(), None);
}

fn has(site: &mut Site, list: &str) {
    install(site.facts(), list);
}

fn checked(site: &Site) -> Plan {
    let plan = site.create().unwrap();
    lint::check(plan.clone()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    plan
}

/// Each step that installs: its name, the packages (an upgrade with a `^`), and how it is rolled back.
fn warnings(plan: &Plan) -> Vec<String> {
    let op = |op: &Op| if let Op::Packages(packages) = op { Some(packages.clone()) } else { None };
    let steps = plan.steps.iter().filter_map(|step| Some((step, step.ops.iter().find_map(op)?)));
    let reported = steps.map(|(step, op): (_, Packages)| {
        let packages =
            op.packages.iter().map(|(name, one)| if one.upgrade { format!("{name}^") } else { name.clone() });
        let gone: String = op.replaced.keys().map(|name| format!(" -{name}")).collect();
        let back = matches!(step.undo, Undo::RestoreBefore);
        format!(
            "{}: {}{gone}{}",
            step.id,
            packages.collect::<Vec<_>>().join(" "),
            if back { "" } else { " (for good)" }
        )
    });
    reported.collect()
}

fn finding(site: &Site, severity: Severity) -> String {
    let all = preflight(&site.cx());
    let mut of = all.iter().filter(|finding| finding.check == "packages" && finding.severity == severity);
    let found = of.next().unwrap_or_else(|| panic!("{all:#?}")).to_string();
    assert!(of.next().is_none(), "{all:#?}");
    found
}

#[test]
fn a_host_without_missing_packages_gets_none_and_is_not_asked_for_its_list() {
    let mut site = site(|_| ());
    assert_eq!(warnings(&checked(&site)), Vec::<String>::new());
    assert_eq!(preflight(&site.cx()), Vec::new());
    assert!(!checked(&site).render().contains("/var/lib/kubexm/repos"));
    site.packages.sets[0].repository.clear();
    checked(&site);
}

#[test]
fn a_program_from_a_bundled_package_is_no_failure_and_brings_its_dependencies() {
    let mut site = site(|_| ());
    without(&mut site, "conntrack");
    let with_library = package(&site, "conntrack", |one| needs(one, vec![relation("libnetfilter", None)]));
    let library = package(&site, "libnetfilter", |_| ());
    carrying(&mut site, vec![with_library, library]);
    assert_eq!(preflight(&site.cx()), Vec::new());
    let plan = checked(&site);
    assert_eq!(warnings(&plan), ["node1/packages.install: conntrack libnetfilter"]);
    assert!(plan.render().contains("Install conntrack: 2 packages"), "{}", plan.render());
}

#[test]
fn packages_are_installed_after_the_store_and_before_their_users() {
    let mut site = site(|_| ());
    without(&mut site, "socat");
    let plan = checked(&site);
    let at = |id: &str| plan.steps.iter().position(|step| step.id.0 == id).unwrap();
    assert!(at("node1/store.fill") < at("node1/packages.repository"));
    assert!(at("node1/packages.install") < at("node1/kubernetes.kubelet"));
    let kubelet = plan.steps.iter().find(|step| step.id.0 == "node1/kubernetes.programs").unwrap();
    assert!(kubelet.after.iter().any(|id| id.0 == "node1/packages.install"), "{:?}", kubelet.after);
    // The depot's host is not held up: others wait for it.
    let serve = plan.steps.iter().find(|step| step.id.0 == "node1/depot.serve").unwrap();
    assert!(!serve.after.iter().any(|id| id.0.contains("packages")), "{:?}", serve.after);
}

#[test]
fn none_installs_nothing_and_full_installs_what_programs_alone_would_spare() {
    let mut none = site(|cluster| cluster.system.os_packages = OsPackages::None);
    without(&mut none, "socat");
    assert_eq!(warnings(&checked(&none)), Vec::<String>::new());
    let findings = preflight(&none.cx());
    assert_eq!(findings[0].check, "programs", "{findings:#?}");
    let full = site(|cluster| cluster.system.os_packages = OsPackages::Full);
    let reported = warnings(&checked(&full)).remove(0);
    assert!(reported.contains(" conntrack ") && reported.contains(" socat"), "{reported}");
    assert!(!reported.contains("bash-completion"), "what is installed comes again: {reported}");
}

#[test]
fn an_upgrade_has_a_step_of_its_own_and_is_reported_before_as_what_has_no_rollback() {
    let mut site = site(|cluster| cluster.system.debs = vec!["vim".to_owned()]);
    without(&mut site, "iptables");
    has(&mut site, "libxtables=0.9");
    let family = |one: &mut Package| needs(one, vec![relation("libxtables", Some((Comparison::Equal, "1.0-1")))]);
    let iptables = package(&site, "iptables", family);
    let library = package(&site, "libxtables", |one| needs(one, vec![relation("libnew", None)]));
    let new = package(&site, "libnew", |_| ());
    carrying(&mut site, vec![iptables, library, new]);
    let plan = checked(&site);
    assert_eq!(
        warnings(&plan),
        ["node1/packages.upgrade: libnew libxtables^ (for good)", "node1/packages.install: iptables vim"]
    );
    let why = plan.steps.iter().find_map(|step| match &step.undo {
        Undo::Irreversible { why } => Some(why.as_str()),
        _ => None,
    });
    assert!(why.unwrap().contains("libxtables 0.9 is upgraded to 1.0-1"), "{why:?}");
    let warning = finding(&site, Severity::Warn);
    assert!(warning.contains("libxtables 0.9 to 1.0-1") && warning.contains("cannot be rolled back"), "{warning}");
}

#[test]
fn packages_that_conflict_with_installed_ones_are_refused_before_any_change() {
    let mut site = site(|_| ());
    without(&mut site, "socat");
    has(&mut site, "libwrap=9");
    let socat = package(&site, "socat", |one| needs(one, vec![relation("libwrap", Some((Comparison::Less, "9")))]));
    let library = package(&site, "libwrap", |_| ());
    carrying(&mut site, vec![socat, library]);
    let failure = finding(&site, Severity::Fail);
    assert!(failure.contains("socat cannot be installed") && failure.contains("libwrap"), "{failure}");
    let error = site.create().unwrap_err();
    assert!(matches!(error, RecipeError::Packages { .. }), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Preflight);
    let programs: Vec<_> = preflight(&site.cx()).into_iter().filter(|finding| finding.check == "programs").collect();
    assert_eq!(programs.len(), 1, "socat does not come: {programs:#?}");
}

#[test]
fn what_the_administrator_holds_is_not_upgraded_and_is_named() {
    let mut site = site(|_| ());
    without(&mut site, "socat");
    let list = &mut site.facts().packages.as_mut().unwrap().list;
    list.push_str("Package: libwrap\nStatus: hold ok installed\nVersion: 0.9\nArchitecture: amd64\n\n");
    let socat =
        package(&site, "socat", |one| needs(one, vec![relation("libwrap", Some((Comparison::GreaterOrEqual, "1")))]));
    let library = package(&site, "libwrap", |_| ());
    carrying(&mut site, vec![socat, library]);
    let failure = finding(&site, Severity::Fail);
    assert!(failure.contains("apt-mark unhold libwrap"), "{failure}");
}

/// chrony on a host with systemd-timesyncd in this version; the bundle has 1.0-1 of both.
fn with_time(installed: &str) -> Site {
    let mut site = site(|cluster| cluster.system.ntp_servers = vec!["10.0.0.9".to_owned()]);
    let chrony = package(&site, "chrony", |one| {
        let conflicts = vec![relation("systemd-timesyncd", None)];
        one.relations = Deferred::Ready(Box::new(Relations { conflicts, ..Relations::default() }));
    });
    let old = package(&site, "systemd-timesyncd", |_| ());
    carrying(&mut site, vec![chrony, old]);
    has(&mut site, &format!("systemd-timesyncd={installed}"));
    site
}

#[test]
fn a_replaced_package_is_restorable_only_if_the_bundle_has_the_same_version() {
    let site = with_time("1.0-1");
    let packages = kubexm_recipes::packages::of_host(&site.cx(), "node1", &site.facts["node1"]);
    let planned = packages.unwrap().unwrap();
    assert!(planned.irreversible.is_none() && planned.conflicts.is_empty(), "{planned:#?}");
    let part = planned.restorable.as_ref().unwrap();
    assert_eq!(part.packages.keys().collect::<Vec<_>>(), ["chrony"]);
    assert_eq!(part.replaced["systemd-timesyncd"].version, "1.0-1");
    let warning = finding(&site, Severity::Warn);
    assert!(warning.contains("systemd-timesyncd") && warning.contains("restored"), "{warning}");
    assert!(!warning.contains("is not started"), "ntpServers sets chrony up: {warning}");
    let other = with_time("0.9");
    let packages = kubexm_recipes::packages::of_host(&other.cx(), "node1", &other.facts["node1"]);
    let planned = packages.unwrap().unwrap();
    assert!(planned.irreversible.is_none(), "a host would be left without a time service: {planned:#?}");
    assert_eq!(planned.restorable.as_ref().unwrap().replaced["systemd-timesyncd"].version, "1.0-1");
    let warning = finding(&other, Severity::Warn);
    assert!(warning.contains("removed as 0.9, and restored as 1.0-1"), "{warning}");
}

#[test]
fn no_package_is_removed_that_another_one_needs() {
    let needing = |needs: &str| {
        let mut site = with_time("1.0-1");
        let list = &mut site.facts().packages.as_mut().unwrap().list;
        list.push_str(&format!(
            "Package: clock\nStatus: install ok installed\nVersion: 7\nArchitecture: amd64\nDepends: {needs}\n\n"
        ));
        site
    };
    let failure = finding(&needing("systemd-timesyncd"), Severity::Fail);
    assert!(
        failure.contains("systemd-timesyncd would have to be removed for it, and clock 7 needs systemd-timesyncd"),
        "{failure}"
    );
    assert!(matches!(needing("systemd-timesyncd").create().unwrap_err(), RecipeError::Packages { .. }));
    // What needs one of the two has the other; what lacked something before is none of ours.
    for needs in ["systemd-timesyncd | chrony", "nothing-has-this"] {
        let reported = warnings(&checked(&needing(needs)));
        assert_eq!(reported, ["node1/packages.install: chrony -systemd-timesyncd"], "{needs}");
    }
}

#[test]
fn chrony_without_time_servers_gets_a_warning_that_it_is_not_started() {
    let mut site = site(|cluster| cluster.system.debs = vec!["chrony".to_owned()]);
    let reported = finding(&site, Severity::Warn);
    assert!(reported.contains("no `spec.system.ntpServers`") && reported.contains("set up and started"), "{reported}");
    has(&mut site, "systemd-timesyncd=1.0-1");
    let chrony = package(&site, "chrony", |one| {
        let conflicts = vec![relation("systemd-timesyncd", None)];
        one.relations = Deferred::Ready(Box::new(Relations { conflicts, ..Relations::default() }));
    });
    carrying(&mut site, vec![chrony]);
    let reported = finding(&site, Severity::Warn);
    assert!(
        reported.contains("systemd-timesyncd, which another package replaces") && reported.contains("ntpServers"),
        "{reported}"
    );
}

#[test]
fn no_package_is_removed_that_the_bundle_cannot_reinstall() {
    let mut site = with_time("1.0-1");
    let need = need(&site.cluster);
    let mut all: Vec<Package> = site.packages.sets[0].pool.packages().cloned().collect();
    all.retain(|one| &*one.name != "systemd-timesyncd");
    site.packages.sets[0].pool = sample::pool(&need, all);
    assert!(finding(&site, Severity::Fail).contains("it could not be rolled back"));
}

#[test]
fn missing_packages_are_listed_for_a_host_whose_system_the_bundle_does_not_have() {
    let mut site = site(|cluster| cluster.system.debs = vec!["vim".to_owned()]);
    site.facts().os_version = "11".to_owned();
    site.facts().os_edition = "11 (bullseye)".to_owned();
    without(&mut site, "socat");
    let failure = finding(&site, Severity::Fail);
    for wanted in ["debian-11", "socat", "vim", "debian-12 (linux/amd64)", "spec.bundle.os"] {
        assert!(failure.contains(wanted), "{wanted}: {failure}");
    }
    assert!(matches!(site.create().unwrap_err(), RecipeError::Packages { .. }));
}

#[test]
fn an_unreadable_package_list_is_refused_only_if_a_package_is_missing() {
    let mut site = site(|_| ());
    without(&mut site, "socat");
    site.facts().packages.as_mut().unwrap().broken = Some("dpkg: error: parsing file".to_owned());
    assert!(finding(&site, Severity::Fail).contains("dpkg: error: parsing file"));
    for list in [None, Some("<html>")] {
        site.facts().packages = list.map(|list| kubexm_plan::facts::InstalledPackages {
            family: kubexm_spec::Family::Deb,
            list: list.to_owned(),
            broken: None,
        });
        assert!(finding(&site, Severity::Fail).contains("the list of installed packages cannot be read"));
    }
    let mut whole = self::site(|cluster| cluster.system.os_packages = OsPackages::None);
    whole.facts().packages = None;
    assert_eq!(preflight(&whole.cx()), Vec::new());
}

#[test]
fn an_installation_that_was_cut_off_is_reported_where_packages_come() {
    let mut site = site(|_| ());
    let list = &mut site.facts().packages.as_mut().unwrap().list;
    list.push_str("Package: vim\nStatus: install ok half-configured\nVersion: 1\nArchitecture: amd64\n\n");
    assert_eq!(preflight(&site.cx()), Vec::new());
    without(&mut site, "socat");
    assert!(finding(&site, Severity::Warn).contains("interrupted (vim)"));
}

/// A package that dpkg knows in this state, in this version; its programs are there.
fn half(site: &mut Site, name: &str, status: &str, version: &str) {
    let list = &mut site.facts().packages.as_mut().unwrap().list;
    list.push_str(&format!("Package: {name}\nStatus: {status}\nVersion: {version}\nArchitecture: amd64\n\n"));
}

#[test]
fn a_half_installed_package_is_planned_although_its_programs_exist() {
    for status in ["install reinstreq half-installed", "install ok unpacked", "install ok half-configured"] {
        let mut site = site(|_| ());
        half(&mut site, "socat", status, "1.0-1");
        assert_eq!(warnings(&checked(&site)), ["node1/packages.install: socat"], "{status}");
        assert!(finding(&site, Severity::Warn).contains("interrupted (socat)"), "{status}");
    }
    // dpkg runs what triggers it owes with whatever it does next.
    let mut site = site(|_| ());
    half(&mut site, "socat", "install ok triggers-pending", "1.0-1");
    assert_eq!(warnings(&checked(&site)), Vec::<String>::new());
}

#[test]
fn half_installed_packages_are_upgraded_irreversibly_and_neither_downgraded_nor_changed_if_held() {
    let of = |status: &str, version: &str| {
        let mut site = site(|_| ());
        half(&mut site, "socat", status, version);
        warnings(&checked(&site))
    };
    assert_eq!(of("install ok unpacked", "0.9-1"), ["node1/packages.upgrade: socat^ (for good)"]);
    assert_eq!(of("install ok unpacked", "1.1-1"), Vec::<String>::new());
    assert_eq!(of("hold ok unpacked", "0.9-1"), Vec::<String>::new());
    assert_eq!(of("hold ok unpacked", "1.0-1"), ["node1/packages.install: socat"]);
}

#[test]
fn a_half_installed_dependency_of_a_root_is_planned() {
    let mut site = site(|_| ());
    without(&mut site, "socat");
    half(&mut site, "libwrap", "install reinstreq half-installed", "1.0-1");
    let socat = package(&site, "socat", |one| needs(one, vec![relation("libwrap", None)]));
    let library = package(&site, "libwrap", |_| ());
    carrying(&mut site, vec![socat, library]);
    assert_eq!(warnings(&checked(&site)), ["node1/packages.install: libwrap socat"]);
}

#[test]
fn a_bundle_that_lacks_packages_or_was_built_for_others_is_refused_with_their_names() {
    let lost = |change: fn(&mut Site)| {
        let mut site = site(|cluster| cluster.system.debs = vec!["vim".to_owned()]);
        change(&mut site);
        site.create().unwrap_err().to_string()
    };
    let text = lost(|site| site.manifest.artifacts.retain(|artifact| artifact.name != "vim_1.0-1_amd64.deb"));
    assert!(text.contains("package/debian-12/vim for linux/amd64"), "{text}");
    let text = lost(|site| site.packages.sets[0].set.roots.retain(|root| root.name != "vim"));
    assert!(text.contains("packages of debian-12 for linux/amd64 for vim"), "{text}");
    let text = lost(|site| site.packages.sets.clear());
    assert!(text.contains("packages of debian-12 for linux/amd64;"), "{text}");
}

/// A host of Rocky 9 that has these and lacks socat.
fn rocky(installed: &[&str]) -> (Site, PackageNeed) {
    let mut cluster = sample::cluster();
    cluster.bundle.os = vec!["rocky-9".to_owned()];
    let need = need(&cluster);
    let mut site = Site::of(cluster);
    let facts = site.facts();
    (facts.os_id, facts.os_version, facts.os_edition) =
        ("rocky".to_owned(), "9.4".to_owned(), "9.4 (Blue Onyx)".to_owned());
    let list = installed.iter().map(|name| format!("N\t{name}\t0\t1.0\t1\tx86_64\n")).collect();
    facts.packages =
        Some(kubexm_plan::facts::InstalledPackages { family: kubexm_spec::Family::Rpm, list, broken: None });
    without(&mut site, "socat");
    (site, need)
}

#[test]
fn excluded_rpms_are_refused_first_with_the_file_that_excludes_them() {
    let (mut site, need) = rocky(&["iptables-nft", "bash-completion"]);
    site.facts().packages.as_mut().unwrap().list.push_str("X\tsoc*\n");
    carrying(&mut site, vec![sample::package(&need, "socat")]);
    let reported = finding(&site, Severity::Fail);
    assert!(reported.contains("socat cannot be installed"), "{reported}");
    assert!(reported.contains("exclude") && reported.contains("versionlock"), "{reported}");
}

#[test]
fn an_rpm_finds_the_paths_it_needs_in_what_is_installed() {
    let (mut site, need) = rocky(&["glibc", "iptables-nft", "bash-completion"]);
    let mut socat = sample::package(&need, "socat");
    needs(&mut socat, vec![relation("/usr/lib64/libc.so.6", None)]);
    // Only the bundle's package says that it has the path, and it is newer.
    let mut glibc = sample::package(&need, "glibc");
    glibc.version = "2.0-1".into();
    glibc.files = vec!["/usr/lib64/libc.so.6".into()];
    carrying(&mut site, vec![socat, glibc]);
    let plan = checked(&site);
    assert_eq!(warnings(&plan), ["node1/packages.install: socat"]);
    assert!(plan.render().contains("file /var/lib/kubexm/repos/rocky-9-amd64/kubexm.repo"), "{}", plan.render());
}

#[test]
fn packages_of_the_other_hosts_are_not_a_part_of_a_join() {
    let mut cluster = sample::fleet(1, 2);
    cluster.bundle.os = vec!["debian-12".to_owned()];
    let mut site = Site::of(cluster);
    for facts in site.facts.values_mut() {
        facts.programs.insert("socat".to_owned(), None);
    }
    site.join_all_but("node3");
    let plan =
        kubexm_recipes::add_node(&site.cx(), &kubexm_plan::ClusterFacts::default(), &["node3".to_owned()]).unwrap();
    assert_eq!(warnings(&plan), ["node3/packages.install: socat"]);
}
