//! cluster.yaml still has the settings that the running cluster was created with. `create` adds what is missing; it
//! cannot change the version, networks or names of a running cluster, and a partial change would be worse than none.

use kubexm_spec::Digest;
use kubexm_spec::cluster::EtcdKind;

use super::input::PreflightInput;
use super::report::Report;
use super::{etcd_members, network_kept};
use crate::context::PlanContext;
use crate::modules::config_differences::differences;
use crate::modules::{cluster_ca, etcd_listed, kubeadm_config, settings};
use crate::network;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    etcd_members::run(input, report);
    same_ca(input, report);
    network_kept::run(input, report);
    runtime_root(input, report);
    for Changed { host, settings } in changed(input) {
        if is_completed(input, host, settings.as_deref()) || kube_proxy(input, host, settings.as_deref(), report) {
            continue;
        }
        let fix = match settings.as_deref() {
            Some(settings) if !settings.is_empty() && settings.iter().all(|setting| settings::is_brought(setting)) => {
                "`kubexm-install upgrade` with this cluster.yaml brings a running cluster these settings, also with the bundle that it has; or \
                 revert the change (/etc/kubexm/kubeadm.yaml there has the earlier settings)"
            }
            _ => {
                "revert the change (/etc/kubexm/kubeadm.yaml there has the earlier settings), or use `kubexm-install upgrade` if only the \
                 version, flags and settings of kubelet are others; changes of other settings are not supported"
            }
        };
        let found = match settings {
            Some(settings) if !settings.is_empty() => {
                format!("a running kubexm cluster that was created with other settings: {}", shown(&settings))
            }
            _ => "a running kubexm cluster that was created with another version, network, name or kubelet setting"
                .to_owned(),
        };
        if input.cx.cluster.etcd.kind == EtcdKind::Kubexm && found.contains(ENDPOINTS) {
            report.fail(
                host,
                found,
                "the members of etcd in cluster.yaml",
                "`kubexm-install resume` the run that adds or removes a member; where that is lost, `kubexm-install delete-node` the host whose \
                 member is not among these, then add it again; leave one that was deleted for good out of roleGroups.etcd. With members that are \
                 new and nothing else that differs, `create` completes the list itself",
            );
            continue;
        }
        report.fail(
            host,
            found,
            "the cluster.yaml and the bundle it was created with: `create` changes none of these on a running cluster",
            fix,
        );
    }
}

/// Of kubeadm's configuration, as differences are shown.
const SKIPPED_PHASES: &str = "InitConfiguration.skipPhases";
/// The same.
const ENDPOINTS: &str = "etcd.external.endpoints";

/// Whether nothing differs but members that a run which was cut off has added, and that work: the plan gives API servers and kubeadm the list.
fn is_completed(input: &PreflightInput<'_>, host: &str, settings: Option<&[String]>) -> bool {
    let only_members = matches!(settings, Some([one]) if one.starts_with(ENDPOINTS));
    let text = input.cx.facts.get(host).and_then(|facts| facts.kubeadm_config_text.as_deref());
    let lacking = text.map(|text| etcd_listed::lacking(input.cx, text));
    only_members && matches!(lacking, Some(Ok(members)) if !members.is_empty())
}

/// Reports a cluster that has a kube-proxy where cluster.yaml wants Cilium in its place, or the other way round.
fn kube_proxy(input: &PreflightInput<'_>, host: &str, settings: Option<&[String]>, report: &mut Report) -> bool {
    let differs = settings.unwrap_or_default().iter().any(|setting| setting.starts_with(SKIPPED_PHASES));
    if differs {
        let (found, fix) = match network::replaces_kube_proxy(input.cx.cluster) {
            true => ("a running cluster with kube-proxy", "leave kubeProxyReplacement out, or set it to false"),
            false => (
                "a running cluster without kube-proxy, whose work Cilium does",
                "write plugin: cilium and options: {kubeProxyReplacement: true}",
            ),
        };
        report.fail(
            host,
            found,
            "spec.network.options.kubeProxyReplacement as the cluster was created with it: no command takes kube-proxy out of a running \
             cluster, or brings it back",
            fix,
        );
    }
    differs
}

/// Compared with the cluster that runs: members of its own etcd on new hosts are none of it yet.
pub(super) fn before_join(input: &PreflightInput<'_>, report: &mut Report) {
    let mut cluster = input.cx.cluster.clone();
    let is_new = |name: &String| {
        let facts = input.cx.facts.get(name);
        facts.is_some_and(|facts| facts.etcd_formed.is_none() && !facts.joined)
    };
    if cluster.etcd.kind == EtcdKind::Kubexm && etcd_members::runs(input) {
        cluster.role_groups.etcd.retain(|name| !is_new(name));
    }
    let cx = PlanContext { cluster: &cluster, ..*input.cx };
    run(&PreflightInput::of(&cx), report);
}

