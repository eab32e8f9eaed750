//! `import`: what a KubeKey file or a running cluster contains, as cluster.yaml; what is lost is reported with its line.

use kubexm_spec::cluster::{
    EtcdKind, InternalKind, LoadBalancerMode, NetworkPlugin, RegistryKind, RuntimeKind, SecretSource, parse,
};
use kubexm_spec::{Cluster, ExitCode, Platform};
use serde_json::{Value, json};

use crate::site::{Ended, Site, assert_contains, end};

/// Line numbers in the tests below are those of this text.
const CLUSTER: &str = r#"apiVersion: kubekey.kubesphere.io/v1alpha2
kind: Cluster
metadata:
  name: sample
spec:
  hosts:
  - {name: node1, address: 172.16.0.2, internalAddress: "172.16.0.2,2022::2", port: 8022, user: ubuntu, password: "Qcloud@123"}
  - {name: node2, address: 172.16.0.3, internalAddress: 172.16.0.3, privateKeyPath: "~/.ssh/id_rsa", arch: arm64, timeout: 20}
  roleGroups:
    etcd: [node1]
    control-plane: [node1]
    worker:
    - node[1:2]
  controlPlaneEndpoint:
    internalLoadbalancer: haproxy
    externalDNS: false
    domain: lb.kubesphere.local
    address: ""
    port: 6443
  system:
    ntpServers: [time1.cloud.tencent.com, node1]
    timezone: "Asia/Shanghai"
    debs: [conntrack]
    preInstall:
    - {name: format disks, bash: /bin/bash -x setup.sh, materials: [./setup.sh]}
  kubernetes:
    version: v1.34.4
    clusterName: cluster.local
    containerManager: containerd
    autoRenewCerts: true
    masqueradeAll: true
    maxPods: 110
    podPidsLimit: 10000
    nodeCidrMaskSize: 24
    proxyMode: ipvs
    featureGates:
      RotateKubeletServerCertificate: true
    apiserverArgs:
    - --v=2
    kubeletArgs:
    - --foo=bar
    kubeletConfiguration:
      evictionHard: {memory.available: 5%}
    nodelocaldns: true
    audit: {enabled: false}
    kata: {enabled: true}
  etcd:
    type: kubekey
    dataDir: "/var/lib/etcd"
    snapshotCount: 10000
    heartbeatInterval: 250
    quotaBackendBytes: 2147483648
    backupDir: /var/backups/kube_etcd
    backupPeriod: 30
    keepBackupNumber: 5
  network:
    plugin: calico
    kubePodsCIDR: 10.233.64.0/18
    kubeServiceCIDR: 10.233.0.0/18
    calico: {ipipMode: Always}
    multusCNI: {enabled: false}
  storage:
    openebs: {basePath: /var/openebs/local}
  registry:
    type: harbor
    privateRegistry: "dockerhub.kubekey.local"
    insecureRegistries: []
    registryMirrors: ["https://mirror.example"]
    auths:
      "dockerhub.kubekey.local": {username: admin, password: Harbor12345}
  addons:
  - name: nfs-client
    namespace: kube-system
    sources:
      chart: {name: nfs-client-provisioner, repo: "https://charts.kubesphere.io/main", version: 4.0.11, valuesFile: ./nfs.yaml}
"#;

fn imported(text: &str) -> (Ended, Value) {
    let site = Site::new();
    site.write("from.yaml", text);
    let ended = site.run(&["import", "from.yaml", "--json"]).must(ExitCode::Ok);
    let document = ended.document();
    (ended, document)
}

