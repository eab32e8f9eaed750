//! Files that together have every field of the format, each with another value than its default.

use kubexm_spec::cluster::{Keyword, Profile};
use proptest::sample::Index;
use serde_json::{Value, json};

const HEAD: &str = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec:\n";

/// What one cluster can have together; the others are of other types of a part.
const RICH: &str = r#"
  hosts:
  - name: node1
    address: [10.0.0.11, "fd00:1::11"]
    internalAddress: [10.1.0.11, "fd00:2::11"]
    port: 2222
    user: ops
    privateKeyPath: ~/.ssh/id
    passwordFrom: {env: NODE_PASSWORD}
    agent: true
    sudoPasswordFrom: {file: /root/sudo}
    via: ["root@bastion:22", {address: inner, port: 2200, user: jump, privateKeyPath: /k, passwordFrom: {file: /p}, agent: true}]
    arch: arm64
    labels: {disk: ssd, example.com/rack: "7"}
    annotations: {example.com/Owner: "team a, rack 7"}
    taints: ["dedicated=database:NoSchedule", "example.com/gpu:NoExecute"]
    roles: [worker]
  - {name: node2, address: 10.0.0.12, passwordFrom: {file: /pw}, sudoPasswordFrom: {env: SUDO}, via: [{address: b, passwordFrom: {env: P}}]}
  - {name: node3, address: 10.0.0.13}
  roleGroups: {etcd: [node2], control-plane: [node1], worker: ["node[2:3]"], loadbalancer: [node3], registry: [node2]}
  system:
    ntpServers: [ntp.example.com, node1]
    timezone: Asia/Shanghai
    firewall: off
    selinux: permissive
    rpms: [nfs-utils]
    debs: [nfs-common]
    preInstall: [{name: disks, bash: "set -e\n./disks.sh \"$1\" # all\n", materials: [disks.sh], timeout: 90, undo: "./disks.sh off", roles: [worker, control-plane], hosts: ["node[1:2]"]}]
    postInstall: [{name: done, bash: "true", materials: [a], undo: "true", roles: [etcd], hosts: [node3]}]
    skipConfigureOS: true
    osPackages: full
  extra:
    hosts: [{domain: ntp.example.com, address: 10.0.0.2}]
    resolves: [{address: "fd00:1::2"}]
  operators:
  - {name: alice, recipient: age195lpn50un3389thrdqqyv42xdl3hcgguumxpm827kg8zg5wmyc0qew6cj8}
  kubernetes:
    type: kubexm
    version: "1.30"
    clusterName: other
    dnsDomain: other.local
    proxyMode: ipvs
    maxPods: 200
    featureGates: {SidecarContainers: true}
    apiServerArgs: {event-ttl: 2h, profiling: false}
    controllerManagerArgs: {v: 4}
    schedulerArgs: {v: "4"}
    certSANs: [k8s.example.com, "*.example.com"]
    ca: {certFile: ca.crt, keyFrom: {file: /ca.key}}
    certificateValidityPeriod: 200h
    caCertificateValidityPeriod: 100d
    autoRenewCerts: true
    nodelocaldns: {address: 169.254.25.11}
    audit: {policyFile: policy.yaml, webhook: {kubeconfigFrom: {env: AUDIT}}, maxAge: 1, maxBackups: 2, maxSize: 3}
    kubelet: {evictionHard: {nodefs.available: 1Gi}, x: ["1", 1, 1.5, ~, {a: [b]}], empty: {}}
    kubeProxy: {metricsBindAddress: "0.0.0.0:10249"}
  etcd: {type: kubexm, dataDir: /data/etcd, quota: 8Gi, snapshots: {count: 5000, keep: 3}, backup: {schedule: "*-*-* 03:00:00", dir: /srv/b, keep: 2, recipients: [age195lpn50un3389thrdqqyv42xdl3hcgguumxpm827kg8zg5wmyc0qew6cj8]}}
  runtime: {type: cri-o, version: v1.34.1, dataDir: /data/crio, extraConfig: {crio: {runtime: {pids_limit: 0}}}}
  network:
    plugin: kube-ovn
    version: 1.14.10
    multus: true
    podCidr: [10.128.0.0/16, "fd00:10::/56"]
    serviceCidr: [10.96.0.0/16, "fd00:11::/112"]
    interface: eth1
    options: {func: {ENABLE_LB: false}}
  loadBalancer: {mode: external, external: {type: kubexm-kn, virtualRouterId: 51}, vip: 10.0.0.9, port: 8443, interface: eth0, domain: api.example.com}
  registry:
    type: harbor
    port: 8444
    listen: node-address
    fanOut: false
    dataDir: /data/harbor
    privateRegistry: harbor.example.com:8444/library
    auths: {"harbor.example.com:8444": {username: robot$a, passwordFrom: {env: HARBOR}}, other.example.com: {username: b, passwordFrom: {file: /b}}, docker.example.com: {username: c, passwordFrom: {dockerConfig: ~/.docker/config.json}}}
    harborConfig: {version: 2.14.0, adminPasswordFrom: {env: ADMIN}, databasePasswordFrom: {file: /db}, public: true, projectQuota: 200Gi, config: {log: {level: debug}}}
    namespaceOverride: kubexm
  addons:
  - {name: a, type: helm, source: {repo: "https://charts.example.com/x", chart: a, version: 1.2.3}, namespace: kube-system, values: {a: [1]}, valuesFile: a.yaml, secrets: [{name: login, type: kubernetes.io/basic-auth, dataFrom: {username: {env: WHO}, password: {file: secrets/a}}}]}
  - {name: b, type: helm, source: {oci: "oci://ghcr.io/org/b", version: 1.0.0}, after: [a]}
  - {name: c, type: yaml, source: {url: "https://example.com/c.yaml", sha256: 1111111111111111111111111111111111111111111111111111111111111111}}
  - {name: d, type: yaml, source: {path: d/}}
  - {name: e, type: helm, source: {catalogue: metrics-server, version: 3.13.0}}
  - {name: f, type: helm, source: {catalogue: metrics-server}}
  storage: {openebs: {basePath: /data/local, defaultClass: false}, nfs: {server: nfs.example.com, path: "/srv/my volumes", mountOptions: [hard, nfsvers=4.1], defaultClass: true}}
  bundle:
    platforms: [linux/arm64, linux/amd64]
    os: [debian-12, openeuler-22.03-sp3]
    zone: zones/inside.yaml
    extraImages: [{name: "busybox:1"}, {name: "localhost:5000/x:1", from: "oci:images/x"}]
    extraFiles: [{path: notes.txt}, {url: "https://example.com/f", sha256: "sha256:1111111111111111111111111111111111111111111111111111111111111111"}]
    extraCharts:
    - {name: a, source: {repo: "https://charts.example.com", chart: a, version: 1.2.3}, namespace: x, values: {b: c}, valuesFile: v.yaml}
    - {name: b, source: {oci: "oci://ghcr.io/org/b", version: 1.0.0}}
    - {name: c, source: {url: "https://example.com/c.tgz", sha256: 1111111111111111111111111111111111111111111111111111111111111111}}
    - {name: d, source: {path: d}}
    - {name: e, source: {catalogue: cert-manager}}
    ignoreImages: [not.an/image]
    imageSignatures:
    - {repositories: [registry.k8s.io, "docker.io/library/busybox"], keys: [keys/a.pub, b.pub], signedAs: any}
    - {repositories: [ghcr.io/org], identities: [{issuer: "https://accounts.example.com", subject: "https://ci/*@refs/tags/v*"}], trustedRoot: sigstore/root.json}
    - {repositories: ["*"], accept: any}
    exclude: [crictl]
