//! dnf and rpm.

use std::path::Path;

use kubexm_ops::{Wave, dispatch, step};
use kubexm_plan::{ObservedState, Op, Reset, Step, Undo};

use crate::packages::private::Root;
use crate::packages::rpms::{Built, Vendor, had, left_of_work, op};

const UNIT: &str = "[Service]\\nExecStart=/usr/bin/tool-daemon\\n[Install]\\nWantedBy=multi-user.target\\n";

/// This machine has dnf; its list of installed rpms is empty but for a shell.
fn root(vendor: &Vendor) -> Root {
    let root = Root::over(Path::new("/"));
    let _ = std::fs::remove_dir_all(root.machine.path("/root/.rpmdb"));
    had(&root, &vendor.build("site-shell", "1", "Provides: /bin/sh", "", ""));
    root
}

fn keys(root: &Root) -> usize {
    installed(root).matches("gpg-pubkey").count()
}

/// A tool with a library, a service that a script enables, and a recommendation that cannot be followed.
fn tool(vendor: &Vendor) -> Vec<Built> {
    let spec = "Epoch: 2\nRequires: kubexm-library\nRecommends: kubexm-more\n%post\necho \"$SYSTEMD_OFFLINE\" > /tmp/reached\n\
                [ ! -e /tmp/slow ] || sleep 30\nsystemctl enable tool.service || :";
    let install = format!(
        "mkdir -p %{{buildroot}}/usr/bin %{{buildroot}}/usr/lib/systemd/system %{{buildroot}}/etc\n\
         echo x > %{{buildroot}}/usr/bin/kubexm-tool\necho a=1 > %{{buildroot}}/etc/tool.conf\n\
         printf '{UNIT}' > %{{buildroot}}/usr/lib/systemd/system/tool.service"
    );
    let files = "/usr/bin/kubexm-tool\n/usr/lib/systemd/system/tool.service\n%config(noreplace) /etc/tool.conf";
    vec![
        ("kubexm-tool", "1.0", vendor.build("kubexm-tool", "1.0", spec, &install, files)),
        ("kubexm-library", "1.0", vendor.build("kubexm-library", "1.0", "", "", "")),
        ("kubexm-more", "1.0", vendor.build("kubexm-more", "1.0", "", "", "")),
    ]
}

/// The tool has an epoch, which its file name does not tell.
fn tool_op(root: &Root, vendor: &Vendor, built: &[Built]) -> Op {
    let Op::Packages(mut packages) = op(root, vendor, built, &["kubexm-tool", "kubexm-library"]) else {
        unreachable!()
    };
    packages.packages.get_mut("kubexm-tool").expect("the tool").version = "2:1.0-1".to_owned();
    packages.into()
}

fn look(root: &Root, op: &Op) -> ObservedState {
    dispatch::observe(op, &root.machine).expect("a look")
}

fn roll_back(root: &Root, op: &Op, before: &ObservedState) {
    for wave in Wave::ALL {
        dispatch::restore(op, &root.machine, before, wave).expect("rolled back");
    }
}

fn installed(root: &Root) -> String {
    let mut lines: Vec<String> = root.says("rpm", &["-qa"]).lines().map(str::to_owned).collect();
    lines.sort();
    lines.join(" ")
}

