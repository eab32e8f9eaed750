use proptest::prelude::*;
use serde_json::json;

use super::*;

fn redact(text: &str) -> String {
    Known::default().redact(text)
}

#[test]
fn no_part_of_a_secret_is_kept_in_any_format() {
    let secret = "s3cr3tS3CR3Tvalue";
    for text in [
        format!("password: {secret}"),
        format!("password = '{secret}'"),
        format!("{{\"registryPassword\":\"{secret}\",\"port\":5000}}"),
        format!("kubeadm join --token {secret} --v 5"),
        format!("--certificate-key={secret}"),
        format!("Authorization: Bearer {secret}"),
        format!("https://admin:{secret}@registry.example/v2/"),
        format!("client-key-data: {secret}"),
        format!("SUDO_PASSWORD={secret}"),
        format!("-----BEGIN EC PRIVATE KEY-----\n{secret}\n-----END EC PRIVATE KEY-----\nafter"),
        format!("-----BEGIN PRIVATE KEY-----\n{secret}"),
        format!("\"key\": \"-----BEGIN PRIVATE KEY-----\\n{secret}\\n-----END PRIVATE KEY-----\\n\""),
        format!("root:$6${secret}:19000:0:99999:7:::"),
    ] {
        let shown = redact(&text);
        assert!(!shown.contains(secret) && shown.contains(MARK), "{text} became {shown}");
    }
    assert!(!redact("using token abcdef.0123456789abcdef now").contains("0123456789abcdef"));
    assert!(!redact("got eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl").contains("c2lnbmF0dXJl"));
}

