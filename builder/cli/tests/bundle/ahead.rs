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
            assert_contains(&text, &[what, disk.path().to_str().unwrap(), "iB free", "at least 3.0 MiB are needed"]);
        }
    }
    let together = ["--locked", "-o", target.to_str().unwrap(), "--cache", cache.to_str().unwrap()];
    for text in refused(&site, &server, ExitCode::Disk, &together) {
        assert_contains(&text, &["no room for the bundle and the cache", "at least 6.0 MiB are needed"]);
    }
}

/// They are packed from where they lie.
#[test]
fn files_of_this_machine_need_no_room_in_the_cache() {
    let (site, disk) = (Site::new(), Tmpfs::mount("1m"));
    site.write("large.bin", noise(4, 3 << 20));
    site.extras("extraFiles: [{path: large.bin}]");
    let cache = disk.path().join("cache");
    site.built(&["--cache", cache.to_str().unwrap()]);
    assert_eq!(std::fs::read_dir(cache.join("blobs/sha256")).unwrap().count(), 0);
}

#[test]
fn a_hand_over_folder_without_room_is_found_before_anything_is_fetched() {
    let (site, disk) = (Site::new(), Tmpfs::mount("1m"));
    let server = Server::files(vec![("tool.tar.gz", noise(5, 3 << 20))]);
    site.extras(&format!("extraFiles:\n{}", wanted(&server.url("tool.tar.gz"), &noise(5, 3 << 20))));
    let other = site.path("other");
    site.run(&["lock", "-f", "cluster.yaml", "--cache", other.to_str().unwrap()]).must(ExitCode::Ok);
    let folder = disk.path().join("carry");
    for text in refused(&site, &server, ExitCode::Disk, &["--locked", "--hand-over", folder.to_str().unwrap()]) {
        assert_contains(&text, &["no room for the hand-over folder", "iB free", "at least 3.0 MiB are needed"]);
    }
    let (target, folder) = (disk.path().join("out.tar.zst"), folder.to_str().unwrap());
    let together = ["--locked", "-o", target.to_str().unwrap(), "--hand-over", folder];
    for text in refused(&site, &server, ExitCode::Disk, &together) {
        assert_contains(&text, &["the bundle and the hand-over folder", "at least 6.0 MiB are needed"]);
    }
    assert!(crate::site::names(disk.path()).is_empty());
}

#[test]
fn join_and_extract_find_a_disk_without_room_before_they_write() {
    let (site, disk) = (Site::new(), Tmpfs::mount("1m"));
    site.write("large.bin", noise(6, 3 << 20));
    site.write("small.txt", "small");
    site.extras("extraFiles: [{path: large.bin}, {path: small.txt}]");
    site.built(&[]);
    let at = |name: &str| disk.path().join(name).to_str().unwrap().to_owned();
    for (args, what) in [
        (["join", "out.tar.zst", "-o", &at("joined.tar.zst")].as_slice(), "no room for the bundle"),
        (&["join", "out.tar.zst", "--split", "2M", "-o", &at("parts.tar.zst")], "no room for the bundle"),
        (&["extract", "out.tar.zst", "--all", "-C", &at("all")], "no room for the files"),
        (&["extract", "out.tar.zst", "file/large.bin", "-C", &at("one")], "no room for the files"),
        (&["extract", "out.tar.zst", "file/large.bin", "--oci-archive", &at("one.tar")], "no room for the archive"),
    ] {
        let text = site.run(args).must(ExitCode::Disk).err;
        assert_contains(&text, &[what, disk.path().to_str().unwrap(), "iB free", "are needed"]);
        assert!(crate::site::names(disk.path()).is_empty(), "{args:?}: {:?}", crate::site::names(disk.path()));
    }
    site.run(&["extract", "out.tar.zst", "file/small.txt", "-C", &at("small")]).must(ExitCode::Ok);
}

#[test]
fn every_option_is_checked_by_a_dry_run_and_no_missing_file_is_a_fault_of_the_disk() {
    let site = Site::new();
    let server = Server::files(vec![("tool", b"tool".to_vec())]);
    site.write("a.txt", "a");
    site.write("bad.conf", "unqualified-search-registries = [");
    site.extras(&format!("extraFiles:\n{}", wanted(&server.url("tool"), b"tool")));
    let rows: [(&[&str], ExitCode, &[&str]); 11] = [
        (&["--registries-conf", "none.conf"], ExitCode::Config, &["registries.conf none.conf", "No such file"]),
        (&["--registries-conf", "bad.conf"], ExitCode::Config, &["bad.conf"]),
        (&["--helm", "none"], ExitCode::Config, &["none", "No such file"]),
        (&["--cache", "a.txt"], ExitCode::Usage, &["a.txt is not a folder", "--cache"]),
        (&["--cache", "a.txt/cache"], ExitCode::Usage, &["a.txt is not a folder", "--cache"]),
        (&["--hand-over", "a.txt"], ExitCode::Usage, &["a.txt is not a folder"]),
        (&["--hand-over", "a.txt/carry"], ExitCode::Usage, &["a.txt/carry is not a folder"]),
        (&["--hand-over", "none/carry"], ExitCode::Usage, &["the folder none does not exist; create it"]),
        (&["--hand-over", "out.tar.zst", "-o", "out.tar.zst"], ExitCode::Usage, &["the bundle's own name"]),
        (&["--hand-over", "carry", "--cache", "carry/cache"], ExitCode::Usage, &["the cache", "--hand-over"]),
        (&["--hand-over", "carry", "-o", "-"], ExitCode::Usage, &["-o"]),
    ];
    for (more, code, parts) in rows {
        for text in refused(&site, &server, code, more) {
            assert_contains(&text, parts);
        }
    }
    assert_eq!(crate::site::names(&site.path("")), ["a.txt", "bad.conf", "cluster.yaml", "home"]);
}
