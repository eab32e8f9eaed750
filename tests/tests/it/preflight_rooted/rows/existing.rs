//! What is on a host already: other clusters, files of the operator's, members of another cluster.

use kubexm_recipes::preflight::Severity::{Fail, Warn};
use kubexm_spec::Digest;

use super::super::edits::{initialised, member, mounts, stamp, written_by_kubeadm};
use super::{NODE1, NODE2, Row, STORE, rows};

pub const ROWS: &[Row] = rows! {
    "existing" Fail NODE1, "a cluster's admin.conf", |s| s.node1().put("/etc/kubernetes/admin.conf", "x")
        => "/etc/kubernetes/admin.conf", "without Kubernetes", "kubeadm reset";
    "existing" Fail NODE2, "a kubelet's unit", |s| s.node2().put("/usr/lib/systemd/system/kubelet.service", "x")
        => "/usr/lib/systemd/system/kubelet.service", "without Kubernetes", "kubeadm reset";
    "existing" Fail NODE1, "etcd's data", |s| s.node1().put("/var/lib/etcd/member/wal/0.wal", "x")
        => "/var/lib/etcd/member", "without Kubernetes", "kubeadm reset";
    "existing" Fail NODE1, "a static pod", |s| s.node1().put("/etc/kubernetes/manifests/kube-apiserver.yaml", "x")
        => "/etc/kubernetes/manifests/kube-apiserver.yaml", "without Kubernetes", "kubeadm reset";
    "existing" Fail NODE2, "another pod network", |s| s.node2().put("/etc/cni/net.d/10-calico.conflist", "x")
        => "/etc/cni/net.d/10-calico.conflist", "without Kubernetes", "kubeadm reset";
    "existing" Fail NODE1, "a snapshot of somebody's in etcd's folder", |s| s.node1().put("/var/lib/etcd/snapshot-2025.db", "x")
        => "1 file in /var/lib/etcd (snapshot-2025.db)", "/var/lib/etcd to be empty", "--set-aside";
    "existing" Fail NODE2, "somebody's files in kubelet's folder", |s| {
            (0..300).for_each(|number| s.node2().put(&format!("/var/lib/kubelet/mine/{number:03}"), ""));
        }
        => "300 files in /var/lib/kubelet (mine/000, mine/001, mine/002, mine/003, \u{2026})", "to be empty", "a rollback or reset restores them";
    "existing" Fail NODE2, "addresses of another pod network", |s| s.node2().put("/var/lib/cni/networks/x/10.0.0.2", "")
        => "1 file in /var/lib/cni (networks/x/10.0.0.2)", "to be empty", "move the files elsewhere";
    "existing" Fail NODE2, "a disk below kubelet's folder", |s| {
            mounts(s.node2(), "26 25 8:2 / /var/lib/kubelet/pods rw - tmpfs tmpfs rw\n");
        }
        => "/var/lib/kubelet/pods (tmpfs of tmpfs)", "/var/lib/kubelet to be empty", "unmount it";
    "existing" Fail NODE1, "what was set aside and never came back", |s| s.node1().put("/var/lib/.kubexm-before-etcd/x", "")
        => "/var/lib/.kubexm-before-etcd", "no files that an earlier run moved aside", "move it back to /var/lib/etcd";
    "existing" Fail NODE1, "an etcd that runs", |s| s.node1().process(512, "etcd", &[])
        => "etcd running (pid 512)", "etcd of its own", "remove it";
    "existing" Fail NODE2, "docker with containers", |s| {
            s.node2().process(600, "dockerd", &[]);
            s.node2().process(601, "containerd-shim", &[]);
            s.node2().process(602, "containerd-shim", &[]);
        } => "docker with 2 containers", "container runtime", "remove it";
    "existing" Fail NODE2, "podman with a container", |s| s.node2().process(700, "conmon", &[])
        => "podman with 1 container", "container runtime", "remove it";
    "existing" Fail STORE, "a docker of the operator's on Harbor's host, without containers", |s| {
            s.with_harbor();
            s.host("store").process(600, "dockerd", &[]);
            s.host("store").put("/etc/docker/daemon.json", "{}");
            s.host("store").put("/var/lib/docker/image/overlay2/repositories.json", "{}");
        } => "another docker: dockerd running (pid 600), /etc/docker (daemon.json), /var/lib/docker (image/overlay2/repositories.json)",
        "Harbor comes with an engine of its own", "use another host";
    "existing" Fail STORE, "what another docker left on Harbor's host", |s| {
            s.with_harbor();
            s.host("store").put("/etc/docker/daemon.json", "{}");
        } => "another docker: /etc/docker (daemon.json)", "a host without docker", "remove it if nobody needs it";
    "existing" Fail STORE, "docker's package on Harbor's host", |s| {
            s.with_harbor();
            s.host("store").put("/usr/lib/systemd/system/docker.service", "[Service]\n");
        } => "docker.service (installed)", "container runtime", "kubexm's would replace it";
    "unchanged" Fail NODE1, "a running cluster that was created with another config", |s| {
            stamp(s.node1(), "demo");
            initialised(s.node1(), &Digest::of("another config").to_string());
        } => "another version, network", "the bundle it was created with", "other settings are not supported";
    "unchanged" Fail NODE1, "a running cluster that was made for another pod network", |s| {
            let text = "---\nkind: ClusterConfiguration\nnetworking:\n  podSubnet: 10.1.0.0/16\n";
            s.node1().put("/etc/kubexm/kubeadm.yaml", text);
            stamp(s.node1(), "demo");
            initialised(s.node1(), &Digest::of(text).to_string());
        } => "created with other settings: ", "the bundle it was created with", "other settings are not supported";

    "unchanged" Fail NODE1, "a running cluster without kube-proxy, and cluster.yaml has one", |s| {
            let text = "---\nkind: InitConfiguration\nskipPhases:\n- addon/kube-proxy\n";
            s.node1().put("/etc/kubexm/kubeadm.yaml", text);
            stamp(s.node1(), "demo");
            initialised(s.node1(), &Digest::of(text).to_string());
        } => "without kube-proxy, whose work Cilium does", "spec.network.options.kubeProxyReplacement", "options: {kubeProxyReplacement: true}";

    "unchanged" Fail NODE1, "a node with multus, which cluster.yaml no longer has", |s| {
            member(s.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
            s.node1().put("/etc/cni/net.d/00-multus-kubexm.conf", "{}");
        } => "a node with multus before its pod network", "no command takes multus out", "roll it back first";
    "unchanged" Fail NODE1, "a multus of the operator's on a node", |s| {
            s.cluster.network.multus = true;
            member(s.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
            s.node1().put("/etc/cni/net.d/00-multus.conf", "{}");
        } => "a multus that kubexm-install has not installed (/etc/cni/net.d/00-multus.conf)", "a node without multus", "leave spec.network.multus out";

    "drift" Warn NODE1, "an edited static pod", |s| {
            member(s.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
            let path = "/etc/kubernetes/manifests/kube-scheduler.yaml";
            written_by_kubeadm(s.node1(), path, "spec:\n  - --leader-elect=true\n", "spec:\n  - --leader-elect=false\n");
        } => "/etc/kubernetes/manifests/kube-scheduler.yaml edited since kubeadm wrote it (+1 -1 lines)", "`create` leaves this file",
        "`cp /var/lib/kubexm/kubeadm/etc/kubernetes/manifests/kube-scheduler.yaml /etc";
    "drift" Warn NODE1, "kubelet's edited configuration", |s| {
            member(s.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
            written_by_kubeadm(s.node1(), "/var/lib/kubelet/config.yaml", "maxPods: 110\n", "maxPods: 500\n");
        } => "/var/lib/kubelet/config.yaml edited since kubeadm wrote it", "`create` leaves this file", "systemctl restart kubelet";

    "existing" Fail NODE1, "a node of another cluster of ours", |s| stamp(s.node1(), "other")
        => "cluster \"other\" (run r1)", "\"demo\"", "kubexm-install reset -f";

    "membership" Fail NODE2, "a node of another cluster of the same name", |s| {
            member(s.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
            member(s.node2(), "00000000-0000-4000-8000-00000000000b", "ca");
        } => "id 00000000-0000-4000-8000-00000000000b (run r1)", "with id 00000000-0000-4000-8000-00000000000a", "reset -f cluster.yaml --only node2";
    "membership" Fail NODE2, "a node with another CA", |s| {
            member(s.node1(), "00000000-0000-4000-8000-00000000000a", "ca");
            member(s.node2(), "00000000-0000-4000-8000-00000000000a", "another");
        } => "its CA is not that of node1 (run r1)", "belongs to the cluster of node1", "--only node2";
    "membership" Fail NODE2, "a node of a cluster that is gone", |s| {
            member(s.node2(), "00000000-0000-4000-8000-00000000000b", "ca");
        } => "with id 00000000-0000-4000-8000-00000000000b, and node1 belongs to none", "first control plane", "--only node2";
    "membership" Fail NODE1, "a damaged stamp", |s| s.node1().put("/var/lib/kubexm/stamp.json", "{")
        => "a stamp that cannot be read", "a readable one of \"demo\"", "stamp.json says which cluster";
    "membership" Fail NODE2, "a damaged record of a join", |s| s.node2().put("/var/lib/kubexm/acts/kubeadm-join.json", "{")
        => "a record of kubexm's own that cannot be read", "a readable one", "kubeadm-join.json says whether the `kubeadm join`";
};
