//! Programs are compressed together: every verb writes and reads such a bundle as any other.

use std::path::PathBuf;
use std::process::Stdio;

use kubexm_archive::{Bundle, members};
use kubexm_spec::{Digest, ExitCode};

use crate::http::{read, serve};
use crate::registry::{Registry, Setup};
use crate::site::{Site, assert_contains, bundles, noise};

const NAMES: [&str; 3] = ["kubeadm", "kubectl.amd64", "kubelet"];

fn program(name: &str) -> Vec<u8> {
    [name.as_bytes().to_vec(), noise(7, 2 << 20), noise(name.len() as u64, 10_000)].concat()
}

/// A site with three programs, something that is none, and a text.
fn site() -> (Site, PathBuf) {
    let site = Site::new();
    for name in NAMES {
        site.write(name, program(name));
    }
    site.write("disk.img", noise(9, 2 << 20));
    site.write("notes.txt", "read me\n".repeat(100));
    // Not in the order in which they are packed.
    site.extras(
        "extraFiles: [{path: notes.txt}, {path: kubelet}, {path: disk.img}, {path: kubeadm}, {path: kubectl.amd64}]",
    );
    let bundle = site.built(&[]);
    (site, bundle)
}

fn member(name: &str) -> String {
    members::blob_name(&Digest::of(program(name)))
}

#[test]
fn programs_are_neighbours_by_name_and_take_the_place_of_one() {
    let (site, path) = site();
    let bundle = Bundle::open(&path).unwrap();
    let groups = &bundle.layout().groups;
    let group = groups.first().unwrap();
    assert_eq!((groups.len(), group.members, &group.first), (1, 3, &member("kubeadm")));
    let names: Vec<&str> = bundle.members().map(|member| member.name.as_str()).collect();
    let at = names.iter().position(|name| *name == group.first).unwrap();
    assert_eq!(&names[at..at + 3], NAMES.map(member));
    let size = path.metadata().unwrap().len();
    assert!(size < (2 << 20) + (2 << 20) + 200_000, "{size} bytes: the three share most of theirs");
    let folder = site.unpack(&path);
    for name in NAMES {
        assert!(std::fs::read(folder.join(member(name))).unwrap() == program(name));
    }
    // On any number of cores, and again.
    let first = std::fs::read(&path).unwrap();
    for cpus in ["0", "0-1"] {
        let mut build = std::process::Command::new("taskset");
        build.args(["-c", cpus]).arg(assert_cmd::cargo::cargo_bin("kubexm-bundle"));
        build.args(["build", "-f", "cluster.yaml", "-o", "again.zst", "--cache", "cache"]);
        assert!(build.current_dir(site.path("")).env("KUBEXM_HOME", site.path("kubexm")).status().unwrap().success());
        assert!(std::fs::read(site.path("again.zst")).unwrap() == first, "{cpus}");
    }
}

#[test]
fn a_group_is_read_from_a_file_a_stream_and_a_web_server() {
    let (site, path) = site();
    let name = path.to_str().unwrap();
    site.run(&["verify", name]).must(ExitCode::Ok);
    site.run(&["verify", "--quick", name]).must(ExitCode::Ok);
    let mut verify = std::process::Command::new(assert_cmd::cargo::cargo_bin("kubexm-bundle"));
    let input = std::fs::File::open(&path).unwrap();
    verify.env("KUBEXM_HOME", site.path("kubexm"));
    assert!(verify.args(["verify", "-"]).stdin(input).stdout(Stdio::null()).status().unwrap().success());
    let server = serve(&path, |_, reply| reply);
    read(&site, "verify", &server, &[]).must(ExitCode::Ok);
    let middle = member("kubectl.amd64");
    let digest = middle.trim_start_matches(members::BLOBS);
    let mut cat = site.program();
    let output = cat.args(["cat", name, &middle]).output().unwrap();
    assert!(output.stdout == program("kubectl.amd64"), "{}", String::from_utf8_lossy(&output.stderr));
    let url = server.url("bundles/site.tar.zst");
    let mut cat = site.program();
    let output = cat.args(["cat", "--plain-http", "--range", "2097000-2099000", &url, &middle]).output().unwrap();
    assert!(output.stdout == program("kubectl.amd64")[2_097_000..=2_099_000], "{digest}");
}

#[test]
fn a_group_survives_a_registry_volumes_a_delta_and_a_merge_byte_for_byte() {
    let (site, path) = site();
    let whole = std::fs::read(&path).unwrap();
    let same = |name: &str| assert!(std::fs::read(site.path(name)).unwrap() == whole, "{name}");
    let registry = Registry::start(Setup::default());
    let at = registry.oci("groups:v1");
    site.run(&["push", "out.tar.zst", &at, "--plain-http"]).must(ExitCode::Ok);
    // A cache of its own: what was fetched from a registry is said to be from there by the next build.
    site.run(&["pull", &at, "-o", "pulled.zst", "--plain-http", "--cache", "other"]).must(ExitCode::Ok);
    same("pulled.zst");

    std::fs::remove_file(&path).unwrap();
    assert_contains(&site.refused(ExitCode::Usage, &["--split", "1M"]), &["too small", "a group of programs"]);
    assert!(bundles(&site.path("")).iter().all(|name| name == "pulled.zst"));
    site.build(&["--split", "3M"]).must(ExitCode::Ok);
    site.run(&["join", "out.tar.zst.001", "-o", "joined.zst"]).must(ExitCode::Ok);
    same("joined.zst");

    let newer = [program("kubelet"), noise(3, 5_000)].concat();
    site.write("kubelet", &newer);
    site.built(&[]);
    std::fs::rename(site.path("out.tar.zst"), site.path("full.zst")).unwrap();
    site.built(&["--base", "pulled.zst"]);
    let delta = site.path("out.tar.zst").metadata().unwrap().len();
    assert!(delta < (2 << 20) + 100_000, "{delta} bytes: the new program alone");
    site.run(&["merge", "pulled.zst", "out.tar.zst", "-o", "merged.zst"]).must(ExitCode::Ok);
    assert!(std::fs::read(site.path("merged.zst")).unwrap() == std::fs::read(site.path("full.zst")).unwrap());
}
