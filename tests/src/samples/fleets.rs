//! The samples themselves, of one host and of several.

use kubexm_plan::Facts;
use kubexm_plan::facts::InstalledPackages;
use kubexm_spec::Family;

use super::sample::Sample;

const ONE: Sample = Sample {
    name: "defaults",
    hosts: &[("node1", "{zone: one}")],
    roles: "{etcd: [node1], master: [node1], worker: [node1]}",
    spec: "",
    facts: |_| {},
    added: &[],
    deleted: &[],
    upgraded: None,
    occupied: false,
};

/// An upgrade that drains nodes.
const MINOR: Option<[&str; 2]> = Some(["v1.34.4", "v1.35.4"]);
/// One with another minor version of etcd: its members cannot go back once all of them have it.
const OVER_THE_GATE: Option<[&str; 2]> = Some(["v1.33.13", "v1.34.4"]);
/// One that does not drain.
const PATCH: Option<[&str; 2]> = Some(["v1.34.2", "v1.34.4"]);

/// Samples of one host.
pub const SAMPLES: [Sample; 3] = [
    ONE,
    Sample {
        name: "a named minor, a usable resolver, without optional tools and registry, with an image of the user's",
        spec: "  kubernetes: {version: v1.34}\n  registry: {type: none}\n  bundle: {exclude: [crictl, helm], extraImages: \
               [{name: \"docker.io/library/busybox:1\"}]}\n",
        facts: |facts| facts.nameservers = Some(vec![[10, 0, 0, 53].into()]),
        ..ONE
    },
    Sample {
        name: "isolated: no default route, no resolver, a network that the operator brings",
        spec: "  kubernetes: {version: v1.36}\n  network: {plugin: none}\n",
        facts: |facts| {
            facts.default_route = false;
            facts.nameservers = None;
        },
        ..ONE
    },
];

const THREE_PLANES: Sample = Sample {
    name: "three control planes that are all workers too",
    hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{zone: three}")],
    roles: "{master: [node1, node2, node3], worker: [node1, node2, node3]}",
    spec: "  kubernetes: {autoRenewCerts: true}\n  etcd: {dataDir: /srv/etcd, backup: {dir: /srv/backups, keep: 3}}\n",
    added: &["node3"],
    deleted: &["node3"],
    upgraded: MINOR,
    ..ONE
};

