//! What kubeadm has recorded of the cluster, and what kubelet's files on this host name.

use kubexm_charts::documents;
use kubexm_plan::cluster_facts::{EtcdAccess, KubeadmCluster, KubeletFacts};
use kubexm_plan::kubeadm_certificates::PKI;
use serde_json::Value;

use crate::{Machine, OpError, fsio, kube, paths};

/// Where kubeadm keeps its configuration of the cluster.
pub(super) const CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";
/// A node has it once it has joined; on a control plane `kubeadm init` writes it.
const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
/// kubelet's arguments from kubeadm: `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix://…"`.
const FLAGS: &str = "/var/lib/kubelet/kubeadm-flags.env";
const FLAG: &str = "--container-runtime-endpoint=";
/// The first that names an endpoint counts: kubeadm 1.34 and later write it into a file of the instance.
const CONFIGS: [&str; 2] = ["/var/lib/kubelet/instance-config.yaml", "/var/lib/kubelet/config.yaml"];
const KEY: &str = "containerRuntimeEndpoint";
/// A flag of the API server, in its manifest.
const CERTIFICATE: &str = "- --tls-cert-file=";

/// Where ClusterConfiguration names an image of its own in place of kubeadm's.
const OWN_IMAGES: [&str; 4] =
    ["etcd.local.imageRepository", "etcd.local.imageTag", "dns.imageRepository", "dns.imageTag"];

