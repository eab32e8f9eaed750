//! The etcd of this host's API server, by the flags in its manifest: kubeadm's, one of kubexm's, or one of others.

use kubexm_plan::cluster_facts::{ApiServerEtcd, EtcdAccess};

use crate::{Machine, OpError, fsio, kube};

/// kubeadm's own.
const ETCD: &str = "/etc/kubernetes/manifests/etcd.yaml";
/// kube-apiserver's own, without the flag.
const PREFIX: &str = "/registry";

/// How it reaches etcd; none on a host without an API server, or where it uses no TLS.
pub(crate) fn access(machine: &Machine) -> Result<Option<EtcdAccess>, OpError> {
    let manifest = fsio::read_text(&machine.path(kube::API_SERVER))?.unwrap_or_default();
    Ok(Some(access_of(&manifest)).filter(|access| access.files().iter().all(|file| !file.is_empty())))
}

/// The etcd of others, or of kubexm's; none where a static pod of kubeadm's is here. `named`: files that are looked for.
pub(crate) fn look(machine: &Machine, named: Option<&EtcdAccess>) -> Result<Option<ApiServerEtcd>, OpError> {
    let manifest = fsio::read_text(&machine.path(kube::API_SERVER))?.unwrap_or_default();
    let access = access_of(&manifest);
    if access.endpoints.is_empty() || machine.path(ETCD).exists() {
        return Ok(None);
    }
    let prefix = flag(&manifest, "etcd-prefix").unwrap_or_else(|| PREFIX.to_owned());
    let files = named.map(EtcdAccess::files).into_iter().flatten();
    let lacks = files.filter(|file| !file.is_empty() && !machine.path(file).is_file()).map(str::to_owned).collect();
    Ok(Some(ApiServerEtcd { access, prefix, lacks }))
}

fn access_of(manifest: &str) -> EtcdAccess {
    let text = |name: &str| flag(manifest, name).unwrap_or_default();
    let servers = text("etcd-servers");
    EtcdAccess {
        endpoints: servers.split(',').filter(|url| !url.is_empty()).map(str::to_owned).collect(),
        ca: text("etcd-cafile"),
        certificate: text("etcd-certfile"),
        key: text("etcd-keyfile"),
    }
}

/// The value of a flag in a static pod of kubeadm's.
pub(crate) fn flag(manifest: &str, name: &str) -> Option<String> {
    let prefix = format!("--{name}=");
    let items = manifest.lines().filter_map(|line| line.trim().strip_prefix("- "));
    items.map(|item| item.trim_matches(['"', '\''])).find_map(|item| item.strip_prefix(&prefix)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_manifest_of_an_api_server_names_is_read_quoted_or_not() {
        let manifest = "spec:\n  containers:\n  - command:\n    - kube-apiserver\n    - --etcd-cafile=/etc/ssl/etcd/ssl/ca.pem\n    - \
                        --etcd-certfile=/etc/ssl/etcd/ssl/node-a1.pem\n    - --etcd-keyfile=/etc/ssl/etcd/ssl/node-a1-key.pem\n    - \
                        \"--etcd-prefix=/lab/registry\"\n    - --etcd-servers=https://10.0.0.5:2379,https://10.0.0.6:2379\n";
        let access = access_of(manifest);
        assert_eq!(access.endpoints, ["https://10.0.0.5:2379", "https://10.0.0.6:2379"]);
        assert_eq!(
            access.files(),
            ["/etc/ssl/etcd/ssl/ca.pem", "/etc/ssl/etcd/ssl/node-a1.pem", "/etc/ssl/etcd/ssl/node-a1-key.pem"]
        );
        assert_eq!(flag(manifest, "etcd-prefix").as_deref(), Some("/lab/registry"));
        assert_eq!(flag(manifest, "etcd"), None);
        assert!(access_of("kind: Pod\n").endpoints.is_empty());
    }
}
