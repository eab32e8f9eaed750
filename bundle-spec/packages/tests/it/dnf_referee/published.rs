//! What we publish: read by dnf as createrepo_c's would be, and installed from.

use std::fs;
use std::path::Path;
use std::process::Command;

use kubexm_packages::rpm::file::Rpm;
use kubexm_packages::rpm::publish::{Item, metadata};
use kubexm_spec::Digest;

use crate::dnf_referee::repos::{self, made, run};
use crate::dnf_referee::{Universe, dnf, repo, traps};

/// Writes our own metadata over what createrepo_c made.
fn publish(folder: &Path) {
    fs::remove_dir_all(folder.join("repodata")).unwrap();
    let mut read = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let rpm = Rpm::read(&mut bytes.as_slice()).unwrap();
            assert_eq!(rpm.payload(), Some(Digest::of(&bytes[usize::try_from(rpm.range.1).unwrap()..])));
            let location = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            read.push((rpm, location, bytes.len() as u64, Digest::of(&bytes)));
        }
    }
    assert!(!read.is_empty());
    let items: Vec<_> =
        read.iter().map(|(rpm, location, size, digest)| Item { rpm, location, size: *size, digest: *digest }).collect();
    fs::create_dir(folder.join("repodata")).unwrap();
    for file in metadata(&items, 1_700_000_000).unwrap() {
        fs::write(folder.join(file.path), file.bytes).unwrap();
    }
}

#[test]
fn dnf_reads_our_metadata_as_it_reads_createrepos() {
    let folder = tempfile::tempdir().unwrap();
    let made = repos::build(folder.path(), &traps::packages());
    let repos = made.iter().map(|(id, folder)| repo(id, folder));
    let universe = Universe { arch: "x86_64", platform: "el9", repos: repos.collect(), enabled: &[] };
    let theirs = dnf::resolve(&universe, traps::SETS);
    made.values().for_each(|folder| publish(folder));
    let ours = dnf::resolve(&universe, traps::SETS);
    for ((set, theirs), ours) in traps::SETS.iter().zip(theirs).zip(ours) {
        assert_eq!(ours.ok(), theirs.ok(), "{set:?}");
    }
}

#[test]
fn dnf_installs_from_what_we_publish_packages_of_modules_too() {
    let folder = tempfile::tempdir().unwrap();
    let packages = [
        made("needs-share", "1-1", &["Requires: /usr/share/thing/data", "Requires: (lang if needs-share)"]),
        made("has-share", "1:2-3", &["/usr/share/thing/data"]),
        made("lang", "1.0-1", &["ModularityLabel: lang:1:820:aaaa", "/usr/bin/lang"]),
        made("unasked", "1-1", &[]),
    ];
    let made = repos::build(folder.path(), &packages);
    publish(&made["base"]);
    let (root, state) = (folder.path().join("root"), folder.path().join("state"));
    fs::create_dir_all(&state).unwrap();
    fs::write(
        state.join("kubexm.repo"),
        format!("[kubexm]\nname=kubexm\nbaseurl=file://{}\ngpgcheck=0\nmodule_hotfixes=1\n", made["base"].display()),
    )
    .unwrap();
    let option = |name: &str, path: &Path| format!("--setopt={name}={}", path.display());
    run(Command::new("/usr/bin/dnf")
        .args(["-y", "--quiet", "--noplugins", "--releasever=9", "--setopt=module_platform_id=platform:el9"])
        .arg(format!("--installroot={}", root.display()))
        .args([option("reposdir", &state), option("cachedir", &state.join("cache")), option("logdir", &state)])
        .args([option("persistdir", &state.join("persist")), option("varsdir", &state)])
        .args(["install", "needs-share"]));
    let query = "%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\n";
    let installed = run(Command::new("rpm").arg("--root").arg(&root).args(["-qa", "--qf", query]));
    let mut installed: Vec<_> = std::str::from_utf8(&installed).unwrap().lines().collect();
    installed.sort_unstable();
    assert_eq!(installed, ["has-share 1:2-3", "lang 0:1.0-1", "needs-share 0:1-1"]);
    assert!(root.join("usr/share/thing/data").is_file() && root.join("usr/bin/lang").is_file());
}