#[test]
fn dnf_installs_without_starting_services_and_the_rollback_removes_its_keys() {
    let vendor = Vendor::new();
    let root = root(&vendor);
    let op = tool_op(&root, &vendor, &tool(&vendor));
    let listed = installed(&root);
    let before = look(&root, &op);
    assert!(!before.satisfied && !listed.contains("gpg-pubkey"), "{listed}");

    dispatch::converge(&op, &root.machine).expect("installed");
    assert!(look(&root, &op).satisfied);
    let now = installed(&root);
    assert!(now.contains("kubexm-tool-1.0-1.noarch") && now.contains("gpg-pubkey"), "{now}");
    assert!(!now.contains("kubexm-more"), "what was only recommended came: {now}");
    assert_eq!(root.read("/tmp/reached"), "1\n", "scripts could start services");
    assert_eq!(root.tells("systemctl", &["is-enabled", "tool.service"]).trim(), "disabled");
    assert_eq!(left_of_work(&root), ["kubexm-library-1.0-1.noarch.rpm", "kubexm-tool-1.0-1.noarch.rpm"]);
    assert!(!root.has("/var/lib/kubexm/packages.json"));

    roll_back(&root, &op, &before);
    assert_eq!(installed(&root), listed);
    assert!(!root.has("/usr/bin/kubexm-tool") && !root.has("/etc/tool.conf"));
    assert!(!root.has("/var/lib/kubexm/packages-keys.json") && !root.has("/var/lib/kubexm/packages.json"));
    assert_eq!(left_of_work(&root), Vec::<String>::new());
}

#[test]
fn a_key_that_the_site_trusted_before_stays() {
    let vendor = Vendor::new();
    let root = root(&vendor);
    let op = tool_op(&root, &vendor, &tool(&vendor));
    root.says("rpm", &["--import", "/var/lib/kubexm/repos/rocky-9-x86_64/vendor.asc"]);
    let listed = installed(&root);
    assert!(listed.contains("gpg-pubkey"), "{listed}");
    let before = look(&root, &op);
    dispatch::converge(&op, &root.machine).expect("installed");
    roll_back(&root, &op, &before);
    assert_eq!(installed(&root), listed);
}

#[test]
fn killed_in_the_middle_dnf_is_finished_or_rolled_back() {
    let vendor = Vendor::new();
    let built = tool(&vendor);
    for finish in [true, false] {
        let root = root(&vendor);
        let op = tool_op(&root, &vendor, &built);
        let listed = installed(&root);
        let before = look(&root, &op);
        root.put("/tmp/slow", "");
        root.cut_when("/tmp/reached");
        root.dies_in(|| dispatch::converge(&op, &root.machine)).expect_err("a kill");
        assert!(!look(&root, &op).satisfied);
        std::fs::remove_file(root.machine.path("/tmp/slow")).expect("gone");
        if finish {
            dispatch::converge(&op, &root.machine).expect("finished");
            assert!(look(&root, &op).satisfied);
            assert_ne!(root.tells("systemctl", &["is-enabled", "tool.service"]).trim(), "enabled");
        }
        roll_back(&root, &op, &before);
        assert_eq!(installed(&root), listed, "finish: {finish}");
        assert_eq!(left_of_work(&root), Vec::<String>::new());
        assert!(!root.has("/var/lib/kubexm/packages.json"));
    }
}

#[test]
fn packages_that_others_need_by_now_stay_and_the_rest_is_removed() {
    let vendor = Vendor::new();
    let root = root(&vendor);
    let op = tool_op(&root, &vendor, &tool(&vendor));
    let before = look(&root, &op);
    dispatch::converge(&op, &root.machine).expect("installed");
    had(&root, &vendor.build("site-program", "1", "Requires: kubexm-library", "", ""));
    roll_back(&root, &op, &before);
    let now = installed(&root);
    assert!(now.contains("kubexm-library") && now.contains("site-program") && !now.contains("kubexm-tool"), "{now}");
}

#[test]
fn a_package_that_its_vendor_has_not_signed_is_refused_in_dnfs_words() {
    let (vendor, other) = (Vendor::new(), Vendor::new());
    let root = root(&vendor);
    let op = tool_op(&root, &vendor, &tool(&other));
    let listed = installed(&root);
    let error = dispatch::converge(&op, &root.machine).expect_err("a refusal").full();
    assert!(error.contains("dnf install of 2 packages") && error.contains("GPG"), "{error}");
    assert!(error.len() < 4000, "{error}");
    assert!(!installed(&root).contains("kubexm-tool"), "{listed}");
}

