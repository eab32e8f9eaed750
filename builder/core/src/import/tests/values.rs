//! Numbers, truth values and what is said twice.

use serde_json::{Value, json};

use super::super::scalar::plain;
use super::super::yaml::{Map, Yaml, text};
use super::{at, cluster, file, import, json as yaml, left_at};

/// As go-yaml v2 resolves them.
#[test]
fn a_scalar_of_a_configuration_is_the_value_that_kubekey_read() {
    for (said, meant) in [
        ("-1", json!(-1)),
        ("+7", json!(7)),
        ("1.5", json!(1.5)),
        ("-0.25", json!(-0.25)),
        (".5", json!(0.5)),
        ("1e3", json!(1000)),
        ("1e-3", json!(0.001)),
        ("0644", json!(420)),
        ("089", json!(89)),
        ("0x1F", json!(31)),
        ("0o17", json!(15)),
        ("0b101", json!(5)),
        ("1_000", json!(1000)),
        ("18446744073709551615", json!(u64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("~", Value::Null),
        ("null", Value::Null),
        ("True", json!(true)),
        ("yes", json!(true)),
        ("On", json!(true)),
        ("off", json!(false)),
        ("n", json!(false)),
        ("5%", json!("5%")),
        ("10m", json!("10m")),
        ("1.2.3", json!("1.2.3")),
        ("-x", json!("-x")),
        ("0x", json!("0x")),
        ("+-1", json!("+-1")),
        (".", json!(".")),
        (".inf", json!(".inf")),
        ("1e", json!("1e")),
        ("2001-01-01", json!("2001-01-01")),
        ("12:30", json!("12:30")),
        ("\"1\"", json!("1")),
        ("'true'", json!("true")),
        ("\"~\"", json!("~")),
        ("[1, -2.5, no]", json!([1, -2.5, false])),
        ("{a: {b: [~]}}", json!({"a": {"b": [null]}})),
    ] {
        let imported = import(&file(&format!("  kubernetes:\n    kubeletConfiguration:\n      value: {said}\n")));
        let document = yaml(&imported.cluster_yaml);
        assert_eq!(*at(&document, "spec.kubernetes.kubelet.value"), meant, "{said}\n{}", imported.cluster_yaml);
    }
}

#[test]
fn a_text_that_looks_like_something_else_is_still_a_text_in_what_is_written() {
    let words = [
        "0644",
        "-1",
        "1.5",
        "~",
        "null",
        "True",
        "yes",
        "off",
        "1_000",
        "",
        " a",
        "a ",
        "#",
        "a: b",
        "- a",
        "{",
        "!x",
        "&a",
        "*a",
        "a\nb",
        "a\n\n b\n",
        "\t",
        "é\u{85}\u{2028}",
        "\u{7}",
        "'\"",
        "---",
        "%a",
        "@",
        "`",
        "|",
        ">",
        "=",
        "<<",
    ];
    for word in words {
        let mut map = Map::default();
        map.put("text", word);
        map.put(word, "key");
        map.put("list", vec![word, word]);
        let written = text(&map).unwrap_or_else(|error| panic!("{word:?}: {error}"));
        assert_eq!(yaml(&written)["text"], json!(word), "{written}");
    }
    assert_eq!(plain("1__0"), Yaml::Int(10));
}

#[test]
fn invalid_booleans_and_numbers_are_reported_and_not_read_as_false() {
    let imported = import(&file(
        "  kubernetes: {autoRenewCerts: maybe, maxPods: many, featureGates: {A: 1}}\n  etcd: {keepBackupNumber: -2}\n",
    ));
    for path in
        ["kubernetes.autoRenewCerts", "kubernetes.maxPods", "kubernetes.featureGates.A", "etcd.keepBackupNumber"]
    {
        assert_eq!(left_at(&imported, &format!("spec.{path}")).len(), 1, "{path}: {:?}", imported.left);
    }
    for word in ["yes", "True", "on", "'true'"] {
        let imported = import(&file(&format!("  kubernetes: {{autoRenewCerts: {word}}}\n")));
        assert!(cluster(&imported).kubernetes.unwrap().auto_renew_certs, "{word}");
    }
}

#[test]
fn of_two_fields_for_one_setting_kubekeys_choice_is_written_and_reported() {
    let imported = import(&file(
        "  kubernetes:
    podPidsLimit: 5
    maxPods: 100
    proxyMode: ipvs
    masqueradeAll: true
    kubeletConfiguration: {podPidsLimit: -1, maxPods: 120}
    kubeProxyConfiguration: {mode: iptables, iptables: {masqueradeBit: 14}}
    apiserverArgs: [v=2, event-ttl=1h, --v=4]
",
    ));
    let kubernetes = cluster(&imported).kubernetes.unwrap();
    assert_eq!(kubernetes.kubelet["podPidsLimit"], -1);
    assert_eq!(kubernetes.kubelet["maxPods"], 120);
    assert_eq!(kubernetes.kube_proxy["iptables"], json!({"masqueradeBit": 14}));
    assert_eq!(
        (kubernetes.proxy_mode.to_string().as_str(), kubernetes.api_server_args["v"].as_str()),
        ("iptables", "4")
    );
    assert!(!kubernetes.kube_proxy.contains_key("mode"));
    for path in ["podPidsLimit", "maxPods", "proxyMode", "masqueradeAll", "apiserverArgs[0]"] {
        assert_eq!(left_at(&imported, &format!("spec.kubernetes.{path}")).len(), 1, "{path}: {:?}", imported.left);
    }
    // The same twice is no loss.
    let imported = import(&file(
        "  kubernetes: {podPidsLimit: 5, kubeletConfiguration: {podPidsLimit: 5}, schedulerArgs: [v=2, v=2]}\n",
    ));
    assert_eq!(imported.left, []);
}

#[test]
fn backups_are_made_when_kubekeys_timer_makes_them() {
    for (minutes, calendar) in [
        (30, "*:0/30"),
        (45, "*:0/45"),
        (60, "hourly"),
        (90, "0/1:30"),
        (120, "0/2:00"),
        (1440, "daily"),
        (9999, "daily"),
    ] {
        let backup = cluster(&import(&file(&format!("  etcd: {{backupPeriod: {minutes}}}\n")))).etcd.backup.unwrap();
        assert_eq!(backup.schedule, calendar);
    }
}
