//! The user's registry is asked before any host is changed. What a real one answers is tested in the engine.

use kubexm_spec::{ExitCode, ExitError as _};

use crate::bundle::{cluster_yaml, write_bundle};
use crate::sessions::{NoSecrets, Site};

/// With these further fields of the registry at this address.
fn site(address: &str, fields: &str, secret: Option<&str>) -> Site {
    // As the program does; another test was first when it fails.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let registry = format!("  registry: {{type: external, privateRegistry: \"{address}/mirror\"{fields}}}\n");
    let yaml = cluster_yaml("red", &["red1"]) + &registry;
    Site { secrets: NoSecrets(secret.map(str::to_owned)), ..Site::of("red", &["red1"], &yaml, write_bundle) }
}

/// An address where nobody listens.
/// It is held until the program ends: let go, the next server of another test could get it.
fn nobody() -> String {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address.to_string()
}

async fn refused(site: &Site) -> String {
    let before = site.hosts.fleet.snapshot();
    let error = site.create().await.err().unwrap();
    assert_eq!(error.exit_code(), ExitCode::Preflight, "{error}");
    assert_eq!(site.hosts.fleet.snapshot(), before);
    assert!(site.home.cluster("red").run_ids().unwrap().is_empty());
    error.to_string()
}

#[tokio::test]
async fn one_that_does_not_answer_is_named_before_anything_is_changed() {
    let address = nobody();
    let text = refused(&site(&address, "", None)).await;
    assert!(
        text.contains(&format!("FAIL cluster: registry: found {address} cannot be asked from this machine")),
        "{text}"
    );
    assert_eq!(text.matches("cannot be asked").count(), 1, "one answer for all images: {text}");
}

#[tokio::test]
async fn a_login_or_a_ca_that_cannot_be_read_is_named_by_its_field_and_not_shown() {
    let address = nobody();
    let login = format!(", auths: {{\"{address}\": {{username: robot, passwordFrom: {{env: REGISTRY_PASSWORD}}}}}}");
    let field = format!("spec.registry.auths.{address}.passwordFrom");
    let text = refused(&site(&address, &login, None)).await;
    assert!(text.contains(&field) && text.contains("there is none"), "{text}");
    let key = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n";
    let text = refused(&site(&address, ", caFile: /root/.ssh/id_rsa", Some(key))).await;
    assert!(text.contains("spec.registry.caFile") && !text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn an_unsigned_bundle_says_where_it_would_send_the_password_and_which_file_to_the_hosts() {
    let address = nobody();
    let fields = format!(
        ", caFile: /root/ca.crt, auths: {{\"{address}\": {{username: robot, passwordFrom: {{env: REGISTRY_PASSWORD}}}}}}"
    );
    let site = site(&address, &fields, Some("hunter2"));
    refused(&site).await;
    let asked = site.answers.asked.lock().unwrap().join("\n");
    for words in [
        format!("to ask a registry, from this machine and from every host: {address}"),
        format!(
            "password of your registry from the environment variable REGISTRY_PASSWORD: sent to {address}, and kept on red1"
        ),
        "CA certificate of your registry from the file /root/ca.crt: kept on red1".to_owned(),
    ] {
        assert!(asked.contains(&words), "{asked}");
    }
}

#[tokio::test]
async fn an_unsigned_bundle_says_whose_login_of_which_docker_configuration_it_would_send() {
    let address = nobody();
    let from = "passwordFrom: {dockerConfig: ~/.docker/config.json}";
    let site = site(&address, &format!(", auths: {{\"{address}\": {{username: robot, {from}}}}}"), Some("hunter2"));
    refused(&site).await;
    let asked = site.answers.asked.lock().unwrap().join("\n");
    let words = format!(
        "password of your registry from the login of robot for {address} in the docker configuration ~/.docker/config.json, by the \
         credential helper if that names one: sent to {address}, and kept on red1"
    );
    assert!(asked.contains(&words) && !asked.contains("hunter2"), "{asked}");
}

#[tokio::test]
async fn an_insecure_one_is_warned_of_loudly_and_what_cannot_be_asked_is_no_failure() {
    let address = nobody();
    let site = site(&address, ", insecure: true", None);
    let ended = site.create().await.unwrap();
    assert!(ended.is_success(), "{:#?}", ended.run);
    let events = site.events();
    assert!(
        events.contains("spec.registry.insecure") && events.contains("was not checked from this machine"),
        "{events}"
    );
}
