//! kubeadm's external CA mode: certificates and kubeconfigs are there, and the CA's key is not.

use kubexm_plan::kubeadm_certificates::{SERVICE_ACCOUNT_PUBLIC, SERVICE_ACCOUNT_SECRET, SHARED};
use kubexm_plan::request::KUBELET_CONF;

use super::control_plane::CONFIGS;
use super::rooted::RootedSystem;

const PKI: [&str; 6] = [
    "/etc/kubernetes/pki/apiserver.crt",
    "/etc/kubernetes/pki/apiserver.key",
    "/etc/kubernetes/pki/apiserver-kubelet-client.crt",
    "/etc/kubernetes/pki/apiserver-kubelet-client.key",
    SERVICE_ACCOUNT_SECRET,
    SERVICE_ACCOUNT_PUBLIC,
];

/// What an init needs and does not find.
pub(super) fn missing(system: &RootedSystem) -> Option<String> {
    let configs = CONFIGS.map(|name| format!("/etc/kubernetes/{name}"));
    configs.into_iter().chain(PKI.map(str::to_owned)).find(|path| !system.at(path).is_file())
}

/// What a control plane that joins without an upload needs and does not find.
pub(super) fn missing_to_join(system: &RootedSystem, stacked: bool) -> Option<String> {
    let configs =
        CONFIGS.iter().filter(|name| **name != "super-admin.conf").map(|name| format!("/etc/kubernetes/{name}"));
    let shared = SHARED.into_iter().filter(|path| stacked || !path.contains("/etcd/")).map(str::to_owned);
    configs.chain(PKI.map(str::to_owned)).chain(shared).find(|path| !system.at(path).is_file())
}

/// Whether a join is to ignore kubelet's credentials that are there.
pub(super) fn is_given(system: &RootedSystem, args: &[&str]) -> bool {
    let check = format!("FileAvailable-{}", KUBELET_CONF.replace('/', "-"));
    let ignored = args.iter().filter_map(|arg| arg.strip_prefix("--ignore-preflight-errors="));
    ignored.flat_map(|checks| checks.split(',')).any(|ignored| ignored == check) && system.at(KUBELET_CONF).is_file()
}
