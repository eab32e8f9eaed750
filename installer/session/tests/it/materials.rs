//! Texts that cluster.yaml names: of the bundle, or beside the operator's own file, and each checked before anything is planned.

use std::fs;
use std::path::PathBuf;

use kubexm_session::BundleOptions;
use kubexm_spec::{ExitCode, ExitError as _};

use crate::bundle::{cluster_yaml, write_bundle_with};
use crate::sessions::Site;

const NAME: &str = "audit.yaml";

fn policy(level: &str) -> String {
    format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: {level}\n")
}

/// A site whose bundle carries this text, or none.
fn site(carried: Option<&str>) -> Site {
    let yaml = cluster_yaml("red", &["red1"]).replace("v1.34.4", &format!("v1.34.4, audit: {{policyFile: {NAME}}}"));
    Site::of("red", &["red1"], &yaml, |folder, yaml| write_bundle_with(folder, yaml, carried))
}

fn exit(site: &Site, file: Option<PathBuf>) -> (ExitCode, String) {
    let session = site.session();
    let opened = session.open(&BundleOptions { bundle: vec![site.bundle.clone()], file, ..BundleOptions::default() });
    match opened.unwrap().check_closed_world() {
        Ok(()) => (ExitCode::Ok, String::new()),
        Err(error) => (error.exit_code(), error.to_string()),
    }
}

/// The policy that control planes get.
async fn planned(site: &Site, file: Option<PathBuf>) -> String {
    let plan = site.plan(file).await;
    plan.texts.values().find(|text| text.contains("audit.k8s.io/v1")).unwrap().clone()
}

#[tokio::test]
async fn the_operators_own_file_takes_precedence_over_the_bundles_and_is_reported() {
    let site = site(Some(&policy("Metadata")));
    let yaml = site.folder.path().join("cluster.yaml");
    assert_eq!(planned(&site, None).await, policy("Metadata"));
    assert!(!site.events().contains("not from the bundle"), "{}", site.events());
    // Beside it there is none: the bundle's.
    assert_eq!(planned(&site, Some(yaml.clone())).await, policy("Metadata"));
    assert!(!site.events().contains("not from the bundle"), "{}", site.events());
    fs::write(site.folder.path().join(NAME), policy("Request")).unwrap();
    assert_eq!(planned(&site, Some(yaml)).await, policy("Request"));
    assert!(site.events().contains("not from the bundle"), "{}", site.events());
}

#[test]
fn a_text_that_is_missing_or_cannot_be_used_stops_before_a_host_is_asked() {
    let none = site(None);
    let yaml = none.folder.path().join("cluster.yaml");
    let (code, said) = exit(&none, None);
    assert_eq!(code, ExitCode::BundleIncomplete, "{said}");
    assert!(said.contains("material/audit.yaml"), "{said}");
    for (text, wanted, words) in [
        ("kind: Pod\n", ExitCode::Config, "kind Policy"),
        ("users:\n- user: {}\n  token: hunter2hunter2\n", ExitCode::InlineSecret, "holds a token"),
    ] {
        fs::write(none.folder.path().join(NAME), text).unwrap();
        let (code, said) = exit(&none, Some(yaml.clone()));
        assert_eq!(code, wanted, "{said}");
        assert!(said.contains(words) && said.contains("spec.kubernetes.audit.policyFile"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
        // The same of an unsigned bundle, whose maker may have been anybody.
        let (code, said) = exit(&site(Some(text)), None);
        assert_eq!(code, wanted, "{said}");
    }
}
