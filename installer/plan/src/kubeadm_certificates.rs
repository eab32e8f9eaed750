//! The certificates that kubeadm makes on a control plane with stacked etcd, and who reads them when it starts.

/// kubeadm's name of a certificate (`kubeadm certs renew NAME`), and its file.
pub const MANAGED: [(&str, &str); 11] = [
    ("etcd-server", "/etc/kubernetes/pki/etcd/server.crt"),
    ("etcd-peer", "/etc/kubernetes/pki/etcd/peer.crt"),
    ("etcd-healthcheck-client", "/etc/kubernetes/pki/etcd/healthcheck-client.crt"),
    ("apiserver-etcd-client", "/etc/kubernetes/pki/apiserver-etcd-client.crt"),
    ("apiserver", "/etc/kubernetes/pki/apiserver.crt"),
    ("apiserver-kubelet-client", "/etc/kubernetes/pki/apiserver-kubelet-client.crt"),
    ("front-proxy-client", "/etc/kubernetes/pki/front-proxy-client.crt"),
    ("controller-manager.conf", "/etc/kubernetes/controller-manager.conf"),
    ("scheduler.conf", "/etc/kubernetes/scheduler.conf"),
    ("admin.conf", "/etc/kubernetes/admin.conf"),
    ("super-admin.conf", "/etc/kubernetes/super-admin.conf"),
];

/// The folder of certificates.
pub const PKI: &str = "/etc/kubernetes/pki";
/// The certificate of the cluster's CA. kubeadm uses one that is there, and makes one otherwise.
pub const CLUSTER_CA: &str = "/etc/kubernetes/pki/ca.crt";
/// Its key.
pub const CLUSTER_CA_SECRET: &str = "/etc/kubernetes/pki/ca.key";

/// The authorities that sign them.
pub const AUTHORITIES: [&str; 3] =
    [CLUSTER_CA, "/etc/kubernetes/pki/etcd/ca.crt", "/etc/kubernetes/pki/front-proxy-ca.crt"];

/// Static pods in the order in which they are restarted, with the files that their manifests name: what a pod needs to
/// answer comes before it.
pub const READ_BY: [(&str, &[&str]); 4] = [
    ("etcd", &["/etc/kubernetes/pki/etcd/server.crt", "/etc/kubernetes/pki/etcd/peer.crt"]),
    (
        "kube-apiserver",
        &[
            "/etc/kubernetes/pki/apiserver.crt",
            "/etc/kubernetes/pki/apiserver-etcd-client.crt",
            "/etc/kubernetes/pki/apiserver-kubelet-client.crt",
            "/etc/kubernetes/pki/front-proxy-client.crt",
        ],
    ),
    ("kube-controller-manager", &["/etc/kubernetes/controller-manager.conf"]),
    ("kube-scheduler", &["/etc/kubernetes/scheduler.conf"]),
];
