//! dnf and rpm.

use std::path::Path;

use kubexm_ops::{Wave, dispatch};
use kubexm_plan::{Found, Op};

use crate::private::Root;
use crate::rpms::{Built, Vendor, had, left_of_work, op};

const UNIT: &str = "[Service]\\nExecStart=/usr/bin/tool-daemon\\n[Install]\\nWantedBy=multi-user.target\\n";

/// This machine has dnf; its list of installed rpms is empty but for a shell.
fn root(vendor: &Vendor) -> Root {
    let root = Root::over(Path::new("/"));
    let _ = std::fs::remove_dir_all(root.machine.path("/root/.rpmdb"));
    had(&root, &vendor.build("site-shell", "1", "Provides: /bin/sh", "", ""));
    root
}

/// A tool with a library, a service that a script enables, and a recommendation that cannot be followed.
fn tool(vendor: &Vendor) -> Vec<Built> {
    let spec = "Epoch: 2\nRequires: kubexm-library\nRecommends: kubexm-more\n%post\ntouch /tmp/reached\n\
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

fn look(root: &Root, op: &Op) -> Found {
    dispatch::observe(op, &root.machine).expect("a look")
}

fn take_back(root: &Root, op: &Op, before: &Found) {
    for wave in Wave::ALL {
        dispatch::restore(op, &root.machine, &before.state, wave).expect("taken back");
    }
}

fn installed(root: &Root) -> String {
    let mut lines: Vec<String> = root.says("rpm", &["-qa"]).lines().map(str::to_owned).collect();
    lines.sort();
    lines.join(" ")
}

#[test]
fn what_dnf_installed_is_there_and_quiet_and_goes_with_the_keys_that_came() {
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
    assert!(root.has("/tmp/reached"));
    assert_eq!(root.tells("systemctl", &["is-enabled", "tool.service"]).trim(), "disabled");
    assert_eq!(left_of_work(&root), ["kubexm-library-1.0-1.noarch.rpm", "kubexm-tool-1.0-1.noarch.rpm"]);
    assert!(!root.has("/var/lib/kubexm/packages.json"));

    take_back(&root, &op, &before);
    assert_eq!(installed(&root), listed);
    assert!(!root.has("/usr/bin/kubexm-tool") && !root.has("/etc/tool.conf"));
    assert!(!root.has("/var/lib/kubexm/packages-keys.json") && !root.has("/var/lib/kubexm/packages.json"));
    assert_eq!(left_of_work(&root), Vec::<String>::new());
}

#[test]
fn a_key_that_the_site_believed_before_stays() {
    let vendor = Vendor::new();
    let root = root(&vendor);
    let op = tool_op(&root, &vendor, &tool(&vendor));
    root.says("rpm", &["--import", "/var/lib/kubexm/repos/rocky-9-x86_64/vendor.asc"]);
    let listed = installed(&root);
    assert!(listed.contains("gpg-pubkey"), "{listed}");
    let before = look(&root, &op);
    dispatch::converge(&op, &root.machine).expect("installed");
    take_back(&root, &op, &before);
    assert_eq!(installed(&root), listed);
}

#[test]
fn killed_in_the_middle_dnf_is_finished_or_taken_back() {
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
        take_back(&root, &op, &before);
        assert_eq!(installed(&root), listed, "finish: {finish}");
        assert_eq!(left_of_work(&root), Vec::<String>::new());
        assert!(!root.has("/var/lib/kubexm/packages.json"));
    }
}

#[test]
fn what_others_need_by_now_stays_and_the_rest_goes() {
    let vendor = Vendor::new();
    let root = root(&vendor);
    let op = tool_op(&root, &vendor, &tool(&vendor));
    let before = look(&root, &op);
    dispatch::converge(&op, &root.machine).expect("installed");
    had(&root, &vendor.build("site-program", "1", "Requires: kubexm-library", "", ""));
    take_back(&root, &op, &before);
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
fn what_is_newer_already_is_left_and_nothing_else_of_the_repository_comes() {
    let vendor = Vendor::new();
    let root = root(&vendor);
    had(&root, &vendor.build("kubexm-library", "2.0", "", "", ""));
    let built = tool(&vendor);
    let op = tool_op(&root, &vendor, &built);
    let before = look(&root, &op);
    dispatch::converge(&op, &root.machine).expect("installed");
    assert!(look(&root, &op).satisfied && installed(&root).contains("kubexm-library-2.0"));
    take_back(&root, &op, &before);
    assert!(installed(&root).contains("kubexm-library-2.0"));

    // The tool without its library, which the plan does not name.
    root.says("rpm", &["--erase", "kubexm-library"]);
    let Op::Packages(mut packages) = op else { unreachable!() };
    packages.packages.remove("kubexm-library");
    let error = dispatch::converge(&packages.into(), &root.machine).expect_err("a refusal").full();
    assert!(error.contains("kubexm-library"), "{error}");
    assert!(!installed(&root).contains("kubexm-library"));
}