/// No command gives a running cluster another CA: every certificate and every kubeconfig hangs on it.
fn same_ca(input: &PreflightInput<'_>, report: &mut Report) {
    for host in input.hosts.iter().filter(|host| host.roles.control_plane) {
        let other = host.facts.cluster_ca.and_then(|found| cluster_ca::is_of(input.cx, found)) == Some(false);
        if other {
            report.fail(
                host.name(),
                "a running cluster whose CA is not spec.kubernetes.ca.certFile",
                "the CA that the cluster was created with",
                "give the certificate of that CA (/etc/kubernetes/pki/ca.crt there), or leave spec.kubernetes.ca out if kubeadm made \
                 it; after a create that did not succeed roll it back first; kubexm-install cannot change the CA of a running cluster",
            );
        }
    }
}

/// What an upgrade changes on purpose, beside the settings that it brings. The last two come with a version: 1.24.9 has images of another
/// registry, and 1.31 a field for a cluster without kube-proxy.
const OF_UPGRADE: [&str; 5] =
    ["kubernetesVersion", "etcd.local.imageTag", "dns.imageTag", "imageRepository", "proxy.disabled"];

/// The same of the first control plane's node.
const TAINTS: &str = "InitConfiguration.nodeRegistration.taints";

/// Versions may differ, and what kubeadm writes anew with the upgrade.
pub(super) fn before_upgrade(input: &PreflightInput<'_>, report: &mut Report) {
    etcd_members::before_upgrade(input, report);
    same_ca(input, report);
    network_kept::run(input, report);
    runtime_root(input, report);
    for Changed { host, settings } in changed(input) {
        if kube_proxy(input, host, settings.as_deref(), report) {
            continue;
        }
        let needed = "the settings of the running cluster: an upgrade changes versions, flags of the control plane, and settings of kubelet";
        let Some(settings) = settings else {
            report.fail(
                host,
                "settings that cannot be compared: /etc/kubexm/kubeadm.yaml is missing, or is not what kubexm writes",
                needed,
                "restore that file as `create` wrote it; /var/lib/kubexm/ledger on that host has its text",
            );
            continue;
        };
        // kubeadm reads the node's own taints when it makes a node, and not later.
        let of_upgrade = |name: &str| OF_UPGRADE.contains(&name) || name.ends_with("apiVersion") || name == TAINTS;
        let others: Vec<String> =
            settings.into_iter().filter(|setting| !setting.split(':').next().is_some_and(of_upgrade)).collect();
        let (brought, others): (Vec<String>, Vec<String>) =
            others.into_iter().partition(|setting| settings::is_brought(setting));
        if !others.is_empty() {
            let found = format!("a running cluster with other settings: {}", shown(&others));
            let fix = "revert the change in cluster.yaml, or build the bundle from the cluster.yaml of the cluster";
            report.fail(host, found, needed, fix);
        } else if !brought.is_empty() {
            let found = format!("other settings than the running cluster's: {}", shown(&brought));
            report.warn(
                host,
                found,
                "nothing: the nodes get them in their turns",
                "revert the change if you do not want it",
            );
        }
    }
}

/// With another folder the runtime would start without the images and containers that it has.
fn runtime_root(input: &PreflightInput<'_>, report: &mut Report) {
    let runtime = &input.cx.cluster.runtime;
    let wanted = runtime.data_folder();
    for host in input.nodes().filter(|host| host.ours && host.facts.joined) {
        let has = host.facts.runtime_root.as_deref().unwrap_or(runtime.kind.data_dir());
        if has != wanted {
            report.fail(
                host.name(),
                format!("a node whose images and containers are in {has}"),
                format!("{wanted}, which spec.runtime.dataDir names: the folder of a node that runs is not changed"),
                format!("write dataDir: {has} in cluster.yaml, or delete the node and add it again"),
            );
        }
    }
}

/// A control plane whose cluster was created with other settings.
struct Changed<'a> {
    host: &'a str,
    /// None if the earlier ones are not known, or cannot be compared.
    settings: Option<Vec<String>>,
}

fn changed<'a>(input: &PreflightInput<'a>) -> Vec<Changed<'a>> {
    let mut all = Vec::new();
    let Ok(nodes) = input.cx.nodes() else { return all };
    for node in nodes.iter().filter(|node| node.roles.control_plane) {
        let (Some(made_with), Ok(wanted)) = (node.facts.kubeadm_config, kubeadm_config::init(input.cx, node)) else {
            continue;
        };
        if Digest::of(&wanted) != made_with {
            let settings = node.facts.kubeadm_config_text.as_deref().and_then(|text| differences(text, &wanted));
            all.push(Changed { host: &node.host.name, settings });
        }
    }
    all
}

/// Most settings that are named one by one.
const MOST: usize = 6;

fn shown(settings: &[String]) -> String {
    let more = settings.len().saturating_sub(MOST);
    let rest = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("{}{rest}", settings[..settings.len() - more].join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_settings_are_named_than_can_be_read() {
        let many: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        assert_eq!(shown(&many), "0; 1; 2; 3; 4; 5; and 3 more");
    }
}