"#;

const OTHERS: &[&str] = &[
    "  kubernetes: {}\n",
    "  etcd: {type: external, externalConfig: {endpoints: [\"https://10.0.0.5:2379\"], caFile: ca, certFile: c, keyFrom: {file: k}, prefix: /demo/registry}}\n",
    "  etcd: {type: external, externalConfig: {endpoints: [\"https://10.0.0.5:2379\"], caFile: ca, certFile: c, keyFrom: {env: K}}}\n",
    "  etcd: {type: external, externalConfig: {endpoints: [\"http://[fd00::5]:2379\"]}}\n",
    "  registry: {type: external, privateRegistry: \"r.example.com:5000\", insecure: true}\n",
    "  registry: {type: external, privateRegistry: r.example.com/mirror, caFile: ca.crt}\n",
    "  registry: {type: none}\n",
    "  registry: {type: registry}\n",
    "  registry: {type: harbor, harborConfig: {adminPasswordFrom: {file: /a}, databasePasswordFrom: {env: D}}}\n",
    "  loadBalancer: {mode: internal, internal: {type: haproxy}, port: 7443}\n",
    "  loadBalancer: {mode: internal, internal: {type: kube-vip}, vip: 10.0.0.9, interface: eth0}\n",
    "  loadBalancer: {mode: external, vip: 10.0.0.9}\n",
    "  network: {plugin: none}\n",
    "  network: {plugin: multus}\n",
    "  network: {podCidr: \"fd00:10::/56\", serviceCidr: \"fd00:11::/112\"}\n",
    "  runtime: {type: isulad}\n",
    "  storage: {openebs: {}}\n",
    "  kubernetes: {audit: {}, nodelocaldns: {}}\n",
    "  kubernetes: {audit: {webhook: {kubeconfigFrom: {file: /audit}}}}\n",
    "  kubernetes: {ca: {certFile: ca.crt, keyFrom: {env: K}}}\n",
    "  kubernetes: {ca: {certFile: ca.crt, certificatesFolder: ~/certificates}}\n",
    "  etcd: {backup: {}}\n",
    "  bundle: {extraFiles: [{path: a}]}\n",
];

/// Whole files.
pub fn files() -> Vec<String> {
    let others = OTHERS.iter().map(|spec| format!("{HEAD}{spec}"));
    std::iter::once(format!("{HEAD}{RICH}"))
        .chain(others)
        .chain(Profile::ALL.iter().map(|profile| profile.text().to_owned()))
        .collect()
}

/// A document of drawn parts of those files.
pub fn pick(picks: &[Index]) -> Value {
    let mut parts: Vec<(String, String, Value)> = Vec::new();
    for text in files() {
        let document = kubexm_spec::cluster::document(&kubexm_spec::cluster::parse(&text).expect("a sample is good"));
        for (part, value) in document["spec"].as_object().expect("a mapping") {
            match value.as_object() {
                Some(fields) => {
                    parts.extend(fields.iter().map(|(field, value)| (part.clone(), field.clone(), value.clone())));
                }
                None => parts.push((part.clone(), String::new(), value.clone())),
            }
        }
    }
    let mut spec = json!({"kubernetes": {}});
    for index in picks {
        let (part, field, value) = index.get(&parts);
        if field.is_empty() {
            spec[part] = value.clone();
            if part == "hosts" && spec.get("roleGroups").is_none() {
                spec["roleGroups"] = json!({"master": ["node1"], "worker": ["node1", "node2", "node3"]});
            }
        } else {
            spec[part][field] = value.clone();
        }
    }
    json!({"apiVersion": "kubexm.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"}, "spec": spec})
}
