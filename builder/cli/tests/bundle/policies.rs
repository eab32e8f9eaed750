//! Texts of the user that cluster.yaml names: carried by digest, and what cannot be carried is refused by every verb that reads it.

use std::os::unix::fs::symlink;

use kubexm_spec::{Digest, ExitCode};

use crate::cluster::{Lab, SETUP, SPEC, body};
use crate::site::{Site, assert_contains};

const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n";
const FIELD: &str = "spec.kubernetes.audit.policyFile";

fn spec(policy: &str) -> String {
    SPEC.replace("{version: v1.34.4}", &format!("{{version: v1.34.4, audit: {{policyFile: {policy}}}}}"))
}

#[test]
fn a_policy_is_locked_by_digest_bundled_and_extracted_to_its_path_in_cluster_yaml() {
    let lab = Lab::with(&spec("policies/audit.yaml"), body, |site| drop(site.write("policies/audit.yaml", POLICY)));
    let site = &lab.site;
    lab.build().must(ExitCode::Ok);
    site.run(&["verify", "out.tar.zst"]).must(ExitCode::Ok);

    let shown = site.run(&["inspect", "--json", "out.tar.zst"]).must(ExitCode::Ok).document();
    let artifacts = shown["artifacts"].as_array().unwrap();
    let policy = artifacts.iter().find(|artifact| artifact["key"] == "material/policies/audit.yaml").unwrap();
    assert_eq!((&policy["trust"], &policy["digest"]), (&"user".into(), &Digest::of(POLICY).to_string().into()));
    let explained =
        site.run(&[&["explain", "material/policies/audit.yaml", "-f", "cluster.yaml"], &SETUP[..4]].concat());
    assert_contains(&explained.must(ExitCode::Ok).out, &[FIELD, "policies/audit.yaml on this machine"]);
    site.run(&["extract", "out.tar.zst", "material/policies/audit.yaml", "cluster.yaml", "-C", "far"])
        .must(ExitCode::Ok);
    assert_eq!(std::fs::read_to_string(site.path("far/policies/audit.yaml")).unwrap(), POLICY);

    // Another text is another bundle, and not what a lock says.
    site.run(&[&["lock", "-f", "cluster.yaml"], &SETUP[..]].concat()).must(ExitCode::Ok);
    site.write("policies/audit.yaml", POLICY.replace("Metadata", "Request"));
    let drifted = site.build(&[&SETUP[..], &["--locked"]].concat()).must(ExitCode::LockDrift).err;
    assert_contains(&drifted, &["material/policies/audit.yaml"]);
    site.run(&[&["build", "-f", "cluster.yaml", "-o", "other.tar.zst"], &SETUP[..]].concat()).must(ExitCode::Ok);
    let differ = site.run(&["diff", "--exit-code", "out.tar.zst", "other.tar.zst"]).must(ExitCode::Differs).out;
    assert_contains(&differ, &["material/policies/audit.yaml"]);
    assert!(!differ.contains("binary/kubeadm"), "{differ}");
}

#[test]
fn what_cannot_be_a_policy_is_refused_before_anything_is_fetched() {
    let site = Site::new();
    let key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n";
    site.write("key.yaml", key);
    site.write("pod.yaml", "kind: Pod\n");
    site.write("latin.yaml", b"# caf\xe9\n");
    site.write("large.yaml", "#".repeat((1 << 20) + 1));
    site.write("folder/a", "");
    symlink("/etc/passwd", site.path("link.yaml")).unwrap();
    for (policy, code, said) in [
        ("absent.yaml", ExitCode::Config, "absent.yaml: No such file"),
        ("folder", ExitCode::Config, "is a folder"),
        ("link.yaml", ExitCode::Config, "is a symbolic link"),
        ("large.yaml", ExitCode::Config, "more than 1048576 bytes"),
        ("latin.yaml", ExitCode::Config, "is not UTF-8"),
        ("pod.yaml", ExitCode::Config, "kind Policy"),
        ("../audit.yaml", ExitCode::Config, "leads out of the folder"),
        ("/etc/audit.yaml", ExitCode::Config, "is not relative to this file"),
        ("key.yaml", ExitCode::InlineSecret, "holds a private key"),
    ] {
        let head = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: lab}\nspec:\n";
        site.write("cluster.yaml", format!("{head}{}", spec(policy)));
        for verb in [&["build", "--dry-run"][..], &["lock"], &["build", "-o", "out.tar.zst"]] {
            let more = ["-f", "cluster.yaml", "--allow-secret", "key.yaml"];
            let ended = site.run(&[verb, &more[..if verb[0] == "lock" { 2 } else { 4 }]].concat()).must(code);
            assert_contains(&ended.err, &[FIELD, said]);
            assert!(!ended.err.contains("MIGH"), "{}", ended.err);
            if code == ExitCode::InlineSecret {
                assert_contains(&ended.err, &["--allow-secret does not apply", "fields that end in From"]);
            }
        }
    }
}
