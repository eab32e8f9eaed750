//! `explain`: why something is in, from where, why it is believed; what would bring it in; and what is unknown.

use kubexm_spec::ExitCode;

use crate::site::{Site, says};

const HEAD: &str = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: prod}\nspec:\n";

#[test]
fn the_reasons_the_places_and_the_trust_of_an_item_are_told() {
    let site = Site::new();
    site.write("cluster.yaml", format!("{HEAD}  kubernetes: {{version: v1.34}}\n"));
    let text = site.run(&["explain", "kubeadm", "-f", "cluster.yaml", "--zone", "cn"]).must(ExitCode::Ok).out;
    says(
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
fn what_is_not_in_says_what_would_bring_it_in() {
    let site = Site::new();
    site.write("cluster.yaml", format!("{HEAD}  kubernetes: {{version: v1.34.4}}\n  bundle: {{exclude: [helm]}}\n"));
    let text = site.run(&["explain", "helm", "-f", "cluster.yaml"]).must(ExitCode::Ok).out;
    says(&text, &["binary/helm is not in", "would be in with helm not in spec.bundle.exclude"]);
    let text = site.run(&["explain", "calicoctl", "-f", "cluster.yaml"]).must(ExitCode::Ok).out;
    says(&text, &["would be in with network.plugin: calico"]);
    let document = site.run(&["explain", "registry", "-f", "cluster.yaml", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["in"], false);
    assert!(document["with"].as_array().unwrap().contains(&"registry.type: registry".into()), "{document}");
}

#[test]
fn an_unknown_name_ends_with_the_nearest_ones() {
    let site = Site::new();
    let text = site.run(&["explain", "kubeadn", "--kubernetes", "v1.34.4"]).must(ExitCode::UnknownVersion).err;
    says(&text, &["nothing here is called \"kubeadn\"", "kubeadm"]);
}
