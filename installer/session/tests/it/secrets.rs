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
pub fn holding(folder: &Path, text: &str, found: &mut Vec<String>) {
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

/// A registry that demands a login; `password` is what its source holds.
fn site_with_login(password: &str) -> Site {
    let login = "  registry: {type: registry, auths: {registry.red.kubexm.internal: {username: puller, passwordFrom: \
                 {env: REGISTRY_PASSWORD}}}}\n";
    let yaml = cluster_yaml("red", &["red1", "red2"]) + login;
    let secrets = NoSecrets(Some(password.to_owned()));
    Site { secrets, ..Site::of("red", &["red1", "red2"], &yaml, write_bundle) }
}

/// A password as it is, and the beginning of `puller:PASSWORD` in base64: the rest depends on the length.
const FORMS: [&str; 4] =
    ["hunter2hunter2", "cHVsbGVyOmh1bnRlcjJodW50ZXIy", "hunter3hunter3", "cHVsbGVyOmh1bnRlcjNodW50ZXIz"];

#[tokio::test]
async fn a_login_reaches_servers_and_clients_and_stays_out_of_everything_that_is_kept_or_shown() {
    let mut site = site_with_login("hunter2hunter2\n");
    let ended = site.create().await.unwrap();
    assert!(ended.is_success(), "{:#?}", ended.run);
    let asked = site.answers.asked.lock().unwrap().join("\n");
    let said = "password of the cluster's registry from the environment variable REGISTRY_PASSWORD: kept on red1, red2";
    assert!(asked.contains(said), "an unsigned bundle that wants a secret says so: {asked}");
    let created = site.hosts.fleet.snapshot();
    let state = format!("{created:?}");
    for path in ["registry-login", "depot/htpasswd", "registry/htpasswd", "depot/login"] {
        assert!(state.contains(path), "{path}: {state}");
    }

    // The same password changes nothing, though bcrypt has a salt.
    assert!(site.create().await.unwrap().is_success());
    assert_eq!(site.hosts.fleet.snapshot(), created);

    // Another one comes to all of them, and then nothing changes again.
    site.secrets = NoSecrets(Some("hunter3hunter3".to_owned()));
    let ended = site.create().await.unwrap();
    assert!(ended.is_success(), "{:#?}", ended.run);
    let changed = site.hosts.fleet.snapshot();
    assert_ne!(changed, created);
    assert_eq!(site.hosts.fleet.broken_invariants(), Vec::<String>::new());
    assert!(site.create().await.unwrap().is_success());
    assert_eq!(site.hosts.fleet.snapshot(), changed);

    let asked = site.answers.asked.lock().unwrap().join("\n");
    for form in FORMS {
        let mut found = Vec::new();
        holding(site.folder.path(), form, &mut found);
        assert_eq!(found, Vec::<String>::new(), "{form}");
        assert!(!site.events().contains(form) && !asked.contains(form), "{form}");
    }
}

#[tokio::test]
async fn a_password_that_cannot_be_had_or_used_stops_before_the_question() {
    let cases = [
        (None, "there is none"),
        (Some(""), "it is empty"),
        (Some("two\nlines hunter2"), "more than one line"),
        (Some(&*format!("hunter2{}", "x".repeat(80))), "72 bytes"),
    ];
    for (password, words) in cases {
        let mut site = site_with_login("");
        site.secrets = NoSecrets(password.map(str::to_owned));
        let before = site.hosts.fleet.snapshot();
        let error = site.create().await.err().unwrap();
        assert_eq!(error.exit_code(), ExitCode::Config, "{error}");
        let text = error.to_string();
        let field = "spec.registry.auths.registry.red.kubexm.internal.passwordFrom: ";
        assert_eq!(text.matches(field).count(), 1, "once, though several files are made of it: {text}");
        assert!(text.contains(words) && !text.contains("hunter2"), "{text}");
        assert_eq!(site.hosts.fleet.snapshot(), before);
        assert!(site.home.cluster("red").run_ids().unwrap().is_empty());
    }
}
