//! What must hold of every op kind: it converges, is then satisfied, changes nothing the second time, and restores
//! the tree byte for byte.

#![allow(clippy::expect_used, clippy::panic, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Host, archive, same};
use kubexm_ops::{Wave, dispatch};
use kubexm_plan::SlotName;
use kubexm_plan::op::{
    Absent, AllInto, Binary, Blobs, CertificatesRenewed, Dir, EtcdSnapshot, HARBOR_UNIT, HarborAccess, HarborImage,
    HarborImages, HarborProjects, HelmRelease, Hostname, HostsBlock, ImageLoaded, ImageSource, KernelModule,
    KubeObject, KubeadmInit, KubeadmReset, Kubeconfig, KubeletCertificate, Link, Manifests, MoveAside, NodeAnnotation,
    NodeApplied, NodeLabel, NodePruned, NodeTainted, NodeUntainted, Op, Packages, RegistryLayout, Renewal, Resolver,
    SelinuxMode, Stamp, StateDir, SwapOff, Sysctl, Timezone, Unit, Unpacked, WantedPackage,
};
use kubexm_spec::cluster::RuntimeKind;
use kubexm_spec::depot::Repository;
use kubexm_spec::{Digest, Family};

const SOCKET: &str = "unix:///run/containerd/containerd.sock";
const TAINT: &str = "node-role.kubernetes.io/control-plane";

fn init() -> Op {
    KubeadmInit { config: "/etc/kubexm/kubeadm.yaml".into(), cri_socket: SOCKET.into(), ignore: vec![] }.into()
}

fn cluster(host: &mut Host) {
    host.ready_for_init();
    dispatch::converge(&init(), &host.machine).expect("kubeadm init");
}

/// A Harbor that runs.
fn harbor(host: &mut Host) {
    host.put("/usr/local/lib/kubexm-harbor/start", "#!/bin/true\n");
    host.put("/etc/kubexm/harbor/ca.crt", "a CA");
    let unit = "[Service]\nExecStart=/usr/local/lib/kubexm-harbor/start\n[Install]\nWantedBy=multi-user.target\n";
    host.put(&format!("/etc/systemd/system/{HARBOR_UNIT}"), unit);
    let name = HARBOR_UNIT.to_owned();
    let unit = Unit { name, enabled: true, running: Some(true), loaded: Vec::new(), reloaded: Vec::new() };
    dispatch::converge(&unit.into(), &host.machine).expect("Harbor starts");
}

fn harbor_access() -> HarborAccess {
    HarborAccess {
        registry: "registry.demo.kubexm.internal".into(),
        ca: "/etc/kubexm/harbor/ca.crt".into(),
        admin_password: "/var/lib/kubexm-harbor/admin-password".into(),
    }
}

fn projects(host: &mut Host, names: &[&str], public: bool) -> HarborProjects {
    let slot = SlotName("robot".to_owned());
    host.machine = host.machine.with_slots([(slot.clone(), b"Kx1-secret".to_vec())].into());
    HarborProjects {
        harbor: harbor_access(),
        projects: names.iter().map(|name| (*name).to_owned()).collect(),
        public,
        quota: Some(1 << 30),
        robot: "kubexm-nodes".into(),
        slots: vec![slot],
    }
}

/// A package that the host had before.
fn has(host: &Host, name: &str) {
    let status = format!("Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.0\n\n");
    host.put("/var/lib/dpkg/status", status);
    host.put(&format!("/usr/share/doc/{name}/version"), "1.0");
}

/// Packages of a repository that is there, but for its links.
fn packages(host: &Host, wanted: &[&str], replaced: &[&str]) -> Packages {
    let repository = "/var/lib/kubexm/repos/debian-12-amd64";
    host.put(&format!("{repository}/kubexm.list"), "deb file:/var/lib/kubexm/repos/debian-12-amd64 ./\n");
    let package = |name: &&str| {
        let (version, arch) = ("1.0".to_owned(), "amd64".to_owned());
        let (file, blob) = (format!("{name}_1.0_amd64.deb"), host.blob(name));
        ((*name).to_owned(), WantedPackage { version, arch, file, blob, upgrade: false })
    };
    Packages {
        family: Family::Deb,
        repository: repository.into(),
        source: format!("{repository}/kubexm.list"),
        packages: wanted.iter().map(package).collect(),
        replaced: replaced.iter().map(package).collect(),
    }
}