#[test]
fn the_sites_key_is_never_imported_into_rpm_and_does_not_vouch_for_packages() {
    let (vendor, site) = (Vendor::new(), Vendor::with_key_of_site());
    let root = root(&vendor);
    let op = tool_op(&root, &vendor, &tool(&site));
    let listed = installed(&root);
    let before = look(&root, &op);
    let error = dispatch::converge(&op, &root.machine).expect_err("a refusal").full();
    assert!(error.contains("dnf install of 2 packages") && error.contains("GPG"), "{error}");
    let now = installed(&root);
    assert!(!now.contains("kubexm-tool") && keys(&root) == 1, "the vendor's alone: {now}");
    let id = kubexm_packages::trust::SiteKey::fingerprint(crate::packages::debs::site()).to_lowercase();
    assert!(!now.contains(&id[id.len() - 8..]), "{now}");
    roll_back(&root, &op, &before);
    assert_eq!(installed(&root), listed);
    assert!(!root.has("/var/lib/kubexm/packages-keys.json"));
}

#[test]
fn a_kill_while_keys_are_imported_leaves_none_that_the_rollback_does_not_know() {
    let vendor = Vendor::new();
    let root = root(&vendor);
    let op = tool_op(&root, &vendor, &tool(&vendor));
    let listed = installed(&root);
    let before = look(&root, &op);
    root.cut_when("/var/lib/kubexm/packages-keys.json");
    root.dies_in(|| dispatch::converge(&op, &root.machine)).expect_err("a kill");
    // As far as it may have come by then.
    root.says("rpm", &["--import", "/var/lib/kubexm/repos/rocky-9-x86_64/vendor.asc"]);
    assert!(!installed(&root).contains("kubexm-tool") && keys(&root) == 1);
    roll_back(&root, &op, &before);
    assert_eq!(installed(&root), listed);
    assert!(!root.has("/var/lib/kubexm/packages-keys.json") && !root.has("/var/lib/kubexm/packages.json"));
}

#[test]
fn what_was_excluded_since_it_was_planned_is_refused_in_dnfs_words() {
    let vendor = Vendor::new();
    let root = root(&vendor);
    let op = tool_op(&root, &vendor, &tool(&vendor));
    root.put("/etc/dnf/dnf.conf", "[main]\nexclude=kubexm-lib*\n");
    let listed = installed(&root);
    let error = dispatch::converge(&op, &root.machine).expect_err("a refusal").full();
    assert!(error.contains("exclude filtering") && error.contains("kubexm-library"), "{error}");
    assert_eq!(installed(&root), listed);
}

#[test]
fn a_reset_leaves_no_key_that_came_with_packages() {
    let vendor = Vendor::new();
    let root = root(&vendor);
    had(&root, &vendor.build("kubexm-library", "0.9", "", "", ""));
    let op = tool_op(&root, &vendor, &tool(&vendor));
    dispatch::converge(&op, &root.machine).expect("upgraded");
    let forgotten = Op::Reset(Reset::Purge { paths: Vec::new(), parents: Vec::new() });
    dispatch::converge(&forgotten, &root.machine).expect("forgotten");
    assert!(keys(&root) == 0 && !root.has("/var/lib/kubexm"), "{}", installed(&root));
}

#[test]
fn keys_go_with_a_step_that_cannot_be_rolled_back() {
    let vendor = Vendor::new();
    let root = root(&vendor);
    had(&root, &vendor.build("kubexm-library", "0.9", "", "", ""));
    let op = tool_op(&root, &vendor, &tool(&vendor));
    let why = "an older version is not at hand".to_owned();
    let step = Step::on("node1", "packages.upgrade", "Upgrade").ensure(op).undo(Undo::Irreversible { why }).build();
    let before = step::observe(&step, &root.machine).expect("a look");
    step::converge(&step, &root.machine, "run", 1, &before).expect("upgraded");
    assert_eq!(keys(&root), 1);
    for wave in Wave::ALL {
        step::undo(&step, &root.machine, "run", 2, &before, wave).expect("let go");
    }
    assert!(keys(&root) == 0 && installed(&root).contains("kubexm-library-1.0"), "{}", installed(&root));
}