/// Samples of several hosts.
pub const FLEETS: [Sample; 27] = [
    Sample {
        name: "two control planes and a worker",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1, node2], worker: [node3]}",
        spec: "  kubernetes: {ca: {certFile: site/ca.crt, keyFrom: {env: CA_KEY}}, certificateValidityPeriod: 200d, audit: {policyFile: policies/audit.yaml, webhook: {kubeconfigFrom: {env: AUDIT}}}}\n  system: {preInstall: [{name: disks, bash: \"cp disks.txt /run/disks\", undo: \"rm -f /run/disks\", materials: [disks.txt]}], \
               postInstall: [{name: report, bash: \"true\", undo: \"true\"}]}\n  \
               addons: [{name: web, type: helm, namespace: apps, source: {path: charts/web}, values: {replicas: 2}}, \
               {name: site, type: yaml, namespace: apps, source: {path: objects}, secrets: [{name: login, dataFrom: {password: {env: SITE}}}]}]\n  \
               storage: {openebs: {basePath: /srv/volumes}}\n",
        added: &["node3"],
        deleted: &["node2"],
        upgraded: MINOR,
        ..ONE
    },
    Sample {
        name: "a site's CA whose key stays with the site",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}"), ("node4", "{}")],
        roles: "{master: [node1, node2], worker: [node3, node4]}",
        spec: "  kubernetes: {ca: {certFile: site/ca.crt, certificatesFolder: /root/certificates}}\n",
        added: &["node2", "node4"],
        deleted: &["node2", "node4"],
        upgraded: MINOR,
        ..ONE
    },
    Sample {
        name: "a control plane and three workers with labels and two stacks, one without a resolver",
        hosts: &[
            ("node1", "{}, internalAddress: [10.0.0.11, \"fd00::11\"]"),
            ("node2", "{rack: a, disk: ssd}, internalAddress: [10.0.0.12, \"fd00::12\"]"),
            ("node3", "{rack: a}, internalAddress: [10.0.0.13, \"fd00::13\"]"),
            ("node4", "{rack: b}, internalAddress: [10.0.0.14, \"fd00::14\"]"),
        ],
        roles: "{master: [node1], worker: [node2, node3, node4]}",
        spec: "  network: {podCidr: [10.233.64.0/18, \"fd85:1::/56\"], serviceCidr: [10.233.0.0/18, \"fd85:2::/112\"]}\n",
        facts: |facts| {
            if facts.host != "node4" {
                facts.nameservers = Some(vec![[10, 0, 0, 53].into()]);
            }
        },
        added: &["node3", "node4"],
        deleted: &["node3", "node4"],
        upgraded: PATCH,
        ..ONE
    },
    THREE_PLANES,
    Sample {
        name: "a registry host of its own that demands a login",
        hosts: &[("store", "{}"), ("node1", "{}"), ("node2", "{}")],
        roles: "{registry: [store], master: [node1], worker: [node2]}",
        spec: "  registry: {type: registry, auths: {registry.demo.kubexm.internal: {username: puller, passwordFrom: \
               {env: REGISTRY_PASSWORD}}}}\n  runtime: {version: 1.7.32, dataDir: /srv/containerd, extraConfig: {oom_score: -999}}\n  \
               addons: [{name: site, type: yaml, namespace: apps, source: {path: objects}}]\n",
        added: &["node2"],
        deleted: &["node2"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "two hosts that serve the registry, one of which is a worker",
        hosts: &[("store", "{}"), ("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{registry: [store, node2], master: [node1], worker: [node2, node3]}",
        spec: "  registry: {type: registry}\n  kubernetes: {proxyMode: ipvs}\n",
        added: &["node3"],
        deleted: &["node3"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "behind a load balancer of the user's, with images of their own registry",
        hosts: &[
            ("node1", "{}"),
            ("node2", "{}"),
            ("node3", "{rack: a}, annotations: {example.com/owner: a}, taints: [\"dedicated=a:NoSchedule\"]"),
        ],
        roles: "{master: [node1, node2], worker: [node3]}",
        spec: "  loadBalancer: {mode: external, domain: api.example, external: {type: external}, vip: 10.0.0.100, port: 8443}\n  \
               system: {timezone: Asia/Shanghai}\n  registry: {type: external, privateRegistry: \"r.example:8443/mirror\", caFile: /root/ca.crt, auths: \
               {\"r.example:8443\": {username: robot, passwordFrom: {env: ROBOT}}}}\n",
        added: &["node2"],
        deleted: &["node2", "node3"],
        ..ONE
    },
    Sample {
        name: "hosts that lack packages, one of which gives the others the time",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1], worker: [node2, node3]}",
        spec: "  bundle: {os: [debian-12]}\n  system: {ntpServers: [node1]}\n  storage: {nfs: {server: 10.0.0.9, path: /srv}}\n",
        facts: bare,
        added: &["node3"],
        deleted: &["node2"],
        ..ONE
    },
    Sample {
        name: "etcd of kubexm's on three hosts of its own",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("etcd1", "{}"), ("etcd2", "{}"), ("etcd3", "{}")],
        roles: "{etcd: [etcd1, etcd2, etcd3], master: [node1], worker: [node2]}",
        spec: "  etcd: {type: kubexm, quota: 4Gi, dataDir: /srv/etcd}\n",
        added: &["node2", "etcd3"],
        deleted: &["node2", "etcd3"],
        upgraded: OVER_THE_GATE,
        ..ONE
    },
    Sample {
        name: "etcd of kubexm's that two control planes share with a host of its own",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}"), ("etcd1", "{}")],
        roles: "{etcd: [node1, node2, etcd1], master: [node1, node2], worker: [node3]}",
        spec: "  etcd: {type: kubexm}\n",
        added: &["node2", "node3"],
        deleted: &["node2", "node3"],
        upgraded: MINOR,
        ..ONE
    },
    Sample {
        name: "etcd of the user's, below a prefix",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1, node2], worker: [node3]}",
        spec: "  etcd: {type: external, externalConfig: {endpoints: [\"https://10.0.9.1:2379\"], caFile: etcd/ca.crt, \
               certFile: etcd/client.crt, keyFrom: {env: ETCD_KEY}, prefix: /demo}}\n",
        added: &["node2", "node3"],
        deleted: &["node2", "node3"],
        upgraded: MINOR,
        ..ONE
    },
    Sample {
        name: "workers with a proxy of their own before the API servers",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}"), ("node4", "{}")],
        roles: "{master: [node1, node2], worker: [node3, node4]}",
        spec: "  loadBalancer: {mode: internal, internal: {type: haproxy}}\n",
        added: &["node2", "node4"],
        deleted: &["node2", "node4"],
        upgraded: MINOR,
        ..ONE
    },
    Sample {
        name: "workers with nginx before the API servers",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}"), ("node4", "{}")],
        roles: "{master: [node1, node2], worker: [node3, node4]}",
        spec: "  loadBalancer: {mode: internal, internal: {type: nginx}}\n",
        added: &["node2", "node4"],
        deleted: &["node2", "node4"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "keepalived and haproxy on two hosts, one of which is a worker",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}"), ("node4", "{}"), ("lb1", "{}")],
        roles: "{master: [node1, node2], worker: [node3, node4], loadbalancer: [lb1, node3]}",
        spec: "  loadBalancer: {mode: external, external: {type: kubexm-kh}, vip: 10.0.0.100}\n",
        added: &["node2", "node4"],
        deleted: &["node2", "node4"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "keepalived and nginx on two hosts, one of which is a worker",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}"), ("lb1", "{}")],
        roles: "{master: [node1, node2], worker: [node3], loadbalancer: [lb1, node3]}",
        spec: "  loadBalancer: {mode: external, external: {type: kubexm-kn}, vip: 10.0.0.100}\n",
        added: &["node2"],
        deleted: &["node2"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "a network by its chart",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1], worker: [node2, node3]}",
        spec: "  network: {plugin: cilium, options: {MTU: 1400}}\n",
        added: &["node3"],
        deleted: &["node2"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "a network by its chart, whose plugin each node links and whose databases have a node",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1], worker: [node2, node3]}",
        spec: "  network: {plugin: kube-ovn, options: {networking: {TUNNEL_TYPE: vxlan}}}\n",
        added: &["node3"],
        deleted: &["node2"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "a network by its chart, and by objects after it",
        hosts: &[("node1", "{}"), ("node2", "{}")],
        roles: "{master: [node1], worker: [node2]}",
        spec: "  network: {plugin: hybridnet}\n",
        ..ONE
    },
    Sample {
        name: "Harbor on a host of its own",
        hosts: &[("store", "{}"), ("node1", "{}"), ("node2", "{}")],
        roles: "{registry: [store], master: [node1], worker: [node2]}",
        spec: "  registry: {type: harbor, harborConfig: {projectQuota: 200Gi, adminPasswordFrom: {env: HARBOR_ADMIN}}}\n",
        added: &["node2"],
        deleted: &["node2"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "a network by upstream's manifest",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1], worker: [node2, node3]}",
        spec: "  network: {plugin: calico, options: {mtu: 1400}}\n",
        added: &["node3"],
        deleted: &["node2"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "CRI-O in place of containerd, with a registry that demands a login",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1, node2], worker: [node3]}",
        spec: "  runtime: {type: cri-o}\n  registry: {auths: {registry.demo.kubexm.internal: {username: puller, passwordFrom: \
               {env: REGISTRY_PASSWORD}}}}\n",
        added: &["node2", "node3"],
        deleted: &["node2", "node3"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "docker in place of containerd",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1, node2], worker: [node3]}",
        spec: "  runtime: {type: docker}\n  bundle: {extraImages: [{name: \"docker.io/library/busybox:1\"}]}\n",
        added: &["node2", "node3"],
        deleted: &["node2", "node3"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "isulad of the hosts' own packages",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1, node2], worker: [node3]}",
        spec: "  runtime: {type: isulad}\n  bundle: {os: [openeuler-24.03-sp1], extraImages: [{name: \"docker.io/library/busybox:1\"}]}\n",
        facts: of_openeuler,
        added: &["node2", "node3"],
        deleted: &["node2", "node3"],
        ..ONE
    },
    Sample {
        name: "multus before the pod network",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1, node2], worker: [node3]}",
        spec: "  network: {multus: true}\n",
        added: &["node2", "node3"],
        deleted: &["node2", "node3"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "a DNS cache on every node",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1, node2], worker: [node3]}",
        spec: "  kubernetes: {nodelocaldns: {}}\n",
        added: &["node2", "node3"],
        deleted: &["node2", "node3"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "kube-vip on two control planes",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1, node2], worker: [node3]}",
        spec: "  loadBalancer: {mode: internal, internal: {type: kube-vip}, vip: 10.0.0.100}\n",
        added: &["node2", "node3"],
        deleted: &["node2", "node3"],
        upgraded: PATCH,
        ..ONE
    },
    Sample {
        name: "hosts with packages that are older than the bundle's",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1], worker: [node2, node3]}",
        spec: "  bundle: {os: [debian-12]}\n",
        facts: outdated,
        added: &["node3"],
        deleted: &["node2"],
        upgraded: PATCH,
        ..ONE
    },
];