fn cluster(document: &Value) -> Cluster {
    let text = document["clusterYaml"].as_str().unwrap();
    parse(text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

fn left(document: &Value) -> Vec<(u64, String)> {
    let all = document["notCarriedOver"].as_array().unwrap();
    all.iter().map(|left| (left["line"].as_u64().unwrap(), left["path"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn a_kubekey_cluster_becomes_one_that_this_program_reads() {
    let (_, document) = imported(CLUSTER);
    let cluster = cluster(&document);
    assert_eq!(cluster.name, "sample");
    let host = &cluster.hosts[0];
    assert_eq!((host.port, host.user.as_str(), host.more_internal_addresses.len()), (8022, "ubuntu", 1));
    assert_eq!(host.password, Some(SecretSource::Env("KUBEXM_PASSWORD_NODE1".to_owned())));
    assert_eq!(cluster.bundle.platforms, [Platform::LINUX_AMD64, Platform::LINUX_ARM64], "one host of each");
    assert_eq!(cluster.role_groups.worker, ["node1", "node2"]);
    let LoadBalancerMode::Internal { kind, .. } = &cluster.load_balancer.mode else { panic!("{document}") };
    assert_eq!(*kind, InternalKind::Haproxy);
    assert_eq!(cluster.load_balancer.domain.as_deref(), Some("lb.kubesphere.local"));
    let kubernetes = cluster.kubernetes.as_ref().unwrap();
    assert_eq!(kubernetes.version.as_deref(), Some("v1.34.4"));
    assert_eq!(kubernetes.api_server_args["v"], "2");
    assert!(kubernetes.feature_gates["RotateKubeletServerCertificate"] && kubernetes.auto_renew_certs);
    assert!(kubernetes.nodelocaldns.is_some() && kubernetes.audit.is_none());
    assert_eq!(kubernetes.kubelet["podPidsLimit"], 10_000);
    assert_eq!(kubernetes.kubelet["evictionHard"]["memory.available"], "5%");
    assert_eq!(kubernetes.kube_proxy["iptables"]["masqueradeAll"], true);
    assert_eq!((cluster.etcd.kind, cluster.runtime.kind), (EtcdKind::Kubexm, RuntimeKind::Containerd));
    let backup = cluster.etcd.backup.as_ref().unwrap();
    assert_eq!((backup.schedule.as_str(), backup.keep), ("*:0/30", 5));
    assert_eq!((cluster.network.plugin, cluster.network.multus), (NetworkPlugin::Calico, false));
    assert_eq!(cluster.registry.kind, RegistryKind::Harbor);
    assert!(cluster.storage.open_ebs.is_some());
    assert_eq!(cluster.addons[0].name, "nfs-client");
}

#[test]
fn every_field_that_is_lost_is_reported_with_its_line_and_no_secret_is_repeated() {
    let (ended, document) = imported(CLUSTER);
    let left = left(&document);
    let expected = [
        (7, "spec.hosts[0].password"),
        (8, "spec.hosts[1].timeout"),
        (40, "spec.kubernetes.kubeletArgs"),
        (46, "spec.kubernetes.kata.enabled"),
        (51, "spec.etcd.heartbeatInterval"),
        (60, "spec.network.calico"),
        (63, "spec.storage.openebs"),
        (68, "spec.registry.registryMirrors"),
        (70, "spec.registry.auths.dockerhub.kubekey.local.password"),
    ];
    let expected: Vec<(u64, String)> = expected.map(|(line, path)| (line, path.to_owned())).to_vec();
    assert_eq!(left, expected);
    for secret in ["Qcloud@123", "Harbor12345"] {
        assert!(!ended.out.contains(secret) && !ended.err.contains(secret));
    }
}

#[test]
fn import_prints_the_text_on_standard_output_and_losses_on_standard_error() {
    let site = Site::new();
    site.write("from.yaml", CLUSTER);
    let ended = site.run(&["import", "from.yaml"]).must(ExitCode::Ok);
    assert_eq!(parse(&ended.out).unwrap().name, "sample");
    assert_contains(
        &ended.err,
        &["line 7: spec.hosts[0].password: ", "KUBEXM_PASSWORD_NODE1", "line 68: spec.registry.registryMirrors"],
    );
    site.run(&["import", "from.yaml", "-o", "cluster.yaml"]).must(ExitCode::Ok);
    assert_contains(&site.run(&["import", "from.yaml", "-o", "cluster.yaml"]).must(ExitCode::Usage).err, &["--force"]);
    site.run(&["import", "from.yaml", "-o", "cluster.yaml", "--force"]).must(ExitCode::Ok);
    // Harbor is not published for arm64; without that host the whole of it can be built.
    site.write("from.yaml", CLUSTER.replace("arch: arm64, ", ""));
    site.write("nfs.yaml", "{}\n");
    site.write("setup.sh", "true\n");
    site.run(&["import", "from.yaml", "-o", "cluster.yaml", "--force"]).must(ExitCode::Ok);
    site.run(&["build", "-f", "cluster.yaml", "--dry-run", "--json"]).must(ExitCode::Ok);
}

#[test]
fn what_a_file_leaves_to_kubekey_is_written_only_when_that_is_asked_for() {
    let silent = "apiVersion: kubekey.kubesphere.io/v1alpha2
kind: Cluster
metadata: {name: silent}
spec:
  hosts: [{name: node1, address: 10.0.0.1}]
  roleGroups: {master: [node1], etcd: [node1]}
";
    let site = Site::new();
    site.write("from.yaml", silent);
    let ended = site.run(&["import", "from.yaml"]).must(ExitCode::Ok);
    assert!(!ended.out.contains("calico") && !ended.out.contains("ipvs"), "{}", ended.out);
    assert_contains(&ended.err, &["KubeKey has other defaults", "--defaults write", "--defaults comment"]);
    let ended = site.run(&["import", "from.yaml", "--defaults", "comment"]).must(ExitCode::Ok);
    assert_contains(&ended.out, &["\n# spec.network.plugin: calico\n", "\n# spec.kubernetes.proxyMode: ipvs\n"]);
    assert_eq!(parse(&ended.out).unwrap().network.plugin, NetworkPlugin::Flannel);
    let ended = site.run(&["import", "from.yaml", "--defaults", "write"]).must(ExitCode::Ok);
    assert_contains(
        &ended.out,
        &["plugin: calico  # KubeKey's default", "proxyMode: ipvs  # KubeKey's default", "type: docker  # KubeKey's"],
    );
    assert_contains(
        &ended.err,
        &["spec.etcd.heartbeatInterval: unset; KubeKey's default is ", "defaults of KubeKey that differ from ours"],
    );
    assert_eq!(parse(&ended.out).unwrap().network.plugin, NetworkPlugin::Calico);
    let document = site.run(&["import", "from.yaml", "--defaults", "write", "--json"]).must(ExitCode::Ok).document();
    let defaults = document["kubekeyDefaults"].as_array().unwrap();
    let of = |field: &str| defaults.iter().find(|default| default["field"] == field).unwrap();
    assert_eq!(of("spec.network.plugin")["writtenAs"], "spec.network.plugin");
    assert_eq!(of("spec.etcd.electionTimeout")["writtenAs"], Value::Null);
}

#[test]
fn a_file_that_makes_no_cluster_is_refused_and_nothing_is_written() {
    let site = Site::new();
    site.write("from.yaml", CLUSTER.replace("172.16.0.3, internal", "\"https://me:hunter2@x\", internal"));
    let ended = site.run(&["import", "from.yaml", "-o", "cluster.yaml"]).must(ExitCode::Config);
    assert_contains(&ended.err, &["from.yaml", "line 8: spec.hosts[1].address"]);
    assert!(!ended.err.contains("hunter2") && !site.path("cluster.yaml").exists());
}

#[test]
fn a_kubekey_manifest_becomes_what_a_bundle_holds() {
    let (_, document) = imported(
        "apiVersion: kubekey.kubesphere.io/v1alpha2
kind: Manifest
metadata: {name: artifact}
spec:
  arches: [amd64, arm64]
  operatingSystems:
  - {arch: amd64, type: linux, id: ubuntu, version: \"22.04\", osImage: Ubuntu 22.04, repository: {iso: {url: https://x}}}
  - {arch: arm64, type: linux, id: ubuntu, version: \"22.04\"}
  kubernetesDistributions:
  - {type: kubernetes, version: v1.34.4}
  - {type: kubernetes, version: v1.33.1}
  components:
    helm: {version: v3.9.0}
    containerRuntimes:
    - {type: docker, version: 24.0.6}
    - {type: containerd, version: 2.2.1}
    docker-registry: {version: \"2\"}
  images:
  - docker.io/calico/cni:v3.26.1
  - kubesphere/pause:3.9
  - docker.io/calico/cni:v3.26.1
  - not an image
",
    );
    let cluster = cluster(&document);
    assert_eq!(cluster.bundle.platforms, [Platform::LINUX_AMD64, Platform::LINUX_ARM64]);
    assert_eq!(cluster.bundle.os, ["ubuntu-22.04"]);
    let images: Vec<&str> = cluster.bundle.extra_images.iter().map(|image| image.name.as_str()).collect();
    assert_eq!(images, ["docker.io/calico/cni:v3.26.1", "docker.io/kubesphere/pause:3.9"]);
    assert_eq!((cluster.runtime.kind, cluster.runtime.version.as_deref()), (RuntimeKind::Containerd, Some("2.2.1")));
    assert_eq!(cluster.registry.kind, RegistryKind::Registry);
    assert_eq!(cluster.kubernetes.unwrap().version.as_deref(), Some("v1.34.4"));
    let lines: Vec<u64> = left(&document).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 7, 11, 13, 15, 17, 22]);
}

#[test]
fn a_manifest_that_names_no_network_plugin_says_which_one_is_carried_for_it() {
    let manifest = |spec: &str| {
        format!(
            "apiVersion: kubekey.kubesphere.io/v1alpha2\nkind: Manifest\nmetadata: {{name: a}}\nspec:\n  \
             arches: [amd64, x86_64]\n  images: [docker.io/library/busybox:1]\n{spec}"
        )
    };
    let site = Site::new();
    site.write("from.yaml", manifest("  kubernetesDistributions: [{type: kubernetes, version: v1.34.4}]\n"));
    let ended = site.run(&["import", "from.yaml"]).must(ExitCode::Ok);
    assert_contains(&ended.out, &["plugin: flannel  # the Manifest names none"]);
    assert_contains(&ended.err, &["line 1: a Manifest names no network plugin", "spec.network.plugin", "calico"]);
    assert_eq!(parse(&ended.out).unwrap().network.plugin, NetworkPlugin::Flannel);
    // One of images alone carries no plugin.
    let (_, document) = imported(&manifest(""));
    assert_eq!((left(&document), document["clusterYaml"].as_str().unwrap().contains("network")), (vec![], false));
}

#[test]
fn what_kubekey_sets_in_every_kernel_is_reported_where_it_prepares_the_hosts() {
    let silent = "apiVersion: kubekey.kubesphere.io/v1alpha2\nkind: Cluster\nmetadata: {name: silent}\nspec:\n  \
                  hosts: [{name: node1, address: 10.0.0.1}]\n  roleGroups: {master: [node1], etcd: [node1]}\n";
    let site = Site::new();
    let reported = |text: &str| {
        site.write("from.yaml", text);
        site.run(&["import", "from.yaml", "--defaults", "comment"]).must(ExitCode::Ok).err
    };
    let parts =
        ["vm.max_map_count = 262144", "fs.inotify.max_user_instances = 524288", "nofile 1048576", "somaxconn = 32768"];
    assert_contains(&reported(silent), &parts);
    let not = reported(&format!("{silent}  system: {{skipConfigureOS: true}}\n"));
    for part in parts {
        assert!(!not.contains(part), "{part}: {not}");
    }
}

#[test]
fn a_live_image_that_is_named_by_its_id_is_taken_by_what_its_node_pulled_or_reported() {
    let (id, digest) = (format!("sha256:{}", "b".repeat(64)), format!("sha256:{}", "a".repeat(64)));
    let container = |name: &str, image: &str| json!({"name": name, "image": image});
    let status = |name: &str, id: String| json!({"name": name, "image": "x", "imageID": id});
    let pods = json!({"kind": "PodList", "items": [{
        "metadata": {"namespace": "default", "name": "one"},
        "spec": {"containers": [
            container("pulled", &id), container("loaded", &id), container("silent", &id[7..]), container("named", "busybox:1"),
            container("docker", &format!("docker://{id}")),
        ]},
        "status": {"containerStatuses": [
            status("pulled", format!("registry.k8s.io/main@{digest}")), status("loaded", id.clone()),
            status("named", id.clone()), status("docker", format!("docker-pullable://quay.io/a/b@{digest}")),
        ]},
    }]});
    let site = Site::new();
    let mut program = site.program();
    program.args(["import", "--live", "-", "--json"]).write_stdin(pods.to_string());
    let document = end(&mut program).must(ExitCode::Ok).document();
    let names: Vec<String> = cluster(&document).bundle.extra_images.into_iter().map(|image| image.name).collect();
    let pulled = [format!("quay.io/a/b@{digest}"), format!("registry.k8s.io/main@{digest}")];
    assert_eq!(names, ["docker.io/library/busybox:1".to_owned(), pulled[0].clone(), pulled[1].clone()]);
    let reported: Vec<(&str, &str)> = document["notCarriedOver"]
        .as_array()
        .unwrap()
        .iter()
        .map(|left| (left["path"].as_str().unwrap(), left["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(reported.len(), 4, "{reported:?}");
    for (container, said) in [
        ("pulled", "it is carried as registry.k8s.io/main@"),
        ("docker", "it is carried as quay.io/a/b@"),
        ("loaded", "no registry"),
        ("silent", "no registry"),
    ] {
        let path = format!("default/one: containers {container}");
        assert!(reported.iter().any(|(at, reason)| *at == path && reason.contains(said)), "{container}: {reported:?}");
    }
}

#[test]
fn import_names_the_kind_of_a_file_that_it_refuses() {
    let site = Site::new();
    for (text, said) in [
        ("apiVersion: v1\nkind: Pod\n", "v1 Pod"),
        ("apiVersion: kubekey.kubesphere.io/v1alpha1\nkind: Cluster\n", "v1alpha1"),
        ("a: [", "line 1"),
    ] {
        site.write("from.yaml", text);
        assert_contains(&site.run(&["import", "from.yaml"]).must(ExitCode::Config).err, &["from.yaml", said]);
    }
}

#[test]
fn images_of_a_running_cluster_are_imported_by_their_running_digest() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let pods = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"kind": "Pod", "metadata": {"namespace": "kube-system", "name": "one"},
         "spec": {"initContainers": [{"name": "init", "image": "quay.io/a/init:1"}],
                  "containers": [{"name": "main", "image": "registry.k8s.io/main:v2"}],
                  "ephemeralContainers": [{"name": "debug", "image": "busybox"}]},
         "status": {"containerStatuses": [{"name": "main", "imageID": format!("registry.k8s.io/main@{digest}")}],
                    "initContainerStatuses": [{"name": "init", "imageID": format!("docker-pullable://mirror.test/a/init@{digest}")}]}},
        {"kind": "Pod", "metadata": {"namespace": "default", "name": "two"},
         "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/main:v2"}, {"name": "odd", "image": "UPPER/x:1"}]},
         "status": {"containerStatuses": [{"name": "main", "imageID": format!("registry.k8s.io/main@{digest}")}]}},
    ]});
    let site = Site::new();
    let mut program = site.program();
    program.args(["import", "--live", "-", "--json"]).write_stdin(pods.to_string());
    let document = end(&mut program).must(ExitCode::Ok).document();
    let names: Vec<String> = cluster(&document).bundle.extra_images.into_iter().map(|image| image.name).collect();
    // A digest that is another repository's is not trusted.
    let main = format!("registry.k8s.io/main:v2@{digest}");
    assert_eq!(names, ["docker.io/library/busybox:latest", "quay.io/a/init:1", main.as_str()]);
    assert_eq!(document["notCarriedOver"][0]["path"], "default/two: containers odd");
    let mut program = site.program();
    program.args(["import", "--live", "-"]).write_stdin("{}");
    assert_contains(&end(&mut program).must(ExitCode::Config).err, &["kubectl get pods"]);
    let mut program = site.program();
    program.args(["import", "--live", "-"]).write_stdin(r#"{"kind": "List", "items": [{"kind": "Deployment"}]}"#);
    assert_contains(&end(&mut program).must(ExitCode::Config).err, &["it has no pods"]);
}

#[test]
fn what_cannot_be_built_of_a_printed_file_is_reported() {
    let site = Site::new();
    let base = "apiVersion: kubekey.kubesphere.io/v1alpha2\nkind: Cluster\nmetadata: {name: a}\nspec:\n  \
                hosts: [{name: node1, address: 10.0.0.1, arch: arm64}]\n  roleGroups: {master: [node1], etcd: [node1]}\n";
    for (spec, parts) in [
        ("  kubernetes: {version: v1.18.6}\n", &["1.18"][..]),
        ("  kubernetes: {version: v1.34.4}\n  registry: {type: harbor}\n", &["harbor", "arm64"]),
    ] {
        site.write("from.yaml", format!("{base}{spec}"));
        let ended = site.run(&["import", "from.yaml"]).must(ExitCode::Ok);
        let line = ended.err.lines().find(|line| line.contains("cannot be built as it is: "));
        assert_contains(&line.unwrap_or_else(|| panic!("{}", ended.err)).to_lowercase(), parts);
        let document = site.run(&["import", "from.yaml", "--json"]).must(ExitCode::Ok).document();
        assert!(!document["notBuildable"].as_array().unwrap().is_empty(), "{document}");
    }
    site.write("from.yaml", format!("{base}  kubernetes: {{version: v1.34.4}}\n"));
    let document = site.run(&["import", "from.yaml", "--json"]).must(ExitCode::Ok).document();
    assert_eq!(document["notBuildable"], json!([]));
}

#[test]
fn an_image_that_a_mirror_has_under_another_name_is_not_carried_twice() {
    let (_, document) = imported(
        "apiVersion: kubekey.kubesphere.io/v1alpha2
kind: Manifest
metadata: {name: a}
spec:
  arches: [amd64]
  kubernetesDistributions: [{type: kubernetes, version: v1.34.4}]
  images:
  - registry.cn-beijing.aliyuncs.com/kubesphereio/kube-apiserver:v1.34.4
  - registry.cn-beijing.aliyuncs.com/kubesphereio/kube-apiserver:v1.33.1
  - docker.io/library/busybox:1
",
    );
    let names: Vec<String> = cluster(&document).bundle.extra_images.into_iter().map(|image| image.name).collect();
    let other = "registry.cn-beijing.aliyuncs.com/kubesphereio/kube-apiserver:v1.33.1";
    assert_eq!(names, [other, "docker.io/library/busybox:1"], "another version is another image");
    let left = document["notCarriedOver"].as_array().unwrap();
    let reason = left.iter().find(|left| left["line"] == 8).unwrap()["reason"].as_str().unwrap();
    assert_contains(reason, &["registry.k8s.io/kube-apiserver:v1.34.4", "mirror"]);
}

#[test]
fn duplicates_of_mirrored_images_are_found_whatever_else_stops_a_build_and_however_a_tag_is_written() {
    let manifest = |arches: &str, more: &str| {
        format!(
            "apiVersion: kubekey.kubesphere.io/v1alpha2\nkind: Manifest\nmetadata: {{name: a}}\nspec:\n  arches: [{arches}]\n  \
             kubernetesDistributions: [{{type: kubernetes, version: v1.34.4}}]\n{more}  images:\n  \
             - registry.cn-beijing.aliyuncs.com/kubesphereio/kube-apiserver:v1.34.4\n  \
             - registry.cn-beijing.aliyuncs.com/kubesphereio/kube-proxy:1.34.4\n  \
             - docker.io/kubesphere/pause:v3.10.1\n  - docker.io/library/busybox:1\n"
        )
    };
    // Harbor is not published for arm64, and no containerd has this version.
    for (arches, more) in [
        ("amd64", ""),
        ("arm64", "  components: {harbor: {version: v2.14.2}}\n"),
        ("amd64", "  components: {containerRuntimes: [{type: containerd, version: 9.9.9}]}\n"),
    ] {
        let (_, document) = imported(&manifest(arches, more));
        assert_eq!(document["notBuildable"].as_array().unwrap().is_empty(), more.is_empty(), "{document}");
        let names: Vec<String> = cluster(&document).bundle.extra_images.into_iter().map(|image| image.name).collect();
        assert_eq!(names, ["docker.io/library/busybox:1"], "{more}");
    }
}

#[test]
fn files_that_the_imported_document_names_and_that_are_not_beside_it_are_reported() {
    let site = Site::new();
    site.write("from.yaml", CLUSTER.replace("arch: arm64, ", ""));
    site.write("setup.sh", "true\n");
    let named = |args: &[&str]| {
        let document = site.run(&[&["import", "from.yaml", "--json"], args].concat()).must(ExitCode::Ok).document();
        let problems = document["notBuildable"].as_array().unwrap().clone();
        problems.iter().map(|problem| problem.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let values = "spec.addons[0].valuesFile: ./nfs.yaml is not beside cluster.yaml; copy it there";
    assert_eq!(named(&[]), [values]);
    std::fs::create_dir(site.path("new")).unwrap();
    let script = "spec.system.preInstall[0].materials[0]: setup.sh is not beside cluster.yaml; copy it there";
    assert_eq!(named(&["-o", "new/cluster.yaml"]), [script, values]);
    let ended = site.run(&["import", "from.yaml"]).must(ExitCode::Ok);
    assert_contains(&ended.err, &[&format!("cannot be built as it is: {values}")]);
    site.write("nfs.yaml", "{}\n");
    assert!(named(&[]).is_empty());
}

#[test]
fn the_key_that_kubekey_would_use_is_written_only_when_that_is_asked_for_or_the_file_names_it() {
    let host = |more: &str| {
        format!(
            "apiVersion: kubekey.kubesphere.io/v1alpha2\nkind: Cluster\nmetadata: {{name: a}}\nspec:\n  \
             hosts: [{{name: node1, address: 10.0.0.1{more}}}]\n  roleGroups: {{master: [node1], etcd: [node1]}}\n"
        )
    };
    let site = Site::new();
    let run = |text: &str, args: &[&str]| {
        site.write("from.yaml", text);
        site.run(&[&["import", "from.yaml"], args].concat()).must(ExitCode::Ok).out
    };
    let key = |text: &str| parse(text).unwrap().hosts[0].private_key_path.clone();
    assert_eq!(key(&run(&host(""), &[])), None);
    let comment = run(&host(""), &["--defaults", "comment"]);
    assert_eq!(key(&comment), None);
    assert_contains(&comment, &["\n# spec.hosts[0].privateKeyPath: ~/.ssh/id_rsa\n"]);
    assert_contains(&run(&host(""), &["--defaults", "write"]), &["privateKeyPath: ~/.ssh/id_rsa  # KubeKey's default"]);
    let named = run(&host(", privateKeyPath: ~/.ssh/site"), &[]);
    assert_eq!(key(&named).as_deref(), Some("~/.ssh/site".as_ref()));
}
