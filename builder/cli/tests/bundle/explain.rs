//! `explain`: why something is in, from where, why it is trusted; what would bring it in; and what is unknown.

use kubexm_spec::ExitCode;

use crate::server::{Server, file};
use crate::site::{Site, assert_contains, wanted};

const HEAD: &str = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: prod}\nspec:\n";

#[test]
fn explain_reports_the_reasons_addresses_and_trust_of_an_item() {
    let site = Site::new();
    site.write("cluster.yaml", format!("{HEAD}  kubernetes: {{version: v1.34}}\n"));
    let text = site.run(&["explain", "kubeadm", "-f", "cluster.yaml", "--zone", "cn"]).must(ExitCode::Ok).out;
    assert_contains(
        &text,
        &[
            "binary/kubeadm 1.34.",
            "spec.kubernetes.version is v1.34, whose newest known patch is v1.34.",
            "https://files.m.daocloud.io/dl.k8s.io/release/v1.34.",
            "(mirror of zone cn)",
            "(the origin)",
            "trust  pinned: ",
            "digest sha256:",
        ],
    );
    let item = ["explain", "registry.k8s.io/pause", "-f", "cluster.yaml", "--json"];
    let document = site.run(&item).must(ExitCode::Ok).document();
    assert_eq!((&document["schema"], &document["in"]), (&"kubexm.io/explain/v1".into(), &true.into()));
    assert_eq!(document["items"][0]["key"], "image/pause");
    assert_eq!(document["items"][0]["sources"][0]["mirror"], false);
    assert_eq!(document["items"][0]["trust"], "oci-digest");
}

#[test]
fn explain_says_which_setting_would_include_a_missing_item() {
    let site = Site::new();
    site.write("cluster.yaml", format!("{HEAD}  kubernetes: {{version: v1.34.4}}\n  bundle: {{exclude: [helm]}}\n"));
    let text = site.run(&["explain", "helm", "-f", "cluster.yaml"]).must(ExitCode::Ok).out;
    assert_contains(&text, &["binary/helm is not in", "would be in with helm not in spec.bundle.exclude"]);
    let text = site.run(&["explain", "calicoctl", "-f", "cluster.yaml"]).must(ExitCode::Ok).out;
    assert_contains(&text, &["would be in with network.plugin: calico"]);
    let document = site.run(&["explain", "registry", "-f", "cluster.yaml", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["in"], false);
    assert!(document["with"].as_array().unwrap().contains(&"registry.type: registry".into()), "{document}");
}

#[test]
fn an_unknown_name_ends_with_the_nearest_ones() {
    let site = Site::new();
    let text = site.run(&["explain", "kubeadn", "--kubernetes", "v1.34.4"]).must(ExitCode::UnknownVersion).err;
    assert_contains(&text, &["nothing here is called \"kubeadn\"", "kubeadm"]);
}

#[test]
fn explain_knows_other_tags_add_ons_images_inside_installers_and_unused_tools() {
    let site = Site::new();
    site.write("cluster.yaml", format!("{HEAD}  kubernetes: {{version: v1.34.4}}\n  registry: {{type: harbor}}\n"));
    let reported = |item: &str| site.run(&["explain", item, "-f", "cluster.yaml"]).must(ExitCode::Ok).out;
    let document =
        |item: &str| site.run(&["explain", item, "-f", "cluster.yaml", "--json"]).must(ExitCode::Ok).document();
    assert_contains(&reported("pause:3.9"), &["pause:3.9 is not in; under that name there is", "image/pause 3.10.1"]);
    assert_eq!(document("pause:3.9")["found"]["items"][0]["version"], "3.10.1");
    assert_contains(&reported("metrics-server"), &["is not in", "spec.addons: [{name: metrics-server, type: helm"]);
    let core = "docker.io/goharbor/harbor-core:v2.10.2";
    assert_contains(&reported("harbor-core"), &[&format!("{core} is in, inside of"), "binary/harbor 2.10.2"]);
    assert_eq!((&document(core)["answer"], &document(core)["in"]), (&"inside".into(), &true.into()));
    assert_contains(
        &reported("nerdctl"),
        &["nerdctl is not in: no cluster needs it", "spec.bundle.extraFiles: [{url: "],
    );
    assert_eq!(document("nerdctl")["answer"], "never");
    // An unknown tag's answer to a machine says that it is not in.
    assert_eq!(
        (&document("pause:3.9")["in"], &document("pause:3.9")["answer"]),
        (&false.into(), &"other-version".into())
    );
}

#[test]
fn an_address_is_shown_without_what_may_be_a_key_in_it_and_locked_whole() {
    let (site, body) = (Site::new(), b"a tool".to_vec());
    let server = Server::start(move |request| file(request, &body));
    site.extras(&format!("extraFiles:\n{}", wanted(&server.url("tool?raw=1"), b"a tool")));
    for args in [&["explain", "tool"][..], &["explain", "tool", "--json"], &["build", "--dry-run"], &["zone", "check"]]
    {
        let ended = site.run(&[args, &["-f", "cluster.yaml"]].concat()).must(ExitCode::Ok);
        assert!(!(ended.out.clone() + &ended.err).contains("raw=1"), "{args:?}: {}", ended.out);
    }
    let ended = site.run(&["lock", "-f", "cluster.yaml"]).must(ExitCode::Ok);
    assert!(!(ended.out + &ended.err).contains("raw=1"));
    assert_contains(&std::fs::read_to_string(site.path("cluster.lock.json")).unwrap(), &["tool?raw=1"]);
    site.built(&["--locked"]);
}