/// One that kubeadm could have made, and that is upgraded once it is adopted.
pub const ADOPTED: Sample = Sample {
    name: "two control planes and a worker without a registry",
    hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
    roles: "{master: [node1, node2], worker: [node3]}",
    spec: "  registry: {type: none}\n",
    upgraded: MINOR,
    ..ONE
};

/// The same over an etcd outside of kubeadm's control.
pub const ADOPTED_ETCD: Sample = Sample {
    name: "two control planes over an etcd of others, and a worker, without a registry",
    hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
    roles: "{master: [node1, node2], worker: [node3]}",
    spec: "  registry: {type: none}\n  etcd: {type: external, externalConfig: {endpoints: [\"https://10.0.9.1:2379\"], caFile: etcd/ca.crt, \
           certFile: etcd/client.crt, keyFrom: {env: ETCD_KEY}}}\n",
    upgraded: MINOR,
    ..ONE
};

/// Clusters whose authorities are renewed, for a century; kubeadm's etcd, and one of kubexm's.
pub const RENEWED: [Sample; 2] = [
    Sample {
        name: "two control planes and a worker whose authorities are renewed",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{master: [node1, node2], worker: [node3]}",
        spec: "  kubernetes: {caCertificateValidityPeriod: 36500d}\n",
        ..ONE
    },
    Sample {
        name: "etcd of kubexm's, and authorities that are renewed",
        hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
        roles: "{etcd: [node1, node2, node3], master: [node1, node2], worker: [node2, node3]}",
        spec: "  kubernetes: {caCertificateValidityPeriod: 36500d}\n  etcd: {type: kubexm}\n",
        ..ONE
    },
];