#[test]
fn an_interrupted_update_is_recognized_and_finished() {
    let vendor = Vendor::new();
    let root = root(&vendor);
    let built = tool(&vendor);
    let op = tool_op(&root, &vendor, &built);
    dispatch::converge(&op, &root.machine).expect("installed");
    // As a transaction leaves it that came to an end between the new one and the old one.
    root.put("/tmp/old.rpm", vendor.build("kubexm-library", "0.9", "", "", ""));
    root.says("rpm", &["--install", "--oldpackage", "--nosignature", "/tmp/old.rpm"]);
    assert!(!look(&root, &op).satisfied);
    dispatch::converge(&op, &root.machine).expect("finished");
    let now = installed(&root);
    assert!(look(&root, &op).satisfied && !now.contains("library-0.9") && now.contains("library-1.0"), "{now}");
}

/// As chrony and another clock.
fn clocks(vendor: &Vendor, new: &str) -> Vec<Built> {
    let old = "Provides: time-thing\nConflicts: time-thing";
    vec![
        ("new-clock", "1.0", vendor.build("new-clock", "1.0", new, "", "")),
        ("old-clock", "1.0", vendor.build("old-clock", "1.0", old, "", "")),
    ]
}

#[test]
fn a_replaced_package_is_removed_alone_and_restored() {
    let vendor = Vendor::new();
    for new in ["Provides: time-thing\nConflicts: time-thing", "Obsoletes: old-clock"] {
        let root = root(&vendor);
        let built = clocks(&vendor, new);
        had(&root, &built[1].2);
        let listed = installed(&root);
        let Op::Packages(mut packages) = op(&root, &vendor, &built, &["new-clock", "old-clock"]) else {
            unreachable!()
        };
        let old = packages.packages.remove("old-clock").expect("the old one");

        // A plan that does not name it takes it not.
        let error = dispatch::converge(&packages.clone().into(), &root.machine).expect_err("a refusal").full();
        assert!(error.contains("old-clock"), "{error}");
        assert_eq!(installed(&root), listed, "{new}");

        packages.replaced.insert("old-clock".to_owned(), old);
        let op: Op = packages.into();
        let before = look(&root, &op);
        dispatch::converge(&op, &root.machine).expect("replaced");
        let now = installed(&root);
        assert!(now.contains("new-clock") && !now.contains("old-clock"), "{now}");
        roll_back(&root, &op, &before);
        assert_eq!(installed(&root), listed, "{new}");

        // What needs it does not leave with it.
        had(&root, &vendor.build("site-program", "1", "Requires: old-clock", "", ""));
        let listed = installed(&root);
        let error = dispatch::converge(&op, &root.machine).expect_err("a refusal").full();
        assert!(error.contains("site-program"), "{error}");
        assert_eq!(installed(&root), listed, "{new}");
    }
}

#[test]
fn newer_packages_are_left_and_nothing_else_of_the_repository_is_installed() {
    let vendor = Vendor::new();
    let root = root(&vendor);
    had(&root, &vendor.build("kubexm-library", "2.0", "", "", ""));
    let built = tool(&vendor);
    let op = tool_op(&root, &vendor, &built);
    let before = look(&root, &op);
    dispatch::converge(&op, &root.machine).expect("installed");
    assert!(look(&root, &op).satisfied && installed(&root).contains("kubexm-library-2.0"));
    roll_back(&root, &op, &before);
    assert!(installed(&root).contains("kubexm-library-2.0"));

    // The tool without its library, which the plan does not name.
    root.says("rpm", &["--erase", "kubexm-library"]);
    let Op::Packages(mut packages) = op else { unreachable!() };
    packages.packages.remove("kubexm-library");
    let error = dispatch::converge(&packages.into(), &root.machine).expect_err("a refusal").full();
    assert!(error.contains("kubexm-library"), "{error}");
    assert!(!installed(&root).contains("kubexm-library"));
}
