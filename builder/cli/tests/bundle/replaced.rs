//! What is at `-o` already: what is ours is renewed, what is somebody else's is not, and a link stays a link.

use std::os::unix::fs::symlink;
use std::path::Path;

use kubexm_spec::{ExitCode, Lock};

use crate::server::{Server, file};
use crate::site::{Site, assert_contains, noise, wanted};

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
fn a_file_that_is_no_lock_is_replaced_by_one_with_force_only_and_is_reported_before_anything_is_asked() {
    let (site, server) = site();
    let package_lock = "{\"name\": \"web\", \"lockfileVersion\": 3}\n";
    for foreign in ["mine\n", package_lock, "see kubexm.io/lock/v1 for locks\n"] {
        site.write("cluster.lock.json", foreign);
        let named = lock(&site, "cluster.lock.json", &[], ExitCode::Usage);
        let by_itself = site.run(&["lock", "-f", "cluster.yaml"]).must(ExitCode::Usage).err;
        for said in [named, by_itself] {
            assert_contains(&said, &["cluster.lock.json exists and is not a lock", "--force", "-o"]);
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
fn a_file_that_is_no_bundle_is_replaced_by_one_with_force_only_and_is_reported_before_anything_is_asked() {
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
        assert_contains(&said, &[&format!("{foreign} exists and is not a bundle"), "--force", "-o"]);
        assert_eq!(std::fs::read(site.path(foreign)).unwrap(), before);
    }
    site.write("volumes.tar.zst.002", "mine\n");
    let said = build(&site, "volumes.tar.zst", &["--split", "64K"], ExitCode::Usage);
    assert_contains(&said, &["volumes.tar.zst.002 exists and is not a bundle"]);
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
fn a_bundle_behind_a_link_is_refused_and_the_link_stays() {
    let (site, server) = site();
    site.write("elsewhere/real.tar.zst", "");
    site.write("elsewhere/own.txt", "mine\n");
    for (link, target) in [
        ("latest.tar.zst", "elsewhere/real.tar.zst"),
        ("foreign.tar.zst", "elsewhere/own.txt"),
        ("dangling.tar.zst", "nowhere.tar.zst"),
    ] {
        symlink(target, site.path(link)).unwrap();
        for more in [&[][..], &["--force"]] {
            let said = build(&site, link, more, ExitCode::Usage);
            assert_contains(
                &said,
                &[&format!("{link} is a symbolic link to {target}"), "name the file itself with -o"],
            );
        }
        assert!(is_link(&site.path(link)));
    }
    symlink("elsewhere/own.txt", site.path("volumes.tar.zst.001")).unwrap();
    let said = build(&site, "volumes.tar.zst", &["--split", "64K", "--force"], ExitCode::Usage);
    assert_contains(&said, &["volumes.tar.zst.001 is a symbolic link to elsewhere/own.txt"]);
    assert!(is_link(&site.path("volumes.tar.zst.001")));
    assert_eq!((text(&site, "elsewhere/own.txt").as_str(), server.requests().len()), ("mine\n", 0));
    // What is read is never replaced, whatever is said.
    symlink("cluster.yaml", site.path("input.tar.zst")).unwrap();
    let said = build(&site, "input.tar.zst", &["--force"], ExitCode::Usage);
    assert_contains(&said, &["cluster.yaml is one of the files that are read"]);
}

#[test]
fn no_verb_replaces_what_is_no_regular_file_or_somebody_elses() {
    let (site, _server) = site();
    site.write(
        "from.yaml",
        "apiVersion: kubekey.kubesphere.io/v1alpha2\nkind: Manifest\nspec: {images: [docker.io/library/busybox:1]}\n",
    );
    site.run(&["build", "-f", "cluster.yaml", "-o", "out.tar.zst"]).must(ExitCode::Ok);
    site.run(&["build", "-f", "cluster.yaml", "--base", "out.tar.zst", "-o", "delta.tar.zst"]).must(ExitCode::Ok);
    site.run(&["keygen", "-o", "release"]).must(ExitCode::Ok);
    let verbs: [&[&str]; 9] = [
        &["build", "-f", "cluster.yaml"],
        &["join", "out.tar.zst"],
        &["merge", "out.tar.zst", "delta.tar.zst"],
        &["lock", "-f", "cluster.yaml"],
        &["init"],
        &["import", "from.yaml"],
        &["sbom", "out.tar.zst", "--format", "spdx"],
        &["provenance", "out.tar.zst"],
        &["sign", "--key", "release.key", "--detached", "out.tar.zst"],
    ];
    std::fs::create_dir(site.path("odd")).unwrap();
    let odd = |name: &str| site.path("odd").join(name);
    let made = std::process::Command::new("mkfifo").arg(odd("pipe")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(odd("socket")).unwrap();
    std::fs::create_dir(odd("folder")).unwrap();
    symlink("../out.tar.zst", odd("link")).unwrap();
    site.write("odd/mine.txt", "mine\n");
    let kind = |name: &str| std::fs::symlink_metadata(odd(name)).unwrap().file_type();
    let before: Vec<_> = ["pipe", "socket", "folder", "link"].map(kind).to_vec();
    for verb in verbs {
        for (name, problem) in [
            ("odd/pipe", "is a named pipe"),
            ("odd/socket", "is a socket"),
            ("odd/folder", "is a folder"),
            ("odd/link", "symbolic link to ../out.tar.zst"),
            ("/dev/null", "/dev/null is a device"),
        ] {
            // What a link leads to may be what is read, and that is reported first.
            let problem = if name == "odd/link" && verb.contains(&"out.tar.zst") { "out.tar.zst" } else { problem };
            for more in [&[][..], &["--force"]] {
                let said = site.run(&[verb, &["-o", name], more].concat()).must(ExitCode::Usage).err;
                assert_contains(&said, &[problem]);
            }
        }
        let said = site.run(&[verb, &["-o", "odd/mine.txt"]].concat()).must(ExitCode::Usage).err;
        assert_contains(&said, &["odd/mine.txt", "exists", "--force", "-o"]);
        assert_eq!(text(&site, "odd/mine.txt"), "mine\n");
        site.run(&[verb, &["-o", "odd/mine.txt", "--force"]].concat()).must(ExitCode::Ok);
        assert_ne!(text(&site, "odd/mine.txt"), "mine\n", "{verb:?}");
        // Its own output is renewed without a word, but for what people edit.
        let again = if matches!(verb[0], "init" | "import") { ExitCode::Usage } else { ExitCode::Ok };
        site.run(&[verb, &["-o", "odd/mine.txt"]].concat()).must(again);
        site.write("odd/mine.txt", "mine\n");
    }
    assert_eq!(["pipe", "socket", "folder", "link"].map(kind).to_vec(), before);
    assert!(std::os::unix::fs::FileTypeExt::is_char_device(&std::fs::metadata("/dev/null").unwrap().file_type()));
    assert_eq!(crate::site::names(&site.path("odd")), ["folder", "link", "mine.txt", "pipe", "socket"]);
}

#[test]
fn a_dash_is_standard_output_and_gets_the_very_bytes_of_the_file() {
    let (site, _server) = site();
    site.write(
        "from.yaml",
        "apiVersion: kubekey.kubesphere.io/v1alpha2\nkind: Manifest\nspec: {images: [docker.io/library/busybox:1]}\n",
    );
    site.run(&["build", "-f", "cluster.yaml", "-o", "out.tar.zst"]).must(ExitCode::Ok);
    site.run(&["build", "-f", "cluster.yaml", "--base", "out.tar.zst", "-o", "delta.tar.zst"]).must(ExitCode::Ok);
    site.run(&["keygen", "--algorithm", "ed25519", "-o", "release"]).must(ExitCode::Ok);
    let verbs: [&[&str]; 9] = [
        &["build", "-f", "cluster.yaml"],
        &["join", "out.tar.zst"],
        &["merge", "out.tar.zst", "delta.tar.zst"],
        &["lock", "-f", "cluster.yaml"],
        &["init"],
        &["import", "from.yaml"],
        &["sbom", "out.tar.zst", "--format", "cyclonedx"],
        &["provenance", "out.tar.zst"],
        &["sign", "--key", "release.key", "--detached", "out.tar.zst"],
    ];
    for verb in verbs {
        site.run(&[verb, &["-o", "made", "--force"]].concat()).must(ExitCode::Ok);
        let output = site.program().args(verb).args(["-o", "-"]).output().unwrap();
        assert!(output.status.success(), "{verb:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == std::fs::read(site.path("made")).unwrap(), "{verb:?}");
    }
    assert!(!site.path("-").exists());
    for (verb, more) in [
        (&["lock", "-f", "cluster.yaml"][..], &["--json"][..]),
        (&["build", "-f", "cluster.yaml"], &["--json"]),
        (&["join", "out.tar.zst"], &["--split", "64K"]),
        (&["build", "-f", "cluster.yaml"], &["--hand-over", "folder"]),
    ] {
        let said = site.run(&[verb, &["-o", "-"], more].concat()).must(ExitCode::Usage);
        assert_contains(&(said.out + &said.err), &[more[0]]);
    }
    let said = site.run(&["build", "-f", "cluster.yaml", "-o", "/dev/stdout"]).must(ExitCode::Usage).err;
    assert_contains(&said, &["/dev/stdout is ", "or - for standard output"]);
}
