//! The operator's kubeconfig is made of three values of a host's admin.conf; whatever else a host sends is refused by name.

#![expect(clippy::panic, reason = "a helper of tests: what cannot continue fails the test")]

use kubexm_engine::kubeconfig::{AdminKubeconfig, KubeconfigError};
use kubexm_spec::Cluster;
use kubexm_spec::cluster::{LoadBalancer, LoadBalancerMode};
use proptest::prelude::*;

/// As kubeadm 1.34 writes it: RSA, PKCS#1. The keys were made for this test.
const ADMIN: &str = include_str!("data/admin.conf");
const ADDRESS: &str = "10.0.0.5";

fn demo() -> Cluster {
    Cluster::named("demo")
}

fn read(text: &str) -> Result<AdminKubeconfig, KubeconfigError> {
    AdminKubeconfig::read(text.as_bytes(), &demo(), ADDRESS)
}

/// The value of a field that is on one line.
fn value(text: &str, field: &str) -> String {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{field}: ")));
    line.unwrap_or_else(|| panic!("{field} is not there")).to_owned()
}

#[test]
fn credentials_and_our_own_names_are_all_that_is_written() {
    let written = read(ADMIN).unwrap().render(&demo(), ADDRESS);
    let same = |field: &str| assert_eq!(value(&written, field), value(ADMIN, field), "{field}");
    ["certificate-authority-data", "client-certificate-data", "client-key-data"].into_iter().for_each(same);
    let fields: Vec<&str> =
        written.lines().filter_map(|line| line.trim_start_matches(['-', ' ']).split(':').next()).collect();
    let known = [
        "apiVersion",
        "kind",
        "clusters",
        "name",
        "cluster",
        "certificate-authority-data",
        "server",
        "tls-server-name",
        "users",
        "user",
        "client-certificate-data",
        "client-key-data",
        "contexts",
        "context",
        "current-context",
    ];
    assert!(fields.iter().all(|field| known.contains(field)), "{fields:?}");
    assert_eq!(value(&written, "server"), r#""https://10.0.0.5:6443""#);
    assert_eq!(value(&written, "tls-server-name"), r#""lb.demo.kubexm.internal""#);
    assert!(!written.contains("kubernetes-admin"), "names are not taken from the host");
}

#[test]
fn a_host_with_an_ipv6_address_is_reached() {
    let written = read(ADMIN).unwrap().render(&demo(), "fd00::5");
    assert_eq!(value(&written, "server"), r#""https://[fd00::5]:6443""#);
}

#[test]
fn what_would_run_or_mislead_kubectl_is_refused_by_the_name_of_its_field() {
    let below_user = |more: &str| ADMIN.replace("  user:\n    client-cert", &format!("  user:\n{more}    client-cert"));
    let below_cluster = |more: &str| ADMIN.replace("    server:", &format!("{more}    server:"));
    let second = |list: &str, entry: &str| ADMIN.replace(&format!("\n{list}:\n"), &format!("\n{list}:\n{entry}"));
    let cases = [
        (below_user("    exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}\n"), "users[0].user.exec"),
        (below_user("    auth-provider: {name: gcp}\n"), "users[0].user.auth-provider"),
        (below_user("    token: abc\n"), "users[0].user.token"),
        (below_user("    tokenFile: /etc/shadow\n"), "users[0].user.tokenFile"),
        (below_user("    as: root\n"), "users[0].user.as"),
        (below_user("    client-key: /root/.ssh/id_rsa\n"), "users[0].user.client-key"),
        (below_cluster("    insecure-skip-tls-verify: true\n"), "clusters[0].cluster.insecure-skip-tls-verify"),
        (below_cluster("    proxy-url: http://evil\n"), "clusters[0].cluster.proxy-url"),
        (below_cluster("    tls-server-name: evil\n"), "clusters[0].cluster.tls-server-name"),
        (below_cluster("    certificate-authority: /etc/passwd\n"), "clusters[0].cluster.certificate-authority"),
        (ADMIN.replace("preferences: {}", "preferences: {colors: true}"), "preferences.colors"),
        (format!("{ADMIN}extensions: []\n"), "extensions"),
        (
            ADMIN.replace("    user: kubernetes-admin\n", "    user: kubernetes-admin\n    namespace: x\n"),
            "contexts[0].context.namespace",
        ),
        (second("users", "- {name: other, user: {}}\n"), "users[1]"),
        (second("clusters", "- {name: other, cluster: {}}\n"), "clusters[1]"),
        (second("contexts", "- {name: other, context: {}}\n"), "contexts[1]"),
        (format!("{ADMIN}\"\\e[31m\": 1\n"), r"\u{1b}[31m"),
    ];
    for (text, wanted) in cases {
        assert_ne!(text, ADMIN, "{wanted} was not put in");
        match read(&text) {
            Err(KubeconfigError::Refused { field, .. }) => assert_eq!(field, wanted),
            other => panic!("{wanted}: {other:?}"),
        }
    }
}

#[test]
fn only_a_server_that_we_chose_is_accepted() {
    let with = |server: &str| read(&ADMIN.replace("https://lb.demo.kubexm.internal:6443", server));
    assert!(with("https://10.0.0.5:6443").is_ok());
    for server in [
        "https://evil:6443",
        "http://lb.demo.kubexm.internal:6443",
        "https://lb.demo.kubexm.internal:6444",
        "https://lb.demo.kubexm.internal:6443@evil",
        "https://lb.demo.kubexm.internal:6443/proxy",
        "''",
    ] {
        let error = with(server).expect_err(server).to_string();
        assert!(error.contains("clusters[0].cluster.server"), "{error}");
    }
    let mode = LoadBalancerMode::at("10.0.0.9".parse().unwrap(), 8443);
    let behind = Cluster { load_balancer: LoadBalancer { mode, domain: Some("api.example".to_owned()) }, ..demo() };
    let text = ADMIN.replace("lb.demo.kubexm.internal:6443", "api.example:8443");
    let admin = AdminKubeconfig::read(text.as_bytes(), &behind, ADDRESS).unwrap();
    // The host itself listens on the API server's port, whatever the load balancer's is.
    assert_eq!(value(&admin.render(&behind, ADDRESS), "server"), r#""https://10.0.0.5:6443""#);
}

#[test]
fn credentials_that_are_none_or_do_not_belong_together_are_refused() {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let own = rcgen::generate_simple_self_signed(vec!["x".to_owned()]).unwrap();
    let (certificate, key) = (encode(&own.cert.pem()), encode(&own.signing_key.serialize_pem()));
    let with = |field: &str, new: &str| read(&ADMIN.replace(&value(ADMIN, field), new));
    let cases = [
        ("client-key-data", key.as_str(), "does not belong"),
        ("client-certificate-data", certificate.as_str(), "does not belong"),
        ("client-key-data", certificate.as_str(), "something other than a private key"),
        ("certificate-authority-data", key.as_str(), "something other than X.509"),
        ("certificate-authority-data", "'%%%'", "not base64"),
        ("client-key-data", "eA==", "exactly one key"),
        ("client-key-data", "5", "not a string"),
    ];
    for (field, new, wanted) in cases {
        let error = with(field, new).expect_err(field).to_string();
        assert!(error.contains(field) && error.contains(wanted), "{field}: {error}");
        assert!(!error.contains(&key), "an error shows a key");
    }
    // Both of the same pair are fine, with an ECDSA key, too.
    let both = ADMIN
        .replace(&value(ADMIN, "client-key-data"), &key)
        .replace(&value(ADMIN, "client-certificate-data"), &certificate);
    assert!(read(&both).is_ok());
}

#[test]
fn what_is_no_kubeconfig_is_refused_without_being_quoted() {
    let long = format!("{ADMIN}# {}", "x".repeat(64 << 10));
    assert!(matches!(read(&long), Err(KubeconfigError::TooLong(_))));
    let twice = format!("{ADMIN}kind: Config\n");
    let two = format!("{ADMIN}---\n{ADMIN}");
    let alias = ADMIN.replace("kind: Config", "kind: &a Config").replace("preferences: {}", "preferences: *a");
    for text in ["", "[", "a: b: c", "\u{0}", &twice, &two, &alias] {
        assert!(read(text).is_err(), "{text:.40}");
    }
    assert_eq!(read(&twice).unwrap_err(), KubeconfigError::NotYaml);
}

proptest! {
    #[test]
    fn no_bytes_of_a_host_make_the_reader_fail_otherwise(bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0..4000_usize) {
        let mut text = ADMIN.as_bytes().to_vec();
        let at = at.min(text.len());
        text.splice(at..at, bytes.iter().copied());
        let _ = AdminKubeconfig::read(&text, &demo(), ADDRESS);
        let _ = AdminKubeconfig::read(&bytes, &demo(), ADDRESS);
    }
}
