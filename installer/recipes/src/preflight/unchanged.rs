//! cluster.yaml still has the settings that the running cluster was created with. `create` adds what is missing; it
//! cannot change the version, networks or names of a running cluster, and a partial change would be worse than none.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_spec::Digest;
use kubexm_spec::cluster::EtcdKind;
use serde_json::Value;

use super::input::PreflightInput;
use super::report::Report;
use super::{etcd_members, network_kept};
use crate::context::PlanContext;
use crate::modules::{cluster_ca, etcd_listed, kubeadm_config};
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
            "revert the change (/etc/kubexm/kubeadm.yaml there has the earlier settings), or use `kubexm-install upgrade` \
             if only the version is another one; changes of other settings are not supported yet",
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

/// What an upgrade changes on purpose: versions, and the settings of kubelet.
const OF_UPGRADE: [&str; 3] = ["kubernetesVersion", "etcd.local.imageTag", "dns.imageTag"];
const OF_KUBELET: &str = "KubeletConfiguration.";
/// Before a flag of API servers: an upgrade brings one of ours, so it takes another value of it as well.
const OF_API_SERVER: &str = "apiServer.extraArgs.";

/// Versions may differ, and settings of kubelet, which kubeadm hands out with the upgrade.
pub(super) fn before_upgrade(input: &PreflightInput<'_>, report: &mut Report) {
    etcd_members::before_upgrade(input, report);
    same_ca(input, report);
    network_kept::run(input, report);
    runtime_root(input, report);
    for Changed { host, settings } in changed(input) {
        if kube_proxy(input, host, settings.as_deref(), report) {
            continue;
        }
        let needed = "the settings of the running cluster: an upgrade changes versions, and settings of kubelet";
        let Some(settings) = settings else {
            report.fail(
                host,
                "settings that cannot be compared: /etc/kubexm/kubeadm.yaml is missing, or is not what kubexm writes",
                needed,
                "restore that file as `create` wrote it; /var/lib/kubexm/ledger on that host has its text",
            );
            continue;
        };
        let of_upgrade = |name: &str| {
            let is_flag = name.strip_prefix(OF_API_SERVER) == Some(kubeadm_config::WATCHES_END);
            OF_UPGRADE.contains(&name) || is_flag || name.ends_with("apiVersion")
        };
        let others: Vec<String> =
            settings.into_iter().filter(|setting| !setting.split(':').next().is_some_and(of_upgrade)).collect();
        let (kubelet, others): (Vec<String>, Vec<String>) =
            others.into_iter().partition(|setting| setting.starts_with(OF_KUBELET));
        if !others.is_empty() {
            let found = format!("a running cluster with other settings: {}", shown(&others));
            let fix = "revert the change in cluster.yaml, or build the bundle from the cluster.yaml of the cluster";
            report.fail(host, found, needed, fix);
        } else if !kubelet.is_empty() {
            let found = format!("other settings of kubelet than the running cluster's: {}", shown(&kubelet));
            report.warn(
                host,
                found,
                "nothing: every kubelet gets them with its upgrade",
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
/// Most characters of a value that are shown.
const LONGEST: usize = 80;

/// What differs between two texts of kubeadm's configuration, as `networking.podSubnet: OLD -> NEW`. None when one of them is not
/// what kubexm writes.
pub(crate) fn differences(old: &str, new: &str) -> Option<Vec<String>> {
    let (old, new) = (settings(old)?.values, settings(new)?.values);
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let value = |of: &BTreeMap<String, Value>, name: &String| of.get(name).map_or("unset".to_owned(), plain);
    let differing = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    Some(differing.map(|name| format!("{name}: {} -> {}", value(&old, name), value(&new, name))).collect())
}

/// Most bytes of all paths of a text together; those of a cluster have some ten thousand. The text is a host's, and each of its
/// values has the keys above it in its path: a hundred thousand values below keys of megabytes would be a terabyte.
const LONGEST_PATHS: usize = 1 << 20;

/// Values by their paths.
struct Settings {
    values: BTreeMap<String, Value>,
    /// How many bytes further paths may have.
    room: usize,
}

impl Settings {
    /// The path of a field; none where there is no room for it.
    fn below(&mut self, path: &str, key: &str) -> Option<String> {
        self.room = self.room.checked_sub(path.len() + 1 + key.len())?;
        Some(if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") })
    }
}

/// Every value of all documents by its path. None for what is no YAML, and where the paths are longer than [`LONGEST_PATHS`].
fn settings(text: &str) -> Option<Settings> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).ok()?;
    let mut found = Settings { values: BTreeMap::new(), room: LONGEST_PATHS };
    for document in &documents {
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
        // Most settings of cluster.yaml become part of ClusterConfiguration: its paths have no prefix.
        let prefix = if kind == "ClusterConfiguration" { "" } else { kind };
        flatten(prefix, document, &mut found)?;
    }
    Some(found)
}

fn flatten(path: &str, value: &Value, into: &mut Settings) -> Option<()> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let path = into.below(path, key)?;
                flatten(&path, value, into)?;
            }
        }
        // Flags of components are keyed by name: an added flag does not change the paths of the others.
        Value::Array(items) if items.iter().all(|item| item.get("name").is_some_and(Value::is_string)) => {
            for item in items {
                let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
                let path = into.below(path, name)?;
                into.values.insert(path, item.get("value").unwrap_or(item).clone());
            }
        }
        other => {
            into.values.insert(path.to_owned(), other.clone());
        }
    }
    Some(())
}

