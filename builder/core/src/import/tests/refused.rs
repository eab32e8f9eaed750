//! What is no cluster is an error with its places, and never a file that nobody can read.

use super::super::ImportError;
use super::{Defaults, cluster, file, import, kubekey};

fn refused(text: &str) -> String {
    match kubekey(text, Defaults::Report) {
        Err(error @ ImportError::Refused(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_that_makes_no_cluster_is_refused_by_the_place_in_it() {
    let says = |text: &str, said: &str| assert!(refused(text).contains(said), "{}", refused(text));
    says(&file("").replace("10.0.0.1", "not_an_address"), "line 5: spec.hosts[0].address: ");
    says(&file("").replace("master: [node1]", "master: [node2]"), "line 6: spec.roleGroups.master: ");
    says(&file("  network: {kubePodsCIDR: 10.0.0.0/33}\n"), "line 7: spec.network.kubePodsCIDR: ");
    says(&file("  etcd: {type: external}\n"), "line 7: spec.etcd: ");
    says(&file("  kubernetes: {version: newest}\n"), "line 7: spec.kubernetes.version: ");
    says(
        &file("  controlPlaneEndpoint: {internalLoadbalancer: haproxy, address: 10.0.0.9}\n"),
        "line 7: spec.controlPlaneEndpoint.address: ",
    );
}

#[test]
fn what_can_be_left_out_is_and_is_reported_at_its_place() {
    let text = file(
        "  kubernetes: {maxPods: 300, featureGates: {lower: true, Good: true}, apiserverCertExtraSans: [\"a b\", a.test]}
  system: {timezone: Not a zone, ntpServers: [ntp.test, \"-\"]}
",
    )
    .replace("address: 10.0.0.1", "address: 10.0.0.1, labels: {a.b/c: \"ok\", \"bad key\": x}");
    let imported = import(&text);
    let cluster = cluster(&imported);
    let kubernetes = cluster.kubernetes.unwrap();
    assert_eq!((kubernetes.max_pods, kubernetes.cert_sans.as_slice()), (110, &["a.test".to_owned()][..]));
    assert_eq!((kubernetes.feature_gates.len(), cluster.hosts[0].labels.len()), (1, 1));
    assert_eq!((cluster.system.timezone, cluster.system.ntp_servers.as_slice()), (None, &["ntp.test".to_owned()][..]));
    let paths: Vec<&str> = imported.left.iter().map(|left| left.path.as_str()).collect();
    for path in [
        "spec.kubernetes.maxPods",
        "spec.kubernetes.featureGates.lower",
        "spec.kubernetes.apiserverCertExtraSans",
        "spec.system.timezone",
        "spec.system.ntpServers",
        "spec.hosts[0].labels.bad key",
    ] {
        assert!(paths.contains(&path), "{path}: {paths:?}");
    }
}

#[test]
fn documents_are_separated_as_yaml_does() {
    let cluster = file("");
    for text in [
        format!("---\n{cluster}"),
        format!("# a comment\n--- # one\n{cluster}...\n"),
        format!("\u{feff}%YAML 1.2\n---\n{cluster}"),
        format!("{cluster}---\n---\n# nothing\n"),
        cluster.replace('\n', "\r\n"),
    ] {
        assert_eq!(import(&text).left, [], "{text}");
    }
    let text = format!("--- {{kind: ConfigMap}}\n---\n{cluster}  extra: 1\n--- \n{cluster}");
    let lines: Vec<usize> = import(&text).left.iter().map(|left| left.line).collect();
    assert_eq!(lines, [1, 9, 11]);
}

#[test]
fn a_name_that_is_no_label_becomes_one_and_is_reported() {
    for (name, label) in [("My_Cluster", "my-cluster"), ("\"__\"", "cluster"), ("a.b", "a-b")] {
        let imported = import(&file("").replace("{name: sample}", &format!("{{name: {name}}}")));
        assert_eq!(cluster(&imported).name, label);
        assert_eq!(imported.left[0].path, "metadata.name");
    }
}

#[test]
fn aliases_that_stand_for_too_much_are_refused() {
    let list = |name: &str, of: &str| format!("&{name} [{}]", vec![of; 20].join(", "));
    let text = format!(
        "  a: {}\n  b: {}\n  c: {}\n  d: {}\n",
        list("a", "x"),
        list("b", "*a"),
        list("c", "*b"),
        list("d", "*c")
    );
    assert!(matches!(kubekey(&file(&text), Defaults::Report), Err(ImportError::Yaml(_) | ImportError::Large)));
    let text =
        format!("  a: {}\n  b: {}\n  c: {}\n  d: [*c, *c, *c]\n", list("a", "x"), list("b", "*a"), list("c", "*b"));
    assert!(matches!(kubekey(&file(&text), Defaults::Report), Err(ImportError::Large)));
}

#[test]
fn many_documents_and_many_wrong_values_take_no_time() {
    let start = std::time::Instant::now();
    let labels: String = (0..10_000).map(|n| format!("\"bad {n}\": x, ")).collect();
    let text = file("").replace("address: 10.0.0.1", &format!("address: 10.0.0.1, labels: {{{labels}}}"));
    assert_eq!(import(&text).left.len(), 10_000);
    import(&format!("{}{}", "a: 1\n---\n".repeat(40_000), file("")));
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}