type Case = (&'static str, fn(&mut Host) -> Op);

const CASES: &[Case] = &[
    ("a new file in a new folder", |h| h.file("/etc/kubexm/deep/config", "wanted\n").into()),
    ("a file over another", |h| {
        h.put("/etc/kubexm.conf", "old\n");
        h.file("/etc/kubexm.conf", "wanted\n").into()
    }),
    ("a file over a link", |h| {
        std::os::unix::fs::symlink("hostname", h.machine.path("/etc/kubexm.conf")).expect("a link");
        h.file("/etc/kubexm.conf", "wanted\n").into()
    }),
    ("a file that is not wanted any more", |h| {
        h.put("/etc/systemd/system/kubexm-certs.timer", "[Timer]\n");
        Absent { path: "/etc/systemd/system/kubexm-certs.timer".into() }.into()
    }),
    ("a directory", |_| Dir { path: "/etc/kubexm/a".into(), mode: 0o700 }.into()),
    ("a directory with another mode", |h| {
        h.put("/etc/kubexm/x", "x");
        Dir { path: "/etc/kubexm".into(), mode: 0o711 }.into()
    }),
    ("a link", |_| Link { path: "/usr/local/bin/k".into(), target: "kubectl".into() }.into()),
    ("blobs that are there", |h| {
        let blob = h.blob("abc");
        Blobs { blobs: BTreeMap::from([(blob, 3)]), depots: None }.into()
    }),
    ("a program over an older one", |h| {
        h.put("/usr/local/bin/tool", "old");
        let blob = h.blob("new");
        Binary { path: "/usr/local/bin/tool".into(), blob, mode: 0o755 }.into()
    }),
    ("members of an archive", |h| {
        h.put("/usr/local/bin/ctr", "old");
        let blob = h.blob(archive(&[("bin/ctr", "new ctr"), ("bin/containerd", "new containerd")]));
        let members = BTreeMap::from([("bin/ctr".to_owned(), "/usr/local/bin/ctr".to_owned())]);
        Unpacked { blob, members, all_into: None }.into()
    }),
    ("a whole archive folder", |h| {
        let blob = h.blob(archive(&[("./bridge", "b"), ("./host-local", "h")]));
        let all = AllInto { folder: String::new(), directory: "/opt/cni/bin".into() };
        Unpacked { blob, members: BTreeMap::new(), all_into: Some(all) }.into()
    }),
    ("packages that are not there", |h| {
        has(h, "base-files");
        packages(h, &["socat", "libwrap0"], &[]).into()
    }),
    ("a package in the place of another", |h| {
        has(h, "systemd-timesyncd");
        packages(h, &["chrony"], &["systemd-timesyncd"]).into()
    }),
    ("a unit that must run", |h| {
        h.unit("a.service", "/usr/local/bin/a");
        Unit {
            name: "a.service".into(),
            enabled: true,
            running: Some(true),
            loaded: vec!["/etc/hostname".into()],
            reloaded: Vec::new(),
        }
        .into()
    }),
    ("a unit that is only enabled", |h| {
        h.unit("a.service", "/usr/local/bin/a");
        Unit { name: "a.service".into(), enabled: true, running: None, loaded: vec![], reloaded: Vec::new() }.into()
    }),
    ("a unit that must be off", |h| {
        h.unit("a.service", "/usr/local/bin/a");
        let on =
            Unit { name: "a.service".into(), enabled: true, running: Some(true), loaded: vec![], reloaded: Vec::new() };
        dispatch::converge(&on.into(), &h.machine).expect("on");
        Unit { name: "a.service".into(), enabled: false, running: Some(false), loaded: vec![], reloaded: Vec::new() }
            .into()
    }),
    ("kernel parameters", |_| {
        let values = BTreeMap::from([("net.ipv4.ip_forward".to_owned(), "1".to_owned())]);
        Sysctl { path: "/etc/sysctl.d/99-kubexm-cri.conf".into(), values, remembered: BTreeSet::new() }.into()
    }),
    ("kernel modules", |_| {
        let modules = vec!["overlay".into(), "br_netfilter".into()];
        KernelModule { path: "/etc/modules-load.d/kubexm.conf".into(), modules }.into()
    }),
    ("swap", |h| {
        h.put("/usr/lib/systemd/system/dev-x.swap", "[Swap]\nWhat=/dev/x\n");
        h.put("/usr/lib/systemd/zram-generator.conf", "[zram0]\n");
        SwapOff {}.into()
    }),
    ("the hosts block", |_| HostsBlock { lines: vec!["10.0.0.5 debian".into()], own_name: "debian".into() }.into()),
    ("a plain resolv.conf", |_| Resolver { nameservers: vec!["10.0.0.2".into()] }.into()),
    ("systemd-resolved", |h| {
        std::fs::remove_file(h.machine.path("/etc/resolv.conf")).expect("gone");
        let link = h.machine.path("/etc/resolv.conf");
        std::os::unix::fs::symlink("../run/systemd/resolve/stub-resolv.conf", link).expect("a link");
        Resolver { nameservers: vec!["10.0.0.2".into()] }.into()
    }),
    ("SELinux", |h| {
        h.put("/sys/fs/selinux/enforce", "1");
        h.put("/etc/selinux/config", "# c\nSELINUX=enforcing\nSELINUXTYPE=targeted\n");
        SelinuxMode {}.into()
    }),
    ("the host's name under cloud-init", |h| {
        h.put("/etc/cloud/cloud.cfg", "preserve_hostname: false\n");
        Hostname { name: "node1".into() }.into()
    }),
    ("a time zone", |_| Timezone { zone: "Asia/Shanghai".into() }.into()),
    ("a time zone where localtime is a file, and no other file has its name", |h| {
        let paths = ["/etc/localtime", "/etc/timezone"].map(|path| h.machine.path(path));
        paths.iter().for_each(|path| std::fs::remove_file(path).expect("gone"));
        h.put("/etc/localtime", "TZif2 of somebody's");
        Timezone { zone: "Asia/Shanghai".into() }.into()
    }),
    ("an image", |h| {
        h.ready_for_init();
        let digest = Digest::of("pause");
        let served = format!("{{\"registry.k8s.io/pause:3.10.1\":\"{digest}\"}}");
        h.put("/run/kubexm-double/registry.json", served);
        let reference = "registry.k8s.io/pause:3.10.1".to_owned();
        ImageLoaded {
            reference,
            digest,
            manifest: None,
            platform: "linux/amd64".into(),
            runtime: RuntimeKind::Containerd,
            source: Default::default(),
        }
        .into()
    }),
    ("an image whose tag names the platform's manifest in place of the index", |h| {
        h.ready_for_init();
        let manifest = Digest::of("pause of amd64");
        let served = format!("{{\"registry.k8s.io/pause:3.10.1\":\"{manifest}\"}}");
        h.put("/run/kubexm-double/registry.json", served);
        ImageLoaded {
            reference: "registry.k8s.io/pause:3.10.1".to_owned(),
            digest: Digest::of("pause"),
            manifest: Some(manifest),
            platform: "linux/amd64".into(),
            runtime: RuntimeKind::Containerd,
            source: Default::default(),
        }
        .into()
    }),
    ("an image of the store", |h| {
        h.ready_for_init();
        let (layer, index) = ("a layer", "{\"schemaVersion\":2,\"manifests\":[]}");
        let blobs = [layer, index].map(|bytes| {
            let digest = Digest::of(bytes);
            h.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", digest.hex()), bytes);
            digest
        });
        let reference = "registry.k8s.io/pause:3.10.1".to_owned();
        let source = ImageSource::Store { blobs: blobs.into() };
        ImageLoaded {
            reference,
            digest: blobs[1],
            manifest: None,
            platform: "linux/amd64".into(),
            runtime: RuntimeKind::Containerd,
            source,
        }
        .into()
    }),
    ("a registry's layout beside a stranger's repository", |h| {
        let link = "/mnt/registry/docker/registry/v2/repositories/quay.io/a/_manifests/tags/1/current/link";
        h.put(link, format!("{}", Digest::of("an older one")));
        h.put("/mnt/registry/docker/registry/v2/repositories/quay.io/b/_layers/keep", "theirs");
        let [layer, index] = ["a layer", "an index"].map(|bytes| {
            let digest = Digest::of(bytes);
            h.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", digest.hex()), bytes);
            digest
        });
        let repository =
            Repository { tags: [("1".to_owned(), index)].into(), manifests: [index].into(), blobs: [layer].into() };
        let repositories = [("quay.io/a".to_owned(), repository.clone()), ("quay.io/new".to_owned(), repository)];
        RegistryLayout { data_dir: "/mnt/registry".into(), repositories: repositories.into() }.into()
    }),
    ("a registry's layout where nothing was", |h| {
        let layer = Digest::of("a layer");
        h.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", layer.hex()), "a layer");
        let repository = Repository { blobs: [layer].into(), ..Repository::default() };
        RegistryLayout { data_dir: "/mnt/registry".into(), repositories: [("a".to_owned(), repository)].into() }.into()
    }),
    ("a user's kubeconfig", |h| {
        cluster(h);
        Kubeconfig { user: "root".into() }.into()
    }),
    ("certificates of kubeadm", |h| {
        cluster(h);
        let renewal = |name: &str, path: &str| Renewal {
            name: name.to_owned(),
            path: path.to_owned(),
            was: Digest::of(h.read(path)),
        };
        let certificates = vec![
            renewal("apiserver", "/etc/kubernetes/pki/apiserver.crt"),
            renewal("admin.conf", "/etc/kubernetes/admin.conf"),
        ];
        CertificatesRenewed { certificates }.into()
    }),
    ("a snapshot of etcd", |h| {
        cluster(h);
        EtcdSnapshot { name: "before".to_owned() }.into()
    }),
    ("kubelet's certificate", |h| {
        cluster(h);
        let folder = "/var/lib/kubelet/pki";
        h.put(&format!("{folder}/kubelet-client-2025.pem"), "ended");
        let link = h.machine.path(format!("{folder}/kubelet-client-current.pem"));
        std::os::unix::fs::symlink("kubelet-client-2025.pem", link).expect("a link");
        let slot = SlotName("kubelet".to_owned());
        h.machine = h.machine.with_slots([(slot.clone(), b"certificate and key".to_vec())].into());
        KubeletCertificate { slots: vec![slot], was: Digest::of("ended") }.into()
    }),
    ("objects", |h| {
        cluster(h);
        let text = h.text("kind: ConfigMap\nmetadata:\n  name: a\n---\nkind: ConfigMap\nmetadata:\n  name: b\n");
        KubeObject::new("two", text).into()
    }),
    ("a release of a chart", |h| {
        cluster(h);
        h.put("/usr/local/bin/helm", "#!/bin/true\n");
        let input = h.text(r#"{"values": {"a": 1}, "images": []}"#);
        let (name, namespace, chart) = ("web".to_owned(), "apps".to_owned(), h.blob("a chart"));
        HelmRelease { name, namespace, chart, input, slots: Vec::new(), wait_s: 10 }.into()
    }),
    ("objects of an add-on", |h| {
        cluster(h);
        let blob = h.blob("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n");
        Manifests { name: "site".into(), namespace: "apps".into(), blob, in_plan: false, wait_s: 10 }.into()
    }),
    ("projects and a robot of Harbor, of which one project is there", |h| {
        harbor(h);
        let found = projects(h, &["quay.io"], false);
        dispatch::converge(&found.into(), &h.machine).expect("what is there");
        projects(h, &["quay.io", "registry.k8s.io"], true).into()
    }),
    ("images of the store in Harbor", |h| {
        harbor(h);
        let made = projects(h, &["registry.k8s.io"], false);
        dispatch::converge(&made.into(), &h.machine).expect("a project");
        let blobs = ["a manifest", "a layer"].map(|bytes| h.blob(bytes));
        let image = HarborImage {
            repository: "registry.k8s.io/pause".into(),
            tag: Some("3.10.1".into()),
            manifest: blobs[0],
            blobs: blobs.into(),
        };
        HarborImages { harbor: harbor_access(), images: [("registry.k8s.io/pause:3.10.1".to_owned(), image)].into() }
            .into()
    }),
    ("a taint", |h| {
        cluster(h);
        NodeUntainted { node: "node1".into(), key: TAINT.into() }.into()
    }),
    ("a taint that is wanted", |h| {
        cluster(h);
        NodeTainted { node: "node1".into(), key: "a".into(), value: "b".into(), effect: "NoExecute".into() }.into()
    }),
    ("a label", |h| {
        cluster(h);
        NodeLabel { node: "node1".into(), key: "zone".into(), value: "a".into() }.into()
    }),
    ("an annotation", |h| {
        cluster(h);
        NodeAnnotation { node: "node1".into(), key: "example.com/owner".into(), value: "team a".into() }.into()
    }),
    ("a label and a taint that cluster.yaml no longer has", |h| {
        cluster(h);
        let applied = NodeApplied {
            labels: ["zone".to_owned()].into(),
            annotations: ["example.com/owner".to_owned()].into(),
            taints: ["a:NoExecute".to_owned()].into(),
        };
        let node = || "node1".to_owned();
        for op in [
            Op::from(NodePruned { node: node(), applied }),
            NodeLabel { node: node(), key: "zone".into(), value: "a".into() }.into(),
            NodeTainted { node: node(), key: "a".into(), value: "b".into(), effect: "NoExecute".into() }.into(),
        ] {
            dispatch::converge(&op, &h.machine).expect("what is there");
        }
        NodePruned { node: node(), applied: NodeApplied::default() }.into()
    }),
    ("a folder that a service fills", |_| StateDir::at("/opt/cni").into()),
    ("what lay in folders before", |h| {
        h.put("/var/lib/etcd/snapshot.db", "theirs");
        h.put("/var/lib/kubelet/mine/x", "theirs");
        MoveAside { paths: vec!["/var/lib/etcd".into(), "/var/lib/kubelet".into(), "/var/lib/cni".into()] }.into()
    }),
    ("the stamp", |_| Stamp { cluster: "lab".into(), id: None, bundle: None }.into()),
];

/// Tested elsewhere: acts (`join.rs` and others), resets (`teardown.rs`), and what needs a running control plane (`static_pod.rs`,
/// `backup.rs`).
const ELSEWHERE: [&str; 4] = ["Act", "Reset", "StaticPodStarted", "EtcdRestored"];

#[test]
fn every_kind_of_op_has_a_case() {
    let tested: BTreeSet<&str> = CASES.iter().map(|(_, arrange)| arrange(&mut Host::fresh()).name()).collect();
    let without: Vec<_> =
        Op::KINDS.iter().filter(|kind| !tested.contains(*kind) && !ELSEWHERE.contains(*kind)).collect();
    assert!(without.is_empty(), "no case for {without:?}");
}

#[test]
fn every_op_converges_once_and_comes_back_byte_for_byte() {
    for (name, arrange) in CASES {
        let mut host = Host::fresh();
        let op = arrange(&mut host);
        let machine = host.machine.clone();
        let before = host.tree();
        let found = dispatch::observe(&op, &machine).unwrap_or_else(|e| panic!("{name}: {}", e.full()));
        same(&before, &host.tree(), &format!("{name}: observe changed something"));

        dispatch::keep(&op, &machine).unwrap_or_else(|e| panic!("{name}: {}", e.full()));
        dispatch::converge(&op, &machine).unwrap_or_else(|e| panic!("{name}: {}", e.full()));
        let after = dispatch::observe(&op, &machine).expect("observe");
        assert!(after.satisfied, "{name}: not satisfied after converge: {}", after.raw());

        let traces = host.traces();
        assert!(dispatch::observe(&op, &machine).expect("observe").satisfied, "{name}");
        same(&traces, &host.traces(), &format!("{name}: looking again changed something"));
        dispatch::converge(&op, &machine).unwrap_or_else(|e| panic!("{name}, again: {}", e.full()));
        assert!(dispatch::observe(&op, &machine).expect("observe").satisfied, "{name}: twice is not once");

        for wave in Wave::ALL {
            dispatch::restore(&op, &machine, &found, wave).unwrap_or_else(|e| panic!("{name}, {wave:?}: {}", e.full()));
        }
        same(&before, &host.tree(), &format!("{name}: restore left a difference"));
        let back = dispatch::observe(&op, &machine).expect("observe");
        // What was pushed into a registry stays with its data.
        let stays = matches!(op, kubexm_plan::Op::HarborImages(_));
        assert_eq!(back.satisfied, stays || found.satisfied, "{name}: {}", back.raw());
    }
}

#[test]
fn every_op_can_be_restored_twice() {
    for (name, arrange) in CASES {
        let mut host = Host::fresh();
        let op = arrange(&mut host);
        let before = host.tree();
        let found = dispatch::observe(&op, &host.machine).expect("observe");
        dispatch::keep(&op, &host.machine).expect("keep");
        dispatch::converge(&op, &host.machine).expect("converge");
        for wave in [Wave::Stop, Wave::Stop, Wave::Data, Wave::Data, Wave::Start, Wave::Start] {
            dispatch::restore(&op, &host.machine, &found, wave)
                .unwrap_or_else(|e| panic!("{name}, {wave:?}: {}", e.full()));
        }
        same(&before, &host.tree(), name);
    }
}

#[test]
fn kubeadm_init_is_rolled_back_by_reset() {
    let host = Host::fresh();
    host.ready_for_init();
    let before = host.tree();
    dispatch::converge(&init(), &host.machine).expect("init");
    assert!(dispatch::observe(&init(), &host.machine).expect("observe").satisfied);
    let reset = Op::from(KubeadmReset { cri_socket: SOCKET.into() });
    assert!(!dispatch::observe(&reset, &host.machine).expect("observe").satisfied);
    dispatch::converge(&reset, &host.machine).expect("reset");
    assert!(dispatch::observe(&reset, &host.machine).expect("observe").satisfied);
    let mut after = host.tree();
    // kubeadm empties these and leaves them.
    after.retain(|path, _| {
        !["etc/kubernetes", "var/lib/etcd", "var/lib/kubelet"].iter().any(|folder| path.starts_with(folder))
    });
    same(&before, &after, "reset");
}

#[test]
fn data_of_a_service_is_removed_and_earlier_data_stays() {
    let host = Host::fresh();
    host.put("/var/lib/cni/theirs", "theirs");
    let ops = ["/usr/libexec/kubernetes", "/etc/cni", "/etc/cni/net.d/10-flannel.conflist", "/var/lib/cni"];
    let ops = ops.map(|path| Op::from(StateDir::at(path)));
    let before = host.tree();
    let found = ops.each_ref().map(|op| dispatch::observe(op, &host.machine).expect("a look"));
    assert!(found.iter().all(|found| found.satisfied), "a step must not fail because no service has begun yet");
    host.put("/usr/libexec/kubernetes/kubelet-plugins/volume/exec/x", "x");
    host.put("/etc/cni/net.d/10-flannel.conflist", "{}");
    host.put("/var/lib/cni/networks/cbr0/10.0.0.2", "pod");
    for wave in Wave::ALL {
        for (op, found) in ops.iter().zip(&found).rev() {
            dispatch::restore(op, &host.machine, found, wave).expect("back");
        }
    }
    same(&before, &host.tree(), "restore");
}

#[test]
fn what_is_mounted_in_a_services_folder_stops_its_rollback_and_loses_nothing() {
    let host = Host::fresh();
    let op = Op::from(StateDir::at("/var/lib/kubelet"));
    let found = dispatch::observe(&op, &host.machine).expect("a look");
    host.put("/var/lib/kubelet/pods/1/volumes/nfs/data", "the user's");
    host.put("/proc/self/mountinfo", "36 25 0:40 / /var/lib/kubelet/pods/1/volumes/nfs rw - nfs4 server:/export rw\n");
    let error = dispatch::restore(&op, &host.machine, &found, Wave::Data).expect_err("a mount").full();
    assert!(error.contains("/var/lib/kubelet/pods/1/volumes/nfs") && error.contains("server:/export"), "{error}");
    assert_eq!(host.read("/var/lib/kubelet/pods/1/volumes/nfs/data"), "the user's");
}

#[test]
fn a_remembered_parameter_may_have_any_value_and_is_restored() {
    let host = Host::fresh();
    host.put("/proc/sys/net/ipv4/conf/all/route_localnet", "0\n");
    let names = ["net.ipv4.conf.all.route_localnet", "net.netfilter.nf_conntrack_max"];
    let values = BTreeMap::from([("net.ipv4.ip_forward".to_owned(), "1".to_owned())]);
    let remembered = names.into_iter().map(str::to_owned).collect();
    let op = Op::from(Sysctl { path: "/etc/sysctl.d/99-kubexm-cri.conf".into(), values, remembered });
    let before = dispatch::observe(&op, &host.machine).expect("a look");
    dispatch::converge(&op, &host.machine).expect("set");
    assert!(!host.read("/etc/sysctl.d/99-kubexm-cri.conf").contains("route_localnet"));
    host.put("/proc/sys/net/ipv4/conf/all/route_localnet", "1\n");
    // Its module was loaded since: nobody knows what was there before, and it goes with the module.
    host.put("/proc/sys/net/netfilter/nf_conntrack_max", "131072\n");
    assert!(dispatch::observe(&op, &host.machine).expect("a look").satisfied, "kube-proxy's value is as good as any");
    for wave in Wave::ALL {
        dispatch::restore(&op, &host.machine, &before, wave).expect("back");
    }
    assert_eq!(host.read("/proc/sys/net/ipv4/conf/all/route_localnet"), "0\n");
    assert_eq!(host.read("/proc/sys/net/netfilter/nf_conntrack_max"), "131072\n");
}
