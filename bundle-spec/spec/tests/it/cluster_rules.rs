//! What parts of cluster.yaml say of each other, and what belongs to one type of a part only: reported while reading, all at once.

#![expect(clippy::panic, reason = "a helper of tests may fail the test")]

use kubexm_spec::ExitCode;
use kubexm_spec::cluster::{Cluster, Problems, parse};

pub fn file(spec: &str) -> String {
    format!("apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: test}}\nspec:\n{spec}")
}

pub fn cluster(spec: &str) -> Cluster {
    parse(&file(spec)).unwrap_or_else(|problems| panic!("{spec}{problems}"))
}

pub fn refused(spec: &str) -> Problems {
    match parse(&file(spec)) {
        Err(problems) => problems,
        Ok(_) => panic!("this is taken:\n{spec}"),
    }
}

const HOSTS: &str = "  hosts:\n  - {name: a, address: 10.0.0.1}\n  - {name: b, address: 10.0.0.2}\n";

/// What is wrong, the path it is reported at, and a part of what is said.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "  kubernetes: {certificateValidityPeriod: 4000d}\n",
        "spec.kubernetes.certificateValidityPeriod",
        "for 4000d, and the CAs that sign them for 3650d",
    ),
    (
        "  kubernetes: {caCertificateValidityPeriod: 100d}\n",
        "spec.kubernetes.caCertificateValidityPeriod",
        "for 365d, and the CAs that sign them for 100d",
    ),
    (
        "  kubernetes: {certificateValidityPeriod: 1y}\n",
        "spec.kubernetes.certificateValidityPeriod",
        "like 365d or 8760h",
    ),
    ("  kubernetes: {ca: {certFile: ca.crt}}\n", "spec.kubernetes.ca", "keyFrom"),
    ("  kubernetes: {ca: {certFile: /etc/ca.crt, keyFrom: {env: K}}}\n", "spec.kubernetes.ca.certFile", "not relative"),
    (
        "  kubernetes: {apiServerArgs: {service-cluster-ip-range: 10.0.0.0/16}}\n",
        "spec.kubernetes.apiServerArgs.service-cluster-ip-range",
        "write spec.network.serviceCidr",
    ),
    (
        "  kubernetes: {schedulerArgs: {feature-gates: A=true}}\n",
        "spec.kubernetes.schedulerArgs.feature-gates",
        "write spec.kubernetes.featureGates",
    ),
    (
        "  kubernetes: {audit: {}, apiServerArgs: {audit-log-maxage: \"3\"}}\n",
        "spec.kubernetes.apiServerArgs.audit-log-maxage",
        "set by spec.kubernetes.audit",
    ),
    (
        "  kubernetes: {apiServerArgs: {oidc-ca-file: /etc/ssl/certs/../../oidc.pem}}\n",
        "spec.kubernetes.apiServerArgs.oidc-ca-file",
        "of the host it sees /etc/kubernetes/pki, /etc/ca-certificates",
    ),
    (
        "  kubernetes: {schedulerArgs: {config: /etc/kubernetes/scheduler.yaml}}\n",
        "spec.kubernetes.schedulerArgs.config",
        "it sees no file of the host",
    ),
    (
        "  hosts: [{name: a, address: 10.0.0.1, taints: [\"node-role.kubernetes.io/control-plane:NoSchedule\"]}]\n  roleGroups: {master: [a]}\n",
        "spec.hosts[0].taints[0]",
        "the roles of a host decide",
    ),
    (
        "  hosts: [{name: a, address: 10.0.0.1, taints: [\"a=b:NoSchedule\", \"a:NoExecute\", \"a=c:NoSchedule\"]}]\n  roleGroups: {master: [a]}\n",
        "spec.hosts[0].taints[2]",
        "has the key and the effect of \"a=b:NoSchedule\"",
    ),
    ("  etcd: {dataDir: /var/lib}\n", "spec.etcd.dataDir", "a folder of the system or of kubexm"),
    ("  etcd: {dataDir: /srv}\n", "spec.etcd.dataDir", "a folder of the system or of kubexm"),
    (
        "  etcd: {dataDir: /srv/data/etcd}\n  registry: {type: registry, dataDir: /srv/data}\n",
        "spec.etcd.dataDir",
        "are the same or in each other",
    ),
    ("  runtime: {dataDir: /var/lib}\n", "spec.runtime.dataDir", "a folder of the system or of kubexm"),
    (
        "  etcd: {dataDir: /data/etcd}\n  runtime: {dataDir: /data/etcd/containerd}\n",
        "spec.etcd.dataDir",
        "spec.runtime.dataDir, are the same or in each other",
    ),
    (
        "  hosts: [{name: a, address: 10.0.0.1, labels: {zone: a-}}]\n  roleGroups: {master: [a]}\n",
        "spec.hosts[0].labels.zone",
        "is not a Kubernetes label",
    ),
    (
        "  hosts: [{name: a, address: 10.0.0.1, annotations: {kubexm.io/applied: x}}]\n  roleGroups: {master: [a]}\n",
        "spec.hosts[0].annotations.kubexm.io/applied",
        "kubexm writes the annotations",
    ),
    (
        "  hosts: [{name: a, address: 10.0.0.1, annotations: {\"a b\": x}}]\n  roleGroups: {master: [a]}\n",
        "spec.hosts[0].annotations.a b",
        "not the key of a Kubernetes annotation",
    ),
    (
        "  bundle: {platforms: [linux/amd64, linux/arm64, linux/amd64]}\n",
        "spec.bundle.platforms[2]",
        "linux/amd64\" is named twice",
    ),
    (
        "  bundle: {imageSignatures: [{repositories: [\"a.test:5000\"], accept: any}, {repositories: [A.test-5000], accept: any}]}\n",
        "spec.bundle.imageSignatures[1].repositories[0]",
        "A.test-5000\" is named twice",
    ),
    ("  bundle: {os: [debian-12, debian-12]}\n", "spec.bundle.os[1]", "debian-12\" is named twice"),
    ("  network: {podCidr: 10.0.0.0/16, serviceCidr: 10.0.128.0/20}\n", "spec.network.serviceCidr", "overlap"),
    ("  network: {podCidr: [10.1.0.0/16, 10.2.0.0/16]}\n", "spec.network.podCidr", "one family"),
    ("  network: {podCidr: [10.1.0.0/16, \"fd00::/48\", 10.2.0.0/16]}\n", "spec.network.podCidr", "too many"),
    ("  network: {podCidr: []}\n", "spec.network.podCidr", "at least one"),
    ("  network: {podCidr: \"fd00::/48\"}\n", "spec.network.podCidr", "services have IPv4 and pods have none"),
    (
        "  network: {podCidr: [10.1.0.0/16, \"fd00:1::/48\"], serviceCidr: [\"fd00:2::/112\", 10.2.0.0/16]}\n",
        "spec.network.serviceCidr",
        "different families",
    ),
    (
        "  network: {podCidr: [10.1.0.0/16, \"fd00::/48\"], serviceCidr: [10.2.0.0/16, \"fd00::/112\"]}\n",
        "spec.network.serviceCidr",
        "overlap",
    ),
    ("  network: {podCidr: \"fd00::/96\", serviceCidr: \"fd01::/112\"}\n", "spec.network.podCidr", "/96"),
    ("  network: {podCidr: \"fd00::1/64\", serviceCidr: \"fd01::/112\"}\n", "spec.network.podCidr", "fd00::/64"),
    (
        "  hosts: [{name: a, address: \"fd00::7\"}]\n  roleGroups: {master: [a]}\n  network: {podCidr: \"fd00::/64\", serviceCidr: \"fd01::/112\"}\n",
        "spec.network.podCidr",
        "host \"a\" (fd00::7) is inside",
    ),
    (
        "HOSTS  roleGroups: {master: [a], worker: [b]}\n  network: {podCidr: 10.1.0.0/24}\n",
        "spec.network.podCidr",
        "for 1 node, and there are 2 hosts",
    ),
    (
        "  kubernetes: {nodelocaldns: {address: 10.233.0.3}}\n",
        "spec.kubernetes.nodelocaldns",
        "inside the network of services",
    ),
    ("  network: {plugin: none, multus: true}\n", "spec.network.multus", "there is none"),
    ("  network: {plugin: multus, multus: false}\n", "spec.network.multus", "plugin is multus"),
    ("  network: {plugin: none, options: {a: 1}}\n", "spec.network.options", "no plugin"),
    ("  etcd: {type: external}\n", "spec.etcd", "externalConfig"),
    (
        "  etcd: {type: external, externalConfig: {endpoints: []}}\n",
        "spec.etcd.externalConfig.endpoints",
        "at least one",
    ),
    (
        "  etcd: {type: external, externalConfig: {endpoints: [\"https://10.0.0.5:2379\"], caFile: a}}\n",
        "spec.etcd.externalConfig",
        "missing: certFile, keyFrom",
    ),
    (
        "  etcd: {type: external, externalConfig: {endpoints: [\"10.0.0.5:2379\"]}}\n",
        "spec.etcd.externalConfig.endpoints[0]",
        "is not an etcd member",
    ),
    (
        "  etcd: {type: external, quota: 8Gi, externalConfig: {endpoints: [\"http://10.0.0.5:2379\"]}}\n",
        "spec.etcd.quota",
        "not set up by kubexm",
    ),
    (
        "  etcd: {externalConfig: {endpoints: [\"http://10.0.0.5:2379\"]}}\n",
        "spec.etcd.externalConfig",
        "an etcd of your own",
    ),
    (
        "HOSTS  roleGroups: {master: [a], worker: [b], etcd: [b]}\n  etcd: {type: external, externalConfig: {endpoints: [\"http://10.0.0.5:2379\"]}}\n",
        "spec.roleGroups.etcd",
        "its own hosts",
    ),
    (
        "HOSTS  roleGroups: {master: [a], worker: [b], etcd: [b]}\n",
        "spec.roleGroups.etcd",
        "members are the control planes",
    ),
    ("  etcd: {quota: lots}\n", "spec.etcd.quota", "is not a number of bytes"),
    ("  kubernetes: {type: kubexm}\n", "spec", "needs a cluster of kubeadm"),
    ("  loadBalancer: {mode: internal, internal: {type: kube-vip}}\n", "spec.loadBalancer", "\"vip\" is missing"),
    ("  loadBalancer: {mode: internal}\n", "spec.loadBalancer", "\"internal\" is missing"),
    (
        "  loadBalancer: {mode: internal, internal: {type: nginx}, vip: 10.0.0.9}\n",
        "spec.loadBalancer.vip",
        "on the worker itself",
    ),
    ("  loadBalancer: {mode: external, external: {type: kubexm-kh}}\n", "spec.loadBalancer", "\"vip\" is missing"),
    ("  loadBalancer: {mode: external, vip: 10.0.0.9, interface: eth0}\n", "spec.loadBalancer.interface", "your own"),
    (
        "  loadBalancer: {mode: external, vip: 10.0.0.9, internal: {type: nginx}}\n",
        "spec.loadBalancer.internal",
        "mode is external",
    ),
    (
        "HOSTS  roleGroups: {master: [a], worker: [b]}\n  loadBalancer: {mode: external, external: {type: kubexm-kn}, vip: 10.0.0.9}\n",
        "spec.loadBalancer",
        "no host has the role loadbalancer",
    ),
    (
        "HOSTS  roleGroups: {master: [a], worker: [b], loadbalancer: [b]}\n",
        "spec.roleGroups.loadbalancer",
        "kubexm runs nothing there",
    ),
    (
        "HOSTS  roleGroups: {master: [a], worker: [b], loadbalancer: [a]}\n  loadBalancer: {mode: external, external: {type: kubexm-kh}, vip: 10.0.0.9}\n",
        "spec.loadBalancer",
        "port 6443 itself",
    ),
    (
        "HOSTS  roleGroups: {master: [a], worker: [b], loadbalancer: [b]}\n  loadBalancer: {mode: external, external: {type: kubexm-kh}, vip: 10.0.0.9, port: 326}\n",
        "spec.loadBalancer.port",
        "answers its own host",
    ),
    (
        "HOSTS  roleGroups: {master: [a], worker: [b]}\n  loadBalancer: {mode: internal, internal: {type: kube-vip}, vip: 10.0.0.2}\n",
        "spec.loadBalancer.vip",
        "address of host \"b\"",
    ),
    ("  loadBalancer: {mode: external, vip: 10.233.64.9}\n", "spec.loadBalancer.vip", "inside the network of pods"),
    ("  registry: {type: external}\n", "spec.registry", "\"privateRegistry\" is missing"),
    (
        "  registry: {type: external, privateRegistry: \"https://r.example.com\"}\n",
        "spec.registry.privateRegistry",
        "without a scheme",
    ),
    ("  registry: {type: external, privateRegistry: r.example.com, port: 5000}\n", "spec.registry.port", "has none"),
    (
        "  registry: {type: external, privateRegistry: r.example.com, insecure: true, caFile: a}\n",
        "spec.registry.insecure",
        "needs no CA",
    ),
    ("  registry: {harborConfig: {}}\n", "spec.registry.harborConfig", "has none"),
    ("  registry: {type: harbor, port: 5443}\n", "spec.registry.port", "the depot's"),
    ("  registry: {type: registry, dataDir: /var/lib/etcd}\n", "spec.registry.dataDir", "a folder of their own"),
    ("  registry: {type: harbor, dataDir: /srv}\n", "spec.registry.dataDir", "a folder of their own"),
    ("  registry: {type: harbor, dataDir: /var/lib}\n", "spec.registry.dataDir", "or holds, a folder of the system"),
    ("  registry: {type: harbor, dataDir: /var/lib/docker/harbor}\n", "spec.registry.dataDir", "a folder of their own"),
    (
        "  registry: {auths: {r.example.com: {username: me}}}\n",
        "spec.registry.auths.r.example.com",
        "\"passwordFrom\" is missing",
    ),
    (
        "  registry: {auths: {r.example.com: {username: me, password: }}}\n",
        "spec.registry.auths.r.example.com",
        "\"passwordFrom\" is missing",
    ),
    (
        "  addons: [{name: a, type: yaml, source: {path: a}, after: [b]}, {name: b, type: yaml, source: {path: b}}]\n",
        "spec.addons[0].after[0]",
        "no add-on before it",
    ),
    ("  addons: [{name: a, type: helm}]\n", "spec.addons[0]", "\"source\" is missing"),
    ("  addons: [{name: a, type: helm, source: {}}]\n", "spec.addons[0].source", "does not state its source"),
    (
        "  addons: [{name: a, type: helm, source: {path: a, oci: \"oci://b/c\", version: \"1\"}}]\n",
        "spec.addons[0].source",
        "more than one source",
    ),
    (
        "  addons: [{name: a, type: helm, source: {path: a, version: \"1\"}}]\n",
        "spec.addons[0].source.version",
        "does not go with",
    ),
    (
        "  addons: [{name: a, type: yaml, source: {repo: \"https://a.test\", chart: a, version: \"1\"}}]\n",
        "spec.addons[0].source.repo",
        "only charts",
    ),
    ("  addons: [{name: a, type: yaml, source: {path: a}, values: {}}]\n", "spec.addons[0].values", "no values"),
    (
        "  addons: [{name: a, type: yaml, source: {path: a}, secrets: [{name: b, dataFrom: {}}]}]\n",
        "spec.addons[0].secrets[0]",
        "has no values",
    ),
    (
        "  addons: [{name: a, type: yaml, source: {path: a}, secrets: [{name: b, type: kubernetes.io/tls, dataFrom: {tls.crt: {file: c}}}]}]\n",
        "spec.addons[0].secrets[0]",
        "also has tls.key",
    ),
    (
        "  addons: [{name: a, type: yaml, source: {path: a}, secrets: [{name: b, dataFrom: {\"a/b\": {env: C}}}]}]\n",
        "spec.addons[0].secrets[0].dataFrom.a/b",
        "a key of a Secret",
    ),
    (
        "  addons: [{name: a, type: yaml, source: {path: a}, secrets: [{name: b, type: kubernetes.io/service-account-token, dataFrom: {c: {env: C}}}]}]\n",
        "spec.addons[0].secrets[0].type",
        "made by the cluster itself",
    ),
    (
        "  addons: [{name: a, type: yaml, source: {path: a}, secrets: [{name: b, dataFrom: {c: {env: C}}}, {name: b, dataFrom: {c: {env: C}}}]}]\n",
        "spec.addons[0].secrets[1].name",
        "given twice",
    ),
    (
        "  addons:\n  - {name: a, type: yaml, source: {path: a}}\n  - {name: a, type: yaml, source: {path: b}}\n",
        "spec.addons[1].name",
        "given twice, first in line 6",
    ),
    (
        "  storage: {openebs: {}, nfs: {server: a, path: /b, defaultClass: true}}\n",
        "spec.storage",
        "two default classes",
    ),
    (
        "  storage: {openebs: {basePath: /var/lib/kubelet/volumes}}\n",
        "spec.storage.openebs.basePath",
        "a folder of the system or of kubexm",
    ),
    ("  storage: {openebs: {basePath: /mnt}}\n", "spec.storage.openebs.basePath", "a folder of the system"),
    ("  storage: {openebs: {basePath: volumes}}\n", "spec.storage.openebs.basePath", "an absolute path"),
    (
        "  storage: {openebs: {basePath: /data}}\n  etcd: {dataDir: /data/etcd}\n",
        "spec.storage.openebs.basePath",
        "/data/etcd of spec.etcd.dataDir, are the same or in each other",
    ),
    (
        "  storage: {openebs: {basePath: /data/containerd/volumes}}\n  runtime: {dataDir: /data/containerd}\n",
        "spec.storage.openebs.basePath",
        "/data/containerd of spec.runtime.dataDir",
    ),
    ("  storage: {nfs: {server: a, path: srv}}\n", "spec.storage.nfs.path", "an export without : and #"),
    ("  storage: {nfs: {server: a, path: \"/srv: x\"}}\n", "spec.storage.nfs.path", "an export without : and #"),
    ("  storage: {nfs: {server: a, path: /srv/../etc}}\n", "spec.storage.nfs.path", "an export without : and #"),
    ("  storage: {nfs: {server: \"a b\", path: /srv}}\n", "spec.storage.nfs.server", "a b"),
    ("  storage: {nfs: {server: a}}\n", "spec.storage.nfs", "path"),
    (
        "  storage: {nfs: {server: a, path: /b, mountOptions: [\"hard: x\"]}}\n",
        "spec.storage.nfs.mountOptions[0]",
        "an option of mount",
    ),
    (
        "  storage: {nfs: {server: a, path: /b, mountOptions: [hard, \"-o\"]}}\n",
        "spec.storage.nfs.mountOptions[1]",
        "an option of mount",
    ),
    (
        "  hosts: [{name: a, address: 10.0.0.1, arch: arm64}]\n  roleGroups: {master: [a]}\n",
        "spec",
        "nothing for linux/arm64",
    ),
    (
        "  hosts: [{name: a, address: 10.0.0.1, roles: [master, wrker]}]\n",
        "spec.hosts[0].roles[1]",
        "is not known here",
    ),
    (
        "  hosts: [{name: a, address: 10.0.0.1, internalAddress: [10.1.0.1, 10.1.0.2]}]\n  roleGroups: {master: [a]}\n",
        "spec.hosts[0].internalAddress",
        "one family",
    ),
    (
        "  hosts:\n  - {name: a, address: [10.0.0.1, 10.0.0.9]}\n  - {name: b, address: 10.0.0.9}\n  roleGroups: {master: [a], worker: [b]}\n",
        "spec.hosts[1].address",
        "given twice",
    ),
];

#[test]
fn contradictions_between_sections_are_reported_once_with_their_path() {
    for (spec, path, said) in WRONG {
        let problems = refused(&spec.replace("HOSTS", HOSTS));
        assert_eq!(problems.exit_code(), ExitCode::Config, "{spec}{problems}");
        let reported: Vec<_> = problems.0.iter().filter(|problem| problem.to_string().contains(said)).collect();
        assert_eq!(reported.len(), 1, "{spec}{problems}");
        assert_eq!((problems.0.len(), reported[0].path.as_str()), (1, *path), "{spec}{problems}");
    }
}

#[test]
fn what_is_wrong_in_several_parts_is_reported_together() {
    let spec = "  etcd: {type: external}\n  registry: {type: external}\n  addons: [{name: a, type: helm}]\n  network: {plugin: \
                none, multus: true}\n  loadBalancer: {mode: internal}\n";
    assert_eq!(refused(spec).0.len(), 5);
}