#[test]
fn every_shape_that_a_bundle_may_not_have_is_redacted_here_too() {
    let secret = "s3cr3tS3CR3Tvalue0123456789";
    let mut texts: Vec<String> =
        kubexm_spec::credential::TOKENS.iter().map(|start| format!("cloned with {start}{secret} today")).collect();
    texts.push(format!("# created\nAGE-SECRET-KEY-1{secret}\n").to_uppercase());
    texts.push(format!("PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n{secret}\nPrivate-MAC: 00ff\nafter"));
    texts
        .push(format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{secret}\n-----END PGP PRIVATE KEY BLOCK-----\nafter"));
    for text in texts {
        let shown = redact(&text);
        assert!(
            !shown.to_lowercase().contains(&secret.to_lowercase()) && shown.contains(MARK),
            "{text} became {shown}"
        );
        assert_eq!(shown.ends_with("after"), text.ends_with("after"), "{shown}");
        // The other way round: what is redacted here, a plan refuses.
        if !text.starts_with("-----") {
            assert!(kubexm_spec::credential::find(&text).is_some(), "{text}");
        }
    }
}

#[test]
fn a_field_of_an_object_that_names_a_key_or_a_pwd_is_redacted() {
    let secret = "s3cr3tS3CR3Tvalue";
    for name in [
        "secretKey",
        "secret_key",
        "SECRET_KEY",
        "secret-key",
        "signingKey",
        "sharedKey",
        "masterKey",
        "sshKey",
        "pwd",
        "DB_PWD",
        "accessKey",
        "aws_secret_access_key",
    ] {
        for text in [
            json!({ "before": { "object": json!({ "kind": "ConfigMap", "data": { name: secret } }).to_string() } })
                .to_string(),
            format!("kind: ConfigMap\ndata:\n  {name}: {secret}\n"),
            format!("export {name}={secret}"),
        ] {
            let shown = redact(&text);
            assert!(!shown.contains(secret) && shown.contains(MARK), "{text} became {shown}");
        }
    }
    assert_eq!(redact("PWD: /root/site\n"), format!("PWD: {MARK}\n"), "a folder is lost rather than a password");
}

#[test]
fn a_secret_in_the_place_of_a_fields_name_is_redacted() {
    let url = "https://user:hunter2@r.test/";
    for text in [
        json!({ url: 1 }).to_string(),
        json!({ "auths": { url: {} } }).to_string(),
        json!({ "kind": "Secret", "data": { "a": { url: "x" } } }).to_string(),
        json!({ "args": ["--token", { url: "x" }] }).to_string(),
        json!({ "message": json!({ url: null }).to_string() }).to_string(),
        format!("log of\n{}\n", json!({ "list": [{ url: true }] })),
        format!("kind: Config\nhosts:\n  \"{url}\": 1\n"),
    ] {
        let shown = redact(&text);
        assert!(!shown.contains("hunter2") && shown.contains("r.test"), "{text} became {shown}");
    }
    // No field is lost, also where one has such a name already.
    let tokens = ["ghp_0123456789abcdefghijABCDEFGHIJ012345", "ghp_9876543210abcdefghijABCDEFGHIJ012345"];
    let shown = redact(&json!({ tokens[0]: 1, tokens[1]: 2, MARK: 3, "n": 4 }).to_string());
    let value: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let (second, third) = (format!("{MARK} (2)"), format!("{MARK} (3)"));
    assert_eq!(value, json!({ MARK: 3, second: 1, third: 2, "n": 4 }));
}

#[test]
fn text_without_secrets_is_kept() {
    for text in [
        "node1/control-plane.init: Start the control plane with kubeadm",
        "failed to pull image registry.k8s.io/pause:3.10.1: dial tcp 10.0.0.11:5443: connect: connection refused",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "secret \"x\" not found",
    ] {
        assert_eq!(redact(text), text);
    }
}

#[test]
fn json_stays_json() {
    let shown = redact(r#"{"token":"a\"b","n":1,"password":"x"}"#);
    let value: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(value, serde_json::json!({"token": MARK, "n": 1, "password": MARK}));
}

#[test]
fn a_known_secret_is_redacted_everywhere() {
    let mut known = Known::default();
    known.learn("-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqG\n-----END PRIVATE KEY-----\n");
    assert_eq!(known.redact("dump MIGHAgEAMBMGByqGSM49AgEGCCqG end"), format!("dump {MARK} end"));
}

#[test]
fn a_secret_in_an_unusual_notation_is_redacted() {
    let secret = "s3cr3tS3CR3Tvalue";
    for text in [
        format!(r#"msg="body: {{\"password\":\"{secret}\",\"n\":1}}""#),
        format!(r#"{{\\\"password\\\":\\\"a,{secret}\\\"}}"#),
        format!("password=a,{secret}"),
        format!("password=a}}{secret} end"),
        format!("password: a b {secret}"),
        format!("password: 'it''s {secret}'"),
        format!("password: \"unclosed {secret}"),
        format!("password: \"x\"{secret}"),
        format!("a:\n  password: |\n    first\n\n    {secret}\n  b: c"),
        format!("- password: >-\n    {secret}\n  b: c"),
        format!("password:\n  {secret}\n"),
        format!("password: first\n  {secret}\nb: c"),
        format!("password: !!str &x |\n  {secret}\n"),
        format!("x password: |\n  {secret}\n"),
        format!("kubeadm join --token 'a {secret}' --v 5"),
        format!("--password=\"a\"{secret}"),
        format!("API_TOKENS={secret}"),
        format!("apiVersion: v1\nkind: Secret\ndata:\n  x: {secret}\n"),
        format!("apiVersion: v1\nenv:\n- name: DB_PASSWORD\n  value: {secret}\n"),
        format!(
            "apiVersion: v1\nx: &a {secret}\npassword: *a\ncommand: [run, --token, {secret}]\n? password\n: {secret}\n"
        )
        .replace("x: &a", "passwd: &a"),
        format!("---\n? password\n: {secret}\n---\nb: c\n"),
        json!({"args": ["kubeadm", "join", "--token", secret]}).to_string(),
        json!({"message": json!({"registryPassword": secret}).to_string()}).to_string(),
        json!({"message": json!({"m": format!("password: |\n  {secret}\n")}).to_string()}).to_string(),
        format!(r#"{{"password": "{secret}", "password": "x"}}"#),
        format!(r#"{{"a": {{"credentials": {{"user": "u", "list": [1, "{secret}"]}}}}}}"#),
        format!("password:\n  {{\"a\": \"{secret}\"}}\n"),
    ] {
        let shown = redact(&text);
        assert!(!shown.contains(secret) && shown.contains(MARK), "{text}\nbecame\n{shown}");
    }
}

#[test]
fn text_next_to_a_secret_is_kept() {
    let shown = redact("a: 1\npassword: |\n  x\n  y\nb: 2\n");
    assert_eq!(shown, format!("a: 1\npassword: {MARK}\nb: 2\n"));
    let shown = redact("{\"step\":\"node1/os.swap\",\"error\":\"password=x\"}\n{\"step\":\"two\"}\n");
    assert_eq!(shown, format!("{{\"error\":\"password={MARK}\",\"step\":\"node1/os.swap\"}}\n{{\"step\":\"two\"}}\n"));
    assert_eq!(redact("kind: Config\nreplicas: 3\n").trim_end(), "kind: Config\nreplicas: 3");
}

/// Ways to write a field with a secret into what a support bundle holds: journal, events, logs, facts, YAML.
const WRITERS: [fn(&str, &str) -> String; 12] = [
    |key, secret| json!({ key: secret }).to_string() + "\n",
    |key, secret| serde_json::to_string_pretty(&json!({ "facts": [{ key: { "value": secret } }] })).unwrap_or_default(),
    |key, secret| json!({ "time": 1, "record": { "error": json!({ key: secret }).to_string() } }).to_string() + "\n",
    |key, secret| json!({ "text": format!("said {}", json!(json!({ key: secret }).to_string())) }).to_string() + "\n",
    |key, secret| serde_saphyr::to_string(&json!({ "kind": "X", "spec": { key: secret } })).unwrap_or_default(),
    |key, secret| serde_saphyr::to_string(&json!({ "spec": [{ key: secret, "z": 1 }] })).unwrap_or_default(),
    |key, secret| format!("apiVersion: v1\nspec:\n  {key}: |\n{}\n  z: 1\n", indent(secret, 4)),
    |key, secret| format!("spec:\n- {key}: |-\n{}\n  z: 1\n", indent(secret, 6)),
    |key, secret| format!("spec:\n  {key}: '{}'\n", secret.replace('\'', "''")),
    |key, secret| format!("I0101 12:00:00 kubelet[7]: {key}={}\n", secret.replace('\n', " ")),
    |key, secret| format!("level=info msg={} n=1\n", json!(format!("{key}: {}", json!(secret)))),
    |key, secret| json!({ "env": [{ "name": key, "value": secret }] }).to_string() + "\n",
];

fn indent(text: &str, by: usize) -> String {
    text.lines().map(|line| format!("{}{line}", " ".repeat(by))).collect::<Vec<_>>().join("\n")
}

proptest! {
    #[test]
    fn a_secret_is_redacted_wherever_and_however_it_was_written(
        writer in 0..WRITERS.len(),
        key in prop::sample::select(vec!["password", "registryPassword", "token", "client-key-data", "certificateKey", "DB_PASSWD", "secret", "apiKey", "authorization", "secretKey", "signing_key", "DB_PWD"]),
        words in prop::collection::vec("Q7[a-z]{8}[\"'{},:=\\\\#&*|> a-z]{0,6}Z", 1..4),
        separator in prop::sample::select(vec![" ", ",", "}", "\"", "\\", "\n", ", ", "]"]),
        before in "[a-z ]{0,12}",
    ) {
        let secret = words.join(separator);
        let text = format!("{before}\n{}after\n", WRITERS[writer](key, &secret));
        let shown = redact(&text);
        for word in &words {
            // Its head has no character that any writer escapes.
            prop_assert!(!shown.contains(&word[..10]), "{}\nbecame\n{}", text, shown);
        }
        let alone = redact(&WRITERS[writer](key, &secret));
        for word in &words {
            prop_assert!(!alone.contains(&word[..10]), "{}\nbecame\n{}", text, alone);
        }
    }

    #[test]
    fn no_text_makes_it_fail(text in "(?s).{0,200}") {
        let _ = redact(&text);
    }
}
