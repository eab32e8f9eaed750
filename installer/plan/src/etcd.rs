//! etcd that is not kubeadm's: the names and files that recipes and ops share.

/// The unit of a member, with `spec.etcd.type: kubexm`.
pub const UNIT: &str = "kubexm-etcd.service";
/// Its configuration.
pub const CONFIG: &str = "/etc/kubexm/etcd/config.yaml";
/// Folder of a member's certificates and configuration.
pub const MEMBER: &str = "/etc/kubexm/etcd";
/// The CA of members and clients, on a member.
pub const CA: &str = "/etc/kubexm/etcd/ca.crt";
/// A member's certificate for clients.
pub const SERVER_CERT: &str = "/etc/kubexm/etcd/server.crt";
/// Its key.
pub const SERVER_KEY: &str = "/etc/kubexm/etcd/server.key";
/// A member's certificate for the other members.
pub const PEER_CERT: &str = "/etc/kubexm/etcd/peer.crt";
/// Its key.
pub const PEER_KEY: &str = "/etc/kubexm/etcd/peer.key";
/// A client's certificate for checks and snapshots on the member's own host.
pub const ADMIN_CERT: &str = "/etc/kubexm/etcd/client.crt";
/// Its key.
pub const ADMIN_KEY: &str = "/etc/kubexm/etcd/client.key";
/// Written once the member has been healthy: from then on it starts with its data only. The cluster's id, etcd's version,
/// and its data folder where that is not the usual one.
pub const FORMED: &str = "/etc/kubexm/etcd/formed";
/// Where the API servers keep their objects in an etcd of the user's: the prefix, and an endpoint a line. Written before the
/// first of them starts.
pub const KEYSPACE: &str = "/etc/kubexm/etcd-keyspace";
/// Folder of the API server's client certificate: kubeadm mounts it into the API server's pod, so nothing else is in it.
pub const CLIENT: &str = "/etc/kubexm/etcd-client";
/// The CA of the members, on a control plane.
pub const CLIENT_CA: &str = "/etc/kubexm/etcd-client/ca.crt";
/// The API server's client certificate.
pub const CLIENT_CERT: &str = "/etc/kubexm/etcd-client/client.crt";
/// Its key.
pub const CLIENT_KEY: &str = "/etc/kubexm/etcd-client/client.key";
/// Where kubeadm's etcd has its data, on a control plane where that is not the usual folder; written before it is made there.
pub const DATA_DIR: &str = "/etc/kubexm/etcd-data-dir";
