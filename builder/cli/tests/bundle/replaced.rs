//! What stands at `-o` already: what is ours is renewed, what is somebody else's is not, and a link stays a link.

use std::os::unix::fs::symlink;
use std::path::Path;

use kubexm_spec::{ExitCode, Lock};

use crate::server::{Server, file};
use crate::site::{Site, noise, says, wanted};

/// A cluster of one file of a server, which knows whether it was asked.
fn site() -> (Site, Server) {
    let (site, server) = (Site::new(), Server::start(|request| file(request, &noise(3, 30_000))));
    site.extras(&format!("extraFiles:\n{}", wanted(&server.url("tool.bin"), &noise(3, 30_000))));
    (site, server)
}

fn lock(site: &Site, output: &str, more: &[&str], code: ExitCode) -> String {
    site.run(&[&["lock", "-f", "cluster.yaml", "-o", output], more].concat()).must(code).err
}

fn build(site: &Site, output: &str, more: &[&str], code: ExitCode) -> String {
    site.run(&[&["build", "-f", "cluster.yaml", "-o", output], more].concat()).must(code).err
}

fn text(site: &Site, name: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(site.path(name)).unwrap()).into_owned()
}

fn is_link(path: &Path) -> bool {
    std::fs::symlink_metadata(path).unwrap().is_symlink()
}

#[test]
fn a_file_that_is_no_lock_is_replaced_by_one_with_force_only_and_is_told_before_anything_is_asked() {
    let (site, server) = site();
    let package_lock = "{\"name\": \"web\", \"lockfileVersion\": 3}\n";
    for foreign in ["mine\n", package_lock, "see kubexm.io/lock/v1 for locks\n"] {
        site.write("cluster.lock.json", foreign);
        let named = lock(&site, "cluster.lock.json", &[], ExitCode::Usage);
        let by_itself = site.run(&["lock", "-f", "cluster.yaml"]).must(ExitCode::Usage).err;
        for said in [named, by_itself] {
            says(&said, &["cluster.lock.json is there, and is no lock", "--force", "-o"]);
        }
        assert_eq!(text(&site, "cluster.lock.json"), foreign);
    }
    assert_eq!(server.requests().len(), 0);
    lock(&site, "cluster.lock.json", &["--force"], ExitCode::Ok);
    let whole = text(&site, "cluster.lock.json");
    Lock::parse(whole.as_bytes()).unwrap();
    // Of another version, in the middle of a merge, cut off; nothing at all.
    let merging = whole.replacen("  \"items\"", "<<<<<<< HEAD\n  \"items\"", 1);
    for ours in [whole.replace("lock/v1", "lock/v9"), merging, whole[..60].to_owned(), String::new()] {
        site.write("cluster.lock.json", ours);
        lock(&site, "cluster.lock.json", &[], ExitCode::Ok);
        assert_eq!(text(&site, "cluster.lock.json"), whole);
    }
}

#[test]
fn a_file_that_is_no_bundle_is_replaced_by_one_with_force_only_and_is_told_before_anything_is_asked() {
    let (site, server) = site();
    site.write("notes/a.txt", "mine\n");
    let tar = |into: &str| {
        let mut tar = std::process::Command::new("tar");
        assert!(
            tar.arg("--zstd")
                .arg("-cf")
                .arg(site.path(into))
                .arg("-C")
                .arg(site.path("notes"))
                .arg("a.txt")
                .status()
                .unwrap()
                .success()
        );
    };
    tar("other.tar.zst");
    site.write("notes.txt", "mine\n");
    for foreign in ["other.tar.zst", "notes.txt"] {
        let before = std::fs::read(site.path(foreign)).unwrap();
        let said = build(&site, foreign, &[], ExitCode::Usage);
        says(&said, &[&format!("{foreign} is there, and is no bundle"), "--force", "-o"]);
        assert_eq!(std::fs::read(site.path(foreign)).unwrap(), before);
    }
    site.write("volumes.tar.zst.002", "mine\n");
    let said = build(&site, "volumes.tar.zst", &["--split", "64K"], ExitCode::Usage);
    says(&said, &["volumes.tar.zst.002 is there, and is no bundle"]);
    assert_eq!((text(&site, "volumes.tar.zst.002").as_str(), server.requests().len()), ("mine\n", 0));
    build(&site, "other.tar.zst", &["--force"], ExitCode::Ok);
    let whole = std::fs::read(site.path("other.tar.zst")).unwrap();
    for ours in [whole.clone(), whole[..100].to_vec(), Vec::new()] {
        site.write("other.tar.zst", ours);
        build(&site, "other.tar.zst", &[], ExitCode::Ok);
        assert_eq!(std::fs::read(site.path("other.tar.zst")).unwrap(), whole);
    }
    std::fs::remove_file(site.path("volumes.tar.zst.002")).unwrap();
    for _ in 0..2 {
        build(&site, "volumes.tar.zst", &["--split", "64K"], ExitCode::Ok);
    }
}

