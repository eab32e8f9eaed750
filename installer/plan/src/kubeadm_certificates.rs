//! The certificates that kubeadm makes on a control plane with stacked etcd, and who reads them when it starts.

use crate::op::PodReady;

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

/// The administrator's kubeconfig.
pub const ADMIN_CONF: &str = "/etc/kubernetes/admin.conf";
/// The same of a member of `system:masters`, whom no RBAC locks out; on the first control plane since 1.29.
pub const SUPER_ADMIN_CONF: &str = "/etc/kubernetes/super-admin.conf";
/// The folder of certificates.
pub const PKI: &str = "/etc/kubernetes/pki";
/// The certificate of the cluster's CA. kubeadm uses one that is there, and makes one otherwise.
pub const CLUSTER_CA: &str = "/etc/kubernetes/pki/ca.crt";
/// Its key.
pub const CLUSTER_CA_SECRET: &str = "/etc/kubernetes/pki/ca.key";

/// The key that signs tokens of service accounts.
pub const SERVICE_ACCOUNT_SECRET: &str = "/etc/kubernetes/pki/sa.key";
/// Its public key.
pub const SERVICE_ACCOUNT_PUBLIC: &str = "/etc/kubernetes/pki/sa.pub";
/// What every control plane has alike, beside the cluster's CA: kubeadm makes it on the first one. The last two exist where etcd is
/// kubeadm's.
pub const SHARED: [&str; 6] = [
    SERVICE_ACCOUNT_SECRET,
    SERVICE_ACCOUNT_PUBLIC,
    "/etc/kubernetes/pki/front-proxy-ca.crt",
    "/etc/kubernetes/pki/front-proxy-ca.key",
    "/etc/kubernetes/pki/etcd/ca.crt",
    "/etc/kubernetes/pki/etcd/ca.key",
];

/// The authorities that sign them.
pub const AUTHORITIES: [&str; 3] =
    [CLUSTER_CA, "/etc/kubernetes/pki/etcd/ca.crt", "/etc/kubernetes/pki/front-proxy-ca.crt"];

/// Whose key signs a certificate of kubeadm's.
pub fn authority(path: &str) -> &'static str {
    match path {
        _ if path.starts_with("/etc/kubernetes/pki/etcd/") || path.ends_with("/apiserver-etcd-client.crt") => {
            AUTHORITIES[1]
        }
        _ if path.ends_with("/front-proxy-client.crt") => AUTHORITIES[2],
        _ => AUTHORITIES[0],
    }
}

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

/// The authorities whose certificates a static pod reads when it starts, as kubeadm's manifests name them.
pub fn authorities_of(pod: &str, stacked: bool) -> impl Iterator<Item = &'static str> + use<> {
    let [cluster, etcd, front_proxy] = AUTHORITIES;
    let named = match pod {
        "etcd" => vec![etcd],
        "kube-apiserver" => vec![cluster, etcd, front_proxy],
        "kube-controller-manager" => vec![cluster, front_proxy],
        _ => Vec::new(),
    };
    named.into_iter().filter(move |path| stacked || *path != etcd)
}

/// kube-vip's pod, which asks with the administrator's certificate as it was when it started.
pub const KUBE_VIP: (&str, &[&str]) = ("kube-vip", &["/etc/kubernetes/admin.conf"]);

/// The same without what is not kubeadm's: an etcd of others has no pod, and its clients read their certificate with every connection.
/// With kube-vip, where it runs.
pub fn read_by(stacked: bool, kube_vip: bool) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let of_etcd = |path: &&str| path.ends_with("/apiserver-etcd-client.crt");
    READ_BY
        .into_iter()
        .chain(kube_vip.then_some(KUBE_VIP))
        .filter(move |(pod, _)| stacked || *pod != "etcd")
        .map(move |(pod, files)| (pod, files.iter().copied().filter(|path| stacked || !of_etcd(path)).collect()))
}

/// What is waited for after a restart; `ended`: whether a certificate of a control plane has ended, so that nobody can be healthy before all
/// are renewed.
pub fn ready_after(pod: &str, ended: bool) -> PodReady {
    match (pod, ended) {
        ("etcd", false) => PodReady::Member,
        // Its peers may have ended certificates still.
        ("etcd", true) | ("kube-vip", _) => PodReady::Running,
        (_, false) => PodReady::ApiServer,
        (_, true) => PodReady::ApiServerAgain,
    }
}