/// What the ConfigMap says.
pub(super) fn of_config_map(object: &Value) -> Result<KubeadmCluster, String> {
    let text = object.pointer("/data/ClusterConfiguration").and_then(Value::as_str).unwrap_or_default();
    if text.is_empty() {
        return Err("the ConfigMap kubeadm-config in kube-system has no ClusterConfiguration".to_owned());
    }
    let config = documents::values(text)
        .map_err(|why| format!("ClusterConfiguration of the ConfigMap kubeadm-config cannot be read: {why}"))?;
    let config = Value::Object(config);
    let text = |path: &str| config.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let external = config.pointer("/etcd/external");
    let own = OWN_IMAGES.into_iter().map(|path| (path, text(&format!("/{}", path.replace('.', "/")))));
    let own_images = own.filter(|(_, value)| !value.is_empty()).map(|(path, value)| (path.to_owned(), value));
    Ok(KubeadmCluster {
        name: text("/clusterName"),
        version: text("/kubernetesVersion"),
        endpoint: text("/controlPlaneEndpoint"),
        dns_domain: text("/networking/dnsDomain"),
        pod_networks: text("/networking/podSubnet"),
        service_networks: text("/networking/serviceSubnet"),
        image_repository: text("/imageRepository"),
        own_images: own_images.collect(),
        etcd_data: external.is_none().then(|| text("/etcd/local/dataDir")),
        external_etcd: external.map(|external| EtcdAccess {
            endpoints: texts(external.get("endpoints")),
            ca: text("/etcd/external/caFile"),
            certificate: text("/etcd/external/certFile"),
            key: text("/etcd/external/keyFile"),
        }),
    })
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// None on a host that is no node.
pub(super) fn kubelet(machine: &Machine, host: &str) -> Result<Option<KubeletFacts>, OpError> {
    if !machine.path(KUBELET_CONF).is_file() {
        return Ok(None);
    }
    let manifest = fsio::read_text(&machine.path(kube::API_SERVER))?.unwrap_or_default();
    let certificates =
        certificates_of(&manifest).map(|folder| if is_pki(machine, folder) { PKI } else { folder }.to_owned());
    let admin = fsio::read_text(&machine.path(paths::ADMIN_CONF))?.unwrap_or_default();
    let server = server_of(&admin).map(str::to_owned);
    let (host, runtime) = (host.to_owned(), endpoint(machine)?);
    Ok(Some(KubeletFacts { host, runtime, certificates, server, etcd: None, programs: Vec::new() }))
}

/// Which folder the API server reads its certificate from.
fn certificates_of(manifest: &str) -> Option<&str> {
    let file = manifest.lines().find_map(|line| line.trim().strip_prefix(CERTIFICATE))?;
    file.trim_matches(['"', '\'']).rsplit_once('/').map(|(folder, _)| folder)
}

/// kubespray has its certificates in /etc/kubernetes/ssl, and a link to that in the place of kubeadm's folder.
fn is_pki(machine: &Machine, folder: &str) -> bool {
    let real = |path: &str| machine.path(path).canonicalize().ok();
    real(folder).is_some_and(|found| Some(found) == real(PKI))
}

/// As kubeadm writes it: of one cluster, on a line of its own.
fn server_of(kubeconfig: &str) -> Option<&str> {
    kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: "))
}

/// A flag wins over a file (kubelet's own rule).
fn endpoint(machine: &Machine) -> Result<Option<String>, OpError> {
    let flags = fsio::read_text(&machine.path(FLAGS))?.unwrap_or_default();
    let flag = flags.split(|c: char| c.is_whitespace() || c == '"').find_map(|word| word.strip_prefix(FLAG));
    if let Some(endpoint) = flag.filter(|endpoint| !endpoint.is_empty()) {
        return Ok(Some(endpoint.to_owned()));
    }
    for path in CONFIGS {
        let text = fsio::read_text(&machine.path(path))?.unwrap_or_default();
        let named = documents::values(&text).ok().and_then(|config| config.get(KEY)?.as_str().map(str::to_owned));
        if let Some(endpoint) = named.filter(|endpoint| !endpoint.is_empty()) {
            return Ok(Some(endpoint));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(text: &str) -> Result<KubeadmCluster, String> {
        of_config_map(&json!({"data": {"ClusterConfiguration": text}}))
    }

    #[test]
    fn what_kubeadm_has_recorded_is_read() {
        let text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: lab\ncontrolPlaneEndpoint: lb:6443\n\
                    etcd:\n  local:\n    dataDir: /var/lib/etcd\nimageRepository: registry.k8s.io\nkubernetesVersion: v1.34.4\n\
                    networking:\n  dnsDomain: cluster.local\n  podSubnet: 10.233.64.0/18\n  serviceSubnet: 10.233.0.0/18\n";
        let read = of(text).unwrap();
        assert_eq!((read.name.as_str(), read.version.as_str(), read.endpoint.as_str()), ("lab", "v1.34.4", "lb:6443"));
        assert_eq!((read.pod_networks.as_str(), read.service_networks.as_str()), ("10.233.64.0/18", "10.233.0.0/18"));
        assert_eq!((read.dns_domain.as_str(), read.etcd_data.as_deref()), ("cluster.local", Some("/var/lib/etcd")));
        assert!(read.own_images.is_empty());
        let pinned = of("etcd: {local: {imageTag: 3.5.9-0, dataDir: /e}}\ndns: {imageRepository: r.example/dns}\n")
            .unwrap()
            .own_images;
        let pinned: Vec<_> = pinned.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
        assert_eq!(pinned, [("dns.imageRepository", "r.example/dns"), ("etcd.local.imageTag", "3.5.9-0")]);
        assert_eq!(read.external_etcd, None);
        assert!(of("").unwrap_err().contains("no ClusterConfiguration"));
        let manifest = "  - command:\n    - kube-apiserver\n    - --tls-cert-file=/etc/kubernetes/ssl/apiserver.crt\n";
        assert_eq!(certificates_of(manifest), Some("/etc/kubernetes/ssl"));
        assert_eq!(certificates_of("kind: Pod\n"), None);
        let kubeconfig = "clusters:\n- cluster:\n    server: https://lb:6443\n  name: lab\n";
        assert_eq!(server_of(kubeconfig), Some("https://lb:6443"));
        assert!(of("- a").unwrap_err().contains("cannot be read"));
    }

    /// As KubeKey (v1beta2), kubeadm 1.22 to 1.30 (v1beta3) and later ones (v1beta4) have it: the fields are the same. kubeadm 1.35 knows
    /// `httpEndpoints` besides, which no API server is given.
    #[test]
    fn an_etcd_that_is_not_kubeadms_is_read_from_every_version_of_the_configuration() {
        let external = "caFile: /etc/ssl/etcd/ssl/ca.pem\n    certFile: /etc/ssl/etcd/ssl/node-a1.pem\n    endpoints:\n    - \
                        https://10.0.0.5:2379\n    - https://10.0.0.6:2379\n    keyFile: /etc/ssl/etcd/ssl/node-a1-key.pem\n";
        for (version, more) in [
            ("v1beta2", "apiServer:\n  extraArgs:\n    authorization-mode: Node,RBAC\n"),
            ("v1beta3", "apiServer:\n  extraArgs:\n    authorization-mode: Node,RBAC\n"),
            ("v1beta4", "apiServer:\n  extraArgs:\n  - name: authorization-mode\n    value: Node,RBAC\n"),
            ("v1beta4", "proxy: {}\n"),
        ] {
            let text = format!(
                "apiVersion: kubeadm.k8s.io/{version}\nkind: ClusterConfiguration\n{more}etcd:\n  external:\n    {external}{}",
                if more.starts_with("proxy") { "    httpEndpoints:\n    - http://10.0.0.5:2381\n" } else { "" }
            );
            let read = of(&text).unwrap();
            assert_eq!(read.etcd_data, None);
            let access = read.external_etcd.unwrap();
            assert_eq!(access.endpoints, ["https://10.0.0.5:2379", "https://10.0.0.6:2379"], "{version}");
            assert_eq!(
                access.files(),
                ["/etc/ssl/etcd/ssl/ca.pem", "/etc/ssl/etcd/ssl/node-a1.pem", "/etc/ssl/etcd/ssl/node-a1-key.pem"]
            );
        }
        // Without TLS.
        let bare = of("etcd:\n  external:\n    endpoints: [http://e:2379]\n").unwrap();
        assert_eq!((bare.etcd_data, bare.external_etcd.unwrap().files()), (None, [""; 3]));
    }
}