/// A cluster and its cluster.yaml once a control plane was lost: another one, and the first, which serves the registry and the time.
pub const LOST: [[Sample; 2]; 2] = [
    [THREE_PLANES, THREE_PLANES],
    [
        Sample {
            name: "three control planes, the first of which gives the others the time",
            hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
            roles: "{master: [node1, node2, node3], worker: [node3]}",
            spec: "  bundle: {os: [debian-12]}\n  system: {ntpServers: [node1]}\n",
            facts: bare,
            ..ONE
        },
        Sample {
            name: "three control planes, the first of which was lost",
            hosts: &[("node1", "{}"), ("node2", "{}"), ("node3", "{}")],
            roles: "{registry: [node1], master: [node2, node1, node3], worker: [node3]}",
            spec: "  bundle: {os: [debian-12]}\n  system: {ntpServers: [node1]}\n",
            facts: bare,
            added: &["node1"],
            deleted: &["node1"],
            ..ONE
        },
    ],
];

/// As the fake dpkg writes it.
fn installed(packages: &[(&str, &str)]) -> Option<InstalledPackages> {
    let entry = |(name, version): &(&str, &str)| {
        format!("Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n\n")
    };
    Some(InstalledPackages { family: Family::Deb, list: packages.iter().map(entry).collect(), broken: None })
}

/// With its packages of the bundle's: the fake has no package manager of this family.
fn of_openeuler(facts: &mut Facts) {
    (facts.os_id, facts.os_version, facts.os_edition) = ("openEuler".into(), "24.03".into(), "24.03 (LTS-SP1)".into());
    let entry = |name| format!("N\t{name}\t0\t2.1.6\t1\tx86_64\nP\t{name}\t8\t2.1.6-1\n");
    let list = ["bash-completion", "ebtables", "iSulad"].map(entry).concat();
    facts.packages = Some(InstalledPackages { family: Family::Rpm, list, broken: None });
    for program in ["isulad", "isula", "isulad-shim"] {
        facts.programs.insert(program.to_owned(), Some(format!("/usr/bin/{program}")));
    }
}

/// The bundle has a newer socat.
fn outdated(facts: &mut Facts) {
    facts.packages = installed(&[("bash-completion", "1.0-1"), ("ebtables", "1.0-1"), ("socat", "0.9-1")]);
}

/// Nobody has chrony; on node2 it takes the place of timesyncd, and socat lacks too.
fn bare(facts: &mut Facts) {
    let socat = (facts.host != "node2").then_some("socat");
    let programs = ["conntrack", "iptables", "ip", "tc", "ethtool", "mount", "umount", "nsenter", "ebtables"];
    let there = programs.into_iter().chain(socat);
    facts.programs = there.map(|name| (name.to_owned(), Some(format!("/usr/sbin/{name}")))).collect();
    let packages = ["bash-completion"].into_iter().chain((facts.host == "node2").then_some("systemd-timesyncd"));
    facts.packages = installed(&packages.map(|name| (name, "1.0-1")).collect::<Vec<_>>());
}