#[test]
fn a_bundle_behind_a_link_is_written_there_and_the_link_stays() {
    let (site, _server) = site();
    site.write("elsewhere/real.tar.zst", "");
    symlink("elsewhere/real.tar.zst", site.path("latest.tar.zst")).unwrap();
    for _ in 0..2 {
        build(&site, "latest.tar.zst", &[], ExitCode::Ok);
        assert!(is_link(&site.path("latest.tar.zst")));
    }
    site.run(&["verify", "elsewhere/real.tar.zst"]).must(ExitCode::Ok);
    assert_eq!(crate::site::names(&site.path("elsewhere")), ["real.tar.zst"]);

    site.write("elsewhere/own.txt", "mine\n");
    symlink("elsewhere/own.txt", site.path("foreign.tar.zst")).unwrap();
    says(&build(&site, "foreign.tar.zst", &[], ExitCode::Usage), &["foreign.tar.zst is there, and is no bundle"]);
    symlink("nowhere.tar.zst", site.path("dangling.tar.zst")).unwrap();
    says(
        &build(&site, "dangling.tar.zst", &[], ExitCode::Usage),
        &["dangling.tar.zst is a link to what cannot be had"],
    );
    assert!(is_link(&site.path("dangling.tar.zst")) && text(&site, "elsewhere/own.txt") == "mine\n");
    // A volume takes the place of a file of its name, not of what a link leads to.
    symlink("elsewhere/own.txt", site.path("volumes.tar.zst.001")).unwrap();
    let said = build(&site, "volumes.tar.zst", &["--split", "64K"], ExitCode::Usage);
    says(&said, &["volumes.tar.zst.001 is there, and is no bundle"]);
    assert!(is_link(&site.path("volumes.tar.zst.001")));
    // What is read is never replaced, whatever is said.
    symlink("cluster.yaml", site.path("input.tar.zst")).unwrap();
    let said = build(&site, "input.tar.zst", &["--force"], ExitCode::Usage);
    says(&said, &["cluster.yaml is one of the files that are read"]);
}

#[test]
fn what_is_imported_goes_behind_a_link_too_and_never_in_the_place_of_one() {
    let site = Site::new();
    site.write(
        "from.yaml",
        "apiVersion: kubekey.kubesphere.io/v1alpha2\nkind: Manifest\nspec: {images: [docker.io/library/busybox:1]}\n",
    );
    site.write("elsewhere/own.yaml", "mine\n");
    symlink("elsewhere/own.yaml", site.path("cluster.yaml")).unwrap();
    symlink("nowhere.yaml", site.path("dangling.yaml")).unwrap();
    let import = |output: &str, more: &[&str], code: ExitCode| {
        site.run(&[&["import", "from.yaml", "-o", output], more].concat()).must(code).err
    };
    says(&import("cluster.yaml", &[], ExitCode::Usage), &["cluster.yaml is there", "--force"]);
    says(&import("dangling.yaml", &[], ExitCode::Usage), &["dangling.yaml is there", "--force"]);
    says(&import("dangling.yaml", &["--force"], ExitCode::Usage), &["dangling.yaml is a link to what cannot be had"]);
    import("cluster.yaml", &["--force"], ExitCode::Ok);
    assert!(is_link(&site.path("cluster.yaml")) && is_link(&site.path("dangling.yaml")));
    says(&text(&site, "elsewhere/own.yaml"), &["docker.io/library/busybox:1"]);
}
