//! No secret gets into cluster.yaml, and none is repeated by what is reported.

use super::super::secrets::masked;
use super::{cluster, file, import, is_reported, left_at};

const SPEC: &str = r#"  system:
    postInstall:
    - {name: register, bash: "curl https://ops:hunter2@example.com/done"}
    - {name: fine, bash: "scp a ops@example.com:"}
  kubernetes:
    apiserverArgs:
    - oidc-client-secret=hunter2
    - authentication-token=hunter2
    - tls-password=hunter2
    - kubelet-certificate-authority=/etc/kubernetes/pki/kubelet-ca.crt
    - etcd-servers=https://me:hunter2@10.0.0.5:2379
    kubeletConfiguration:
      staticPodURLHeader: {Authorization: [hunter2]}
      staticPodURL: https://me:hunter2@example.com/pods
      registry: {password: hunter2, name: fine}
      mirrors: {"https://me:hunter2@example.com": 1}
  registry:
    privateRegistry: r.example.com
    auths:
      r.example.com: {username: me, password: hunter2}
  addons:
  - name: chart
    sources: {chart: {name: web, repo: "https://me:hunter2@charts.example.com/x?y=@z", version: 1.0.0, values: ["p=hunter2"]}}
  - name: oci
    sources: {chart: {name: web, repo: "oci://me:hunter2@r.example.com/charts", version: 1.0.0}}
  - name: yaml
    sources: {yaml: {path: ["https://me:hunter2@example.com/a.yaml", ./b.yaml]}}
"#;

#[test]
fn secrets_are_left_out_and_reported_by_their_place() {
    let imported = import(&file(SPEC));
    let shown = format!("{}{:?}", imported.cluster_yaml, imported.left);
    assert!(!shown.contains("hunter2"), "{shown}");
    for path in [
        "spec.system.postInstall[0].bash",
        "spec.kubernetes.apiserverArgs[0]",
        "spec.kubernetes.apiserverArgs[1]",
        "spec.kubernetes.apiserverArgs[2]",
        "spec.kubernetes.apiserverArgs[4]",
        "spec.kubernetes.kubeletConfiguration.staticPodURLHeader",
        "spec.kubernetes.kubeletConfiguration.staticPodURL",
        "spec.kubernetes.kubeletConfiguration.registry.password",
        "spec.registry.auths.r.example.com.password",
        "spec.addons[0].sources.chart.repo",
        "spec.addons[0].sources.chart.values",
        "spec.addons[1].sources.chart.repo",
        "spec.addons[2].sources.yaml.path[0]",
    ] {
        assert!(!left_at(&imported, path).is_empty(), "{path}: {:#?}", imported.left);
    }
    let cluster = cluster(&imported);
    let kubernetes = cluster.kubernetes.unwrap();
    assert_eq!(kubernetes.api_server_args.keys().collect::<Vec<_>>(), ["kubelet-certificate-authority"]);
    assert_eq!(kubernetes.kubelet["registry"]["name"], "fine");
    assert_eq!(cluster.system.post_install.len(), 1);
    assert!(imported.cluster_yaml.contains("https://charts.example.com/x?y=@z"));
    assert!(imported.cluster_yaml.contains("oci://r.example.com/charts/web"));
}

#[test]
fn an_address_without_a_password_is_no_secret() {
    let imported = import(&file(
        "  addons:\n  - {name: a, sources: {chart: {name: web, repo: \"https://a.test/@b\", version: 1.0.0}}}\n",
    ));
    assert!(!is_reported(&imported, "spec.addons[0].sources.chart.repo"));
}

#[test]
fn a_login_is_masked_wherever_it_stands() {
    for (text, shown) in [
        ("see https://a:b@c.test/d and oci://e@f", "see https://…@c.test/d and oci://…@f"),
        ("https://a.test/b@c", "https://a.test/b@c"),
        ("a://", "a://"),
        ("://@", "://@"),
    ] {
        assert_eq!(masked(text), shown);
    }
}

#[test]
fn errors_show_no_login_either() {
    let text = file("").replace("10.0.0.1", "\"ssh://me:hunter2@10.0.0.1\"");
    let error = super::kubekey(&text, super::Defaults::Report).unwrap_err().to_string();
    assert!(error.contains("spec.hosts[0].address: a login") && !error.contains("hunter2"), "{error}");
}
