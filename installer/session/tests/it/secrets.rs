//! Secrets of the operator that hosts are given: asked for before anything is changed, and kept nowhere on the controller.

use std::fs;
use std::path::Path;

use kubexm_spec::{ExitCode, ExitError as _};

use crate::bundle::{cluster_yaml, write_bundle};
use crate::sessions::{NoSecrets, Site};

const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- {name: a, context: {cluster: c, user: u}}\n\
                          clusters:\n- {name: c, cluster: {server: https://audit.test/log}}\nusers:\n- {name: u, user: {token: hunter2hunter2}}\n";

fn site(kubeconfig: Option<&str>) -> Site {
    let webhook = "v1.34.4, audit: {webhook: {kubeconfigFrom: {env: AUDIT_WEBHOOK}}}";
    let yaml = cluster_yaml("red", &["red1"]).replace("v1.34.4", webhook);
    Site { secrets: NoSecrets(kubeconfig.map(str::to_owned)), ..Site::of("red", &["red1"], &yaml, write_bundle) }
}

/// Every file below a folder that holds a text.
fn holding(folder: &Path, text: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            holding(&path, text, found);
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(text) {
            found.push(path.display().to_string());
        }
    }
}

#[tokio::test]
async fn a_webhooks_kubeconfig_reaches_hosts_and_stays_out_of_everything_that_is_kept_or_shown() {
    let site = site(Some(KUBECONFIG));
    let ended = site.create().await.unwrap();
    assert!(ended.is_success(), "{:#?}", ended.run);
    let asked = site.answers.asked.lock().unwrap().join("\n");
    let said = "kubeconfig of the audit webhook from the environment variable AUDIT_WEBHOOK: kept on red1";
    assert!(asked.contains(said), "an unsigned bundle that wants a secret says so: {asked}");
    let mut found = Vec::new();
    holding(site.folder.path(), "hunter2", &mut found);
    assert_eq!(found, Vec::<String>::new());
    assert!(!site.events().contains("hunter2") && !asked.contains("hunter2"));
    let state = format!("{:?}", site.hosts.fleet.snapshot());
    assert!(state.contains("webhook.kubeconfig"), "{state}");
}

#[tokio::test]
async fn a_secret_that_cannot_be_had_or_used_stops_before_the_question() {
    for (kubeconfig, words) in [(None, "there is none"), (Some("kind: Pod\nname: hunter2\n"), "not a kubeconfig")] {
        let site = site(kubeconfig);
        let before = site.hosts.fleet.snapshot();
        let error = site.create().await.err().unwrap();
        assert_eq!(error.exit_code(), ExitCode::Config, "{error}");
        let text = error.to_string();
        assert!(text.contains("spec.kubernetes.audit.webhook.kubeconfigFrom: ") && text.contains(words), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(!site.answers.asked.lock().unwrap().iter().any(|asked| asked.starts_with("create")));
        assert_eq!(site.hosts.fleet.snapshot(), before);
        assert!(site.home.cluster("red").run_ids().unwrap().is_empty());
    }
}