/// The value for a message. It comes from the host: at most [`LONGEST`] characters of it.
fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn shown(settings: &[String]) -> String {
    let more = settings.len().saturating_sub(MOST);
    let rest = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("{}{rest}", settings[..settings.len() - more].join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_with_both_values() {
        let old = "---\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.4\nnetworking:\n  podSubnet: 10.244.0.0/16\n\
                   apiServer:\n  extraArgs:\n  - name: audit-log-maxage\n    value: \"30\"\n\
                   ---\nkind: KubeletConfiguration\nmaxPods: 110\n";
        let new = "---\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.4\nnetworking:\n  podSubnet: 10.245.0.0/16\n\
                   apiServer:\n  extraArgs:\n  - name: profiling\n    value: \"false\"\n  - name: audit-log-maxage\n    value: \"30\"\n\
                   ---\nkind: KubeletConfiguration\nmaxPods: 250\n";
        assert_eq!(
            differences(old, new).unwrap_or_default(),
            [
                "KubeletConfiguration.maxPods: 110 -> 250",
                "apiServer.extraArgs.profiling: unset -> false",
                "networking.podSubnet: 10.244.0.0/16 -> 10.245.0.0/16",
            ]
        );
        assert_eq!(differences(new, new), Some(Vec::new()));
        assert_eq!(differences("{", new), None, "what cannot be compared is not the same");
        let long = format!("---\nkind: ClusterConfiguration\nclusterName: {}\n", "ä".repeat(5_000));
        let name = "---\nkind: ClusterConfiguration\nclusterName: demo\n";
        assert_eq!(differences(&long, name), Some(vec![format!("clusterName: {}… -> demo", "ä".repeat(LONGEST))]));
        let many: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        assert_eq!(shown(&many), "0; 1; 2; 3; 4; 5; and 3 more");
    }

    /// Each value's path has all the keys above it: what is some kilobytes as a text would be gigabytes of paths.
    #[test]
    fn the_paths_of_a_text_have_an_end() {
        let nested = |values: usize| {
            let mut text = String::new();
            for depth in 0..5 {
                text += &format!("{}{}:\n", " ".repeat(depth), "k".repeat(900));
            }
            let values: Vec<String> = (0..values).map(|number| format!("a{number}: 1")).collect();
            format!("{text}     {{{}}}\n", values.join(", "))
        };
        let few = settings(&nested(100)).expect("some settings").values;
        assert_eq!(few.len(), 100);
        assert!(few.keys().map(String::len).sum::<usize>() > 400_000, "as long as the keys above them");
        assert!(settings(&nested(1_000)).is_none());
        assert_eq!(differences(&nested(1_000), "kind: ClusterConfiguration\n"), None);
    }
}
