//! What facts say of installed packages, asked of the real dpkg and rpm, and read by the solver's own readers.

use std::path::Path;

use kubexm_ops::facts::collect;
use kubexm_packages::deb::status;
use kubexm_packages::rpm::installed;
use kubexm_plan::facts::InstalledPackages;
use kubexm_spec::Family;

use crate::packages::debs::Deb;
use crate::packages::private::{Root, bare};
use crate::packages::rpms::{Vendor, had};

fn facts(root: &Root) -> InstalledPackages {
    collect(&root.machine, "node1").expect("facts").packages.expect("packages")
}

#[test]
fn facts_of_debian_have_installed_held_and_half_installed_packages() {
    let root = Root::over(&bare());
    root.put("/tmp/a.deb", Deb::new("kubexm-held", "1:2.0-3").control("Provides: thing (= 2)\n").build());
    root.put("/tmp/b.deb", Deb::new("kubexm-broken", "1").script("postinst", "exit 1").build());
    root.says("dpkg", &["--install", "/tmp/a.deb"]);
    root.tells("dpkg", &["--install", "/tmp/b.deb"]);
    root.put("/tmp/held", "kubexm-held hold\n");
    root.says("sh", &["-c", "dpkg --set-selections < /tmp/held"]);
    let seen = facts(&root);
    assert_eq!((seen.family, seen.broken), (Family::Deb, None));
    let read = status::read(seen.list.as_bytes(), "amd64").expect("a status");
    let by_dpkg = root.says("dpkg-query", &["--show", "--showformat", "${Package} ${Version} ${db:Status-Abbrev}\n"]);
    let mut reported: Vec<String> = by_dpkg.lines().map(|line| line.trim().to_owned()).collect();
    let letters = |one: &status::Installed| match (one.held, one.whole) {
        (true, _) => "hi",
        (false, true) => "ii",
        (false, false) => "iF",
    };
    let mut ours: Vec<String> =
        read.iter().map(|one| format!("{} {} {}", one.package.name, one.package.version, letters(one))).collect();
    reported.sort();
    ours.sort();
    assert_eq!(ours, reported);
    assert!(
        reported.contains(&"kubexm-held 1:2.0-3 hi".to_owned()) && reported.contains(&"kubexm-broken 1 iF".to_owned())
    );
    let whole = root.read("/var/lib/dpkg/status").len();
    assert!(seen.list.len() < whole / 2, "{} of {whole} bytes", seen.list.len());

    root.put("/var/lib/dpkg/updates/0001", "");
    assert!(facts(&root).broken.expect("a reason").contains("interrupted"));
}

#[test]
fn a_running_package_manager_is_not_reported_as_interrupted() {
    let root = Root::over(&bare());
    let slow =
        Deb::new("site-slow", "1").script("postinst", "touch /tmp/at-work; while [ ! -e /tmp/go ]; do sleep 0.1; done");
    root.put("/tmp/slow.deb", slow.build());
    let broken = std::thread::scope(|scope| {
        let other = scope.spawn(|| root.says("dpkg", &["--install", "/tmp/slow.deb"]));
        while !root.has("/tmp/at-work") {
            std::thread::yield_now();
        }
        let seen = facts(&root);
        root.put("/tmp/go", "");
        other.join().expect("the other");
        seen.broken.expect("a reason")
    });
    assert!(broken.contains("another package manager is running: dpkg (process "), "{broken}");
    assert!(!broken.contains("interrupted") && facts(&root).broken.is_none(), "{broken}");
}

#[test]
fn facts_of_rpm_hosts_have_installed_packages_and_a_broken_database() {
    let root = Root::over(Path::new("/"));
    let _ = std::fs::remove_dir_all(root.machine.path("/root/.rpmdb"));
    root.put(
        "/etc/os-release",
        "ID=rocky\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.4\"\nVERSION=\"9.4 (Blue Onyx)\"\n",
    );
    let vendor = Vendor::new();
    let spec = "Epoch: 3\nProvides: thing = 2\nRequires: other >= 1:4\nRequires: (a if b)\nConflicts: worse < 5\nObsoletes: older <= 1";
    let install = "mkdir -p %{buildroot}/usr/bin %{buildroot}/opt; touch %{buildroot}/usr/bin/x %{buildroot}/opt/y";
    root.put("/tmp/a.rpm", vendor.build("kubexm-seen", "1.0", spec, install, "/usr/bin/x\n/opt/y"));
    root.says("rpm", &["--install", "--nosignature", "--nodeps", "/tmp/a.rpm"]);
    had(&root, &vendor.build("kubexm-plain", "1.0", "", "", ""));
    root.put("/etc/dnf/dnf.conf", "[main]\nexclude=php*\n");
    root.put("/etc/dnf/plugins/versionlock.list", "kubexm-plain-0:1.0-1.*\n");
    let seen = facts(&root);
    assert_eq!((seen.family, seen.broken), (Family::Rpm, None));
    assert!(!seen.list.contains("/opt/y"));
    assert!(seen.list.ends_with("X\tphp*\nL\tkubexm-plain\tkubexm-plain-0:1.0-1.*\n"), "{}", seen.list);
    let mut read = installed::read(&seen.list).expect("a list");
    read.sort_by(|one, other| one.name.cmp(&other.name));
    let reported: Vec<_> = read.iter().map(|one| (&*one.name, &*one.version, &*one.arch)).collect();
    assert_eq!(reported, [("kubexm-plain", "1.0-1", "noarch"), ("kubexm-seen", "3:1.0-1", "noarch")]);
    // What the file says of itself, but for the files that nothing asks for.
    let file = std::fs::read(root.machine.path("/tmp/a.rpm")).expect("an rpm");
    let rpm = kubexm_packages::rpm::file::Rpm::read(&mut file.as_slice()).expect("an rpm");
    let file = rpm.package(status::INSTALLED, "", 0, read[1].digest).expect("a package");
    let mut relations = (read[1].relations().expect("relations"), file.relations().expect("relations"));
    // rpmbuild writes what it needs itself in an order of its own.
    relations.0.requires.sort_by_key(|one| format!("{one:?}"));
    relations.1.requires.sort_by_key(|one| format!("{one:?}"));
    assert_eq!(relations.0, relations.1);
    assert_eq!(read[1].provides, file.provides);
    assert_eq!(read[1].files, ["/usr/bin/x".into()]);

    for entry in std::fs::read_dir(root.machine.path("/root/.rpmdb")).expect("a database").flatten() {
        std::fs::write(entry.path(), "no database\n").expect("broken");
    }
    let seen = facts(&root);
    assert!(seen.list.is_empty() && seen.broken.expect("a reason").contains("rpm -qa"), "{}", seen.list);
}
