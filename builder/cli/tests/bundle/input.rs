//! What is wrong with what a user hands in is reported with its place, by its own exit code, and before anything is asked for.

use kubexm_spec::{Digest, ExitCode};

use crate::server::{Server, nobody};
use crate::site::{Site, assert_contains, wanted};

fn cluster(site: &Site, spec: &str) {
    let text = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: one}\nspec:\n";
    site.write("cluster.yaml", format!("{text}{spec}"));
}

#[test]
fn a_wrong_cluster_yaml_is_reported_with_line_column_and_the_nearest_name() {
    let site = Site::new();
    let table: [(&str, ExitCode, &[&str]); 5] = [
        ("  kubernets: {}\n", ExitCode::Config, &["cluster.yaml", "line 5, column 3", "kubernets", "kubernetes"]),
        ("  kubernetes: {version: v1.99.0}\n", ExitCode::UnknownVersion, &["1.99", "nearest", "1.36"]),
        ("  runtime: {version: 9.9.9}\n", ExitCode::UnknownVersion, &["containerd", "9.9.9", "nearest"]),
        (
            "  hosts: [{name: a, address: 10.0.0.1, password: hunter2}]\n  roleGroups: {master: [a]}\n",
            ExitCode::InlineSecret,
            &["spec.hosts[0].password", "use privateKeyPath"],
        ),
        ("  bundle: {exclude: [hlem]}\n  kubernetes: {}\n", ExitCode::Config, &["hlem", "helm"]),
    ];
    for (spec, code, parts) in table {
        cluster(&site, spec);
        let text = site.refused(code, &[]);
        assert_contains(&text, parts);
        assert!(!text.contains("hunter2"), "a secret is shown: {text}");
    }
    assert_contains(
        &site.run(&["build", "-f", "none.yaml"]).must(ExitCode::Config).err,
        &["none.yaml", "No such file"],
    );
    assert_contains(
        &site.run(&["build", "--kubernetes", "v1.2.3"]).must(ExitCode::UnknownVersion).err,
        &["1.2", "nearest"],
    );
    assert_contains(&site.run(&["build", "--kubernetes", "latest"]).must(ExitCode::Config).err, &["latest", "v1.34"]);
}

#[test]
fn a_login_in_an_address_is_refused_and_not_shown() {
    let site = Site::new();
    let sha256 = Digest::of("x").hex();
    site.extras(&format!("extraFiles: [{{url: \"https://me:hunter2@host.test/f\", sha256: {sha256}}}]"));
    let text = site.refused(ExitCode::InlineSecret, &[]);
    assert_contains(&text, &["spec.bundle.extraFiles[0].url", "login"]);
    site.extras("extraImages: [{name: a.test/b:1}]");
    site.write("zone.yaml", "name: z\nrules: [{match: a.test, to: [\"me:hunter2@mirror.test/x\"]}]\n");
    let zone = site.refused(ExitCode::InlineSecret, &["--zone", "zone.yaml"]);
    assert_contains(&zone, &["zone.yaml", "rules[0].to[0]", "login"]);
    assert!(!(text + &zone).contains("hunter2"));
}

#[test]
fn what_must_be_on_this_machine_is_looked_for_before_any_origin_is_asked() {
    let site = Site::new();
    let server = Server::files(vec![("tool", b"tool".to_vec())]);
    site.extras(&format!(
        "extraFiles:\n{}\n- {{path: missing.txt}}\n- {{path: home}}\nextraImages: [{{name: \"a.test/b:1\", from: \"oci:none\"}}]",
        wanted(&server.url("tool"), b"tool")
    ));
    let text = site.refused(ExitCode::Config, &[]);
    assert_contains(
        &text,
        &[
            "3 artifacts failed",
            "missing.txt",
            "No such file",
            "home: it is not a regular file",
            "none: there is no such folder",
        ],
    );
    assert!(server.requests().is_empty(), "{:?}", server.requests());
    site.write("none/readme", "no layout");
    assert_contains(&site.refused(ExitCode::OriginMissing, &[]), &["none/oci-layout"]);
}

