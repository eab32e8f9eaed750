//! What a build would be refused for in the end is found before anything is fetched, by a dry run too.

use kubexm_spec::ExitCode;

use crate::disk::Tmpfs;
use crate::server::Server;
use crate::site::{Ended, Site, assert_contains, bundles, noise, wanted};

/// A dry run and a build, each refused before an origin is asked; what they wrote.
fn refused(site: &Site, server: &Server, code: ExitCode, more: &[&str]) -> Vec<String> {
    let asked = server.requests().len();
    let run = |dry: &[&str]| -> Ended { site.run(&[&["build", "-f", "cluster.yaml"], dry, more].concat()).must(code) };
    let texts = vec![run(&["--dry-run"]).err, run(&[]).err];
    assert_eq!(server.requests().len(), asked, "{:?}", server.requests());
    assert!(bundles(&site.path("")).is_empty(), "{:?}", bundles(&site.path("")));
    texts
}

#[test]
fn missing_files_and_folders_are_named_before_anything_is_fetched() {
    let site = Site::new();
    let server = Server::files(vec![("tool", b"tool".to_vec())]);
    let tool = wanted(&server.url("tool"), b"tool");
    let check = |bundle: &str, more: &[&str], code: ExitCode, parts: &[&str]| {
        site.extras(&format!("extraFiles:\n{tool}\n{bundle}"));
        for text in refused(&site, &server, code, more) {
            assert_contains(&text, parts);
        }
    };
    check("- {path: none.txt}", &[], ExitCode::Config, &["none.txt", "No such file"]);
    check("", &["-o", "none/out.tar.zst"], ExitCode::Usage, &["the folder", "none", "does not exist"]);
    check("", &["--base", "none.tar.zst"], ExitCode::NoSuchBundle, &["none.tar.zst", "does not exist"]);
    check("", &["--hand-over", "carry", "--key", "none.key"], ExitCode::Config, &["none.key", "No such file"]);
    check("", &["--installer", "none"], ExitCode::Config, &["none", "No such file"]);
    let chart = "extraCharts:\n- {name: x, source: {repo: \"http://127.0.0.1:9/\", chart: x, version: 1.0.0}, valuesFile: none.yaml}";
    check(chart, &[], ExitCode::Config, &["none.yaml", "No such file"]);
}

#[test]
fn volumes_that_are_too_small_are_refused_before_anything_is_fetched() {
    let site = Site::new();
    let server = Server::files(vec![("tool", noise(1, 100_000))]);
    site.extras(&format!("extraFiles:\n{}", wanted(&server.url("tool"), &noise(1, 100_000))));
    for text in refused(&site, &server, ExitCode::Usage, &["--split", "1M", "-o", "out.tar.zst"]) {
        assert_contains(&text, &["volumes of 1048576 bytes are too small", "at least --split 9M"]);
    }
    // Of files of this machine the sizes are known, and smaller volumes do.
    site.write("large.bin", noise(2, 300_000));
    site.extras("extraFiles: [{path: large.bin}]");
    for text in refused(&site, &server, ExitCode::Usage, &["--split", "200K", "-o", "out.tar.zst"]) {
        assert_contains(&text, &["volumes of 204800 bytes are too small"]);
    }
    site.run(&["build", "-f", "cluster.yaml", "--split", "400K", "-o", "out.tar.zst"]).must(ExitCode::Ok);
}

#[test]
fn a_disk_without_room_is_found_before_anything_is_fetched() {
    let (site, disk) = (Site::new(), Tmpfs::mount("1m"));
    let server = Server::files(vec![("tool.tar.gz", noise(3, 3 << 20))]);
    site.extras(&format!("extraFiles:\n{}", wanted(&server.url("tool.tar.gz"), &noise(3, 3 << 20))));
    // The lock has the sizes.
    let other = site.path("other");
    site.run(&["lock", "-f", "cluster.yaml", "--cache", other.to_str().unwrap()]).must(ExitCode::Ok);
    std::fs::remove_dir_all(&other).unwrap();
    let (target, cache) = (disk.path().join("out.tar.zst"), disk.path().join("cache"));
    for (option, path, what) in
        [("-o", &target, "no room for the bundle"), ("--cache", &cache, "no room for the cache")]
    {
        let more = ["--locked", option, path.to_str().unwrap()];
        for text in refused(&site, &server, ExitCode::Disk, &more) {
            assert_contains(&text, &[what, disk.path().to_str().unwrap(), "bytes free", "at least 3145728 are needed"]);
        }
    }
    let together = ["--locked", "-o", target.to_str().unwrap(), "--cache", cache.to_str().unwrap()];
    for text in refused(&site, &server, ExitCode::Disk, &together) {
        assert_contains(&text, &["no room for the bundle and the cache", "at least 6291456 are needed"]);
    }
}
