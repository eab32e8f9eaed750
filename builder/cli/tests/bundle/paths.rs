//! A path in a file is relative to that file, `~` is the user's home; a path on the command line is relative to where one
//! is.

use kubexm_spec::ExitCode;

use crate::images::two_platforms;
use crate::registry::{PASSWORD, Registry, Setup, USER};
use crate::site::{Site, assert_contains, end, extras};

#[test]
fn paths_in_cluster_yaml_are_relative_to_it_wherever_one_stands() {
    let site = Site::new();
    site.write("project/notes.txt", "of the project");
    site.write("notes.txt", "of the working directory");
    two_platforms(site.path("project/layout"), "x");
    site.write(
        "project/cluster.yaml",
        extras("extraFiles: [{path: notes.txt}]\nextraImages: [{name: \"a.test/b:1\", from: \"oci:layout\"}]"),
    );
    site.run(&["build", "-f", "project/cluster.yaml", "-o", "out.tar.zst"]).must(ExitCode::Ok);
    let from_here = std::fs::read(site.path("out.tar.zst")).unwrap();
    let mut there = site.program();
    there.current_dir(site.path("project")).args(["build", "-f", "cluster.yaml", "-o", "../out.tar.zst"]);
    end(&mut there).must(ExitCode::Ok);
    assert_eq!(std::fs::read(site.path("out.tar.zst")).unwrap(), from_here);
    let folder = site.unpack(&site.path("out.tar.zst"));
    let digest = kubexm_spec::Digest::of("of the project").hex();
    assert!(folder.join("blobs/sha256").join(digest).exists());
}

#[test]
fn a_tilde_in_a_path_is_the_users_home() {
    let site = Site::new();
    site.write("home/notes.txt", "at home");
    two_platforms(site.path("home/layout"), "x");
    site.extras("extraFiles: [{path: \"~/notes.txt\"}]\nextraImages: [{name: \"a.test/b:1\", from: \"oci:~/layout\"}]");
    site.built(&[]);
    let mut homeless = site.program();
    homeless.env_remove("HOME").args(["build", "-f", "cluster.yaml", "--dry-run"]);
    assert_contains(&end(&mut homeless).must(ExitCode::Config).err, &["~/notes.txt", "HOME is not set"]);
}

/// A registry with a certificate of its own and a password: zone, CA file and login all come from files.
#[test]
fn the_ca_file_of_a_zone_is_relative_to_the_zone_and_the_login_is_dockers() {
    let (site, registry) = (Site::new(), Registry::start(Setup { tls: true, password: true }));
    let (made, ..) = two_platforms(site.path("made"), "v1");
    registry.push(made.path(), "team/app", "v1");
    let zone = |ca: &str| {
        format!("name: inside\nrules:\n- {{match: registry.test, to: [\"{}\"], only: true{ca}}}\n", registry.address)
    };
    site.write("zones/inside.yaml", zone(", caFile: ca.crt"));
    std::fs::copy(registry.ca(), site.path("zones/ca.crt")).unwrap();
    site.write(
        "project/cluster.yaml",
        extras("zone: ../zones/inside.yaml\nextraImages: [{name: \"registry.test/team/app:v1\"}]"),
    );
    let build = |site: &Site| site.run(&["build", "-f", "project/cluster.yaml", "-o", "out.tar.zst"]);

    let denied = build(&site).must(ExitCode::OriginDenied);
    assert_contains(&denied.err, &["extra-image/registry.test/team/app:v1", &registry.address, "docker config"]);
    let login = serde_json::json!({"auths": {&registry.address: {"username": USER, "password": PASSWORD}}});
    site.write("home/.docker/config.json", login.to_string());
    build(&site).must(ExitCode::Ok);

    site.write("zones/inside.yaml", zone(", caFile: \"~/ca.crt\""));
    std::fs::copy(registry.ca(), site.path("home/ca.crt")).unwrap();
    build(&site).must(ExitCode::Ok);
    site.write("zones/inside.yaml", zone(", caFile: missing.crt"));
    assert_contains(&build(&site).must(ExitCode::Config).err, &["zones/missing.crt"]);
    site.write("zones/inside.yaml", zone(""));
    let untrusted = build(&site).must(ExitCode::OriginDown);
    assert_contains(&untrusted.err, &["invalid peer certificate", "caFile"]);
}

#[test]
fn a_place_that_cannot_be_written_is_reported_before_anything_is_fetched() {
    let site = Site::new();
    let server = crate::server::Server::files(vec![("a", b"a".to_vec())]);
    site.extras(&format!("extraFiles:\n{}", crate::site::wanted(&server.url("a"), b"a")));
    for (target, why) in [("missing/out.tar.zst", "does not exist"), ("home", "is a folder")] {
        let ended = site.run(&["build", "-f", "cluster.yaml", "-o", target]).must(ExitCode::Usage);
        assert_contains(&ended.err, &[target, why]);
    }
    assert!(server.requests().is_empty());
}