#[test]
fn a_cluster_without_the_installer_is_refused_before_any_origin_is_asked() {
    let site = Site::new();
    cluster(&site, "  kubernetes: {version: v1.34}\n  bundle: {platforms: [linux/arm64]}\n");
    site.write(
        "zone.yaml",
        format!("name: down\nrules: [{{match: dl.k8s.io, to: [\"http://{}\"], only: true}}]\n", nobody()),
    );
    let text = site.refused(ExitCode::Config, &["--zone", "zone.yaml"]);
    assert_contains(&text, &["no kubexm-install for linux/arm64", "kubexm-install-linux-arm64", "--installer FILE"]);
    assert!(!text.contains("linux-amd64"), "another platform's is not looked for: {text}");
    let script = site.write("script", "#!/bin/sh");
    assert_contains(
        &site.refused(ExitCode::Config, &["--installer", script.to_str().unwrap()]),
        &["script", "not a Linux program"],
    );
}

#[test]
fn a_bundle_of_nothing_and_a_list_of_no_images_are_refused_by_every_verb_that_would_take_them() {
    let site = Site::new();
    for bundle in ["{}", "{platforms: [linux/arm64], exclude: [helm]}", "{extraImages: [], extraFiles: []}"] {
        let file = format!("metadata: {{name: none}}\nspec:\n  bundle: {bundle}\n");
        site.write("cluster.yaml", format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\n{file}"));
        for verb in [&["lock"][..], &["build"], &["build", "--dry-run"], &["zone", "check"]] {
            let ended = site.run(&[verb, &["-f", "cluster.yaml"]].concat()).must(ExitCode::Config);
            assert_contains(
                &ended.err,
                &["there is nothing to bundle", "spec.kubernetes", "extraImages", "--images-from"],
            );
        }
    }
    for text in ["", "# none yet\n\n"] {
        site.write("list.txt", text);
        let build = ["build", "--kubernetes", "v1.34.4", "--images-from", "list.txt", "--dry-run"];
        assert_contains(
            &site.run(&build).must(ExitCode::Config).err,
            &["list.txt names no image", "omit --images-from"],
        );
    }
}

#[test]
fn a_typo_in_a_zone_or_an_overlay_is_reported_with_line_and_column() {
    let site = Site::new();
    site.write("notes", "x");
    site.extras("extraFiles: [{path: notes}]");
    assert_contains(&site.refused(ExitCode::Config, &["--zone", "gloabl"]), &["\"gloabl\"", "global", "cn"]);
    site.write("zone.yaml", "name: mine\nrules:\n- {match: dl.k8s.io, too: [\"http://mirror\"]}\n");
    assert_contains(
        &site.refused(ExitCode::Config, &["--zone", "zone.yaml"]),
        &["zone.yaml", "line 3, column 22", "too", "to"],
    );
    site.write(
        "overlay.yaml",
        "schema: kubexm.io/catalogue/v1\nname: mine\ncomponents:\n  containerdd: {default: 2.2.9}\n",
    );
    assert_contains(
        &site.refused(ExitCode::Config, &["--catalogue", "overlay.yaml"]),
        &["overlay.yaml", "line 4", "containerdd", "containerd"],
    );
    assert_contains(&site.refused(ExitCode::Config, &["--catalogue", "none.yaml"]), &["none.yaml", "No such file"]);
}

#[test]
fn a_file_that_is_not_utf8_is_answered_with_its_encoding_by_every_option_that_reads_one() {
    let site = Site::new();
    site.write("a.txt", "a");
    site.write("ok.yaml", crate::site::extras("extraFiles: [{path: a.txt}]"));
    site.run(&["build", "-f", "ok.yaml", "-o", "one.tar.zst"]).must(ExitCode::Ok);
    site.write("utf16", b"\xff\xfea\0:\0 \0b\0\n\0");
    site.write("gbk", b"# a\nname: \xc4\xe3\xba\xc3\n");
    let chart = "extraCharts:\n- {name: x, source: {repo: \"http://127.0.0.1:9/\", chart: x, version: 1.0.0}, valuesFile: FILE}";
    for (file, said) in [("utf16", "UTF-16 (it begins with a byte order mark)"), ("gbk", "in line 2, perhaps GBK")] {
        site.write("values.yaml", crate::site::extras(&chart.replace("FILE", file)));
        let verbs: [&[&str]; 9] = [
            &["build", "-f", file],
            &["build", "-f", "values.yaml"],
            &["build", "-f", "ok.yaml", "--zone", file],
            &["build", "-f", "ok.yaml", "--catalogue", file],
            &["build", "-f", "ok.yaml", "--images-from", file],
            &["build", "-f", "ok.yaml", "--locked", "--lock", file],
            &["build", "-f", "ok.yaml", "--registries-conf", file],
            &["import", file],
            &["import", "--live", file],
        ];
        for verb in verbs {
            let ended = site.run(verb).must(ExitCode::Config);
            assert_contains(&ended.err, &[file, "is not UTF-8", said, "save it as UTF-8"]);
        }
    }
    assert_contains(&site.run(&["verify", "one.tar.zst", "--key", "utf16"]).must(ExitCode::Config).err, &["UTF-16"]);
}

#[test]
fn a_file_of_kubekey_is_sent_to_import() {
    let site = Site::new();
    site.write("kk.yaml", "apiVersion: kubekey.kubesphere.io/v1alpha2\nkind: Cluster\nmetadata: {name: a}\nspec: {}\n");
    for verb in [&["build"][..], &["lock"], &["config"], &["explain", "helm"], &["zone", "check"]] {
        let ended = site.run(&[verb, &["-f", "kk.yaml"]].concat()).must(ExitCode::Config);
        assert_contains(&ended.err, &["a file of KubeKey", "kubexm-bundle import"]);
    }
}

#[test]
fn a_codename_is_answered_with_the_name_of_its_release() {
    let site = Site::new();
    cluster(&site, "  kubernetes: {version: v1.34.4}\n  bundle: {os: [bookworm]}\n");
    assert_contains(
        &site.refused(ExitCode::Config, &[]),
        &["spec.bundle.os[0]", "\"bookworm\" is the codename of debian-12; write debian-12"],
    );
    // A command line takes it as it is: a mirror that does not answer is all that is missing.
    let mirror = format!("http://{}", nobody());
    let resolve = ["packages", "resolve", "--os", "jammy", "--mirror", &mirror, "--offline", "socat"];
    let ended = site.run(&resolve);
    assert!(!ended.err.contains("there is no operating system"), "{}", ended.err);
}

#[test]
fn a_range_of_too_many_hosts_is_answered_with_two_that_fit() {
    let site = Site::new();
    let hosts = "  hosts: [{name: n1, address: 10.0.0.1}]\n";
    cluster(&site, &format!("{hosts}  roleGroups: {{master: [n1], worker: [\"n[1:1500]\"]}}\n"));
    assert_contains(
        &site.refused(ExitCode::Config, &[]),
        &["\"n[1:1500]\" is 1500 hosts", "one range may have 1000", "n[1:1000], n[1001:1500]"],
    );
    cluster(&site, &format!("{hosts}  roleGroups: {{master: [n1], worker: [\"n[3:1]\"]}}\n"));
    assert_contains(&site.refused(ExitCode::Config, &[]), &["goes downwards; write n[1:3]"]);
}

#[test]
fn a_cause_that_many_artifacts_share_is_reported_once() {
    let (site, down) = (Site::new(), nobody());
    let files: Vec<String> =
        (0..12).map(|n| wanted(&format!("http://{down}/f{n}"), format!("{n}").as_bytes())).collect();
    site.extras(&format!("extraFiles:\n{}", files.join("\n")));
    let text = site.refused(ExitCode::OriginDown, &[]);
    assert_contains(
        &text,
        &["12 artifacts failed:", &format!("- 12 artifacts: http://{down}: request failed"), "file/f0"],
    );
    let error = &text[text.find("error:").unwrap()..];
    assert_eq!(error.matches("request failed").count(), 1, "{error}");
}
