//! Versions: one minor version at a time, and never back (upstream's "Version Skew Policy").

use kubexm_spec::{KubernetesVersion, depot};

use super::case::{Case, Lines};
use crate::modules::settings;
use crate::{network, registries, runtime};

/// The bundle is of the cluster that runs on the hosts, with all of its nodes.
pub(super) fn same_cluster(case: &Case<'_>, problems: &mut Lines, _: &mut Lines) {
    let cluster = case.cx.cluster;
    if let Some(name) = case.running.name.as_ref().filter(|name| **name != cluster.name) {
        problems.push(format!(
            "the hosts run cluster {name}, and the bundle is for cluster {}: use a bundle built from the cluster.yaml of {name}",
            cluster.name
        ));
    }
    if let (Some(planned), Some(found)) = (case.cx.cluster_id, case.running.id)
        && planned != found
    {
        problems.push(format!(
            "the hosts are stamped for a cluster with id {planned}, and the one that runs has the id {found}: find out which \
             of the two cluster.yaml describes"
        ));
    }
    let kind = cluster.runtime.kind.to_string();
    let of_kind = case.found.nodes().filter(|(_, node)| node.facts.runtime == kind);
    let runtimes = of_kind.map(|(name, node)| (name, node.facts.runtime_version.as_str()));
    problems.extend(runtime::line_refused(case.cx, case.site.first.platform, runtimes));
    problems.extend(registries::other_harbor(cluster, case.running).into_iter().map(|changed| {
        format!("{changed}: Harbor stays where nodes pull from and where its data are; write what the cluster has, and build the bundle with it")
    }));
    if let Some(recorded) = registries::other_than_recorded(cluster, case.running) {
        problems.push(format!(
            "cluster.yaml has other hosts in roleGroups.registry than the cluster, which has {}: run `kubexm-install create` with the bundle \
             that the cluster was installed from first, which brings every node the new list",
            recorded.join(", ")
        ));
    }
    problems.extend(network::changed(cluster, case.running).into_iter().map(|changed| {
        format!("{changed}: the pod network stays as it was made; revert the change in cluster.yaml, and build the bundle with it")
    }));
    // Another version brings every control plane all of it.
    if !crate::adoption::is_adopted(cluster, case.cx.facts) && !case.upgrades_a_control_plane() {
        problems.extend(settings::unknown(case.cx, &case.site.first, case.running));
    }
    // An earlier run of this upgrade may have lost a host in the middle.
    let target = &case.found.target;
    let has_begun = case.found.newest_server == *target || case.found.nodes().any(|(_, node)| node.kubelet == *target);
    for node in case.site.members().iter().filter(|node| case.found.node(node.name()).is_none()) {
        let bundle = match has_begun && node.roles.control_plane {
            true => "this bundle",
            false => "the bundle that the cluster was installed from",
        };
        problems.push(format!(
            "{} is in cluster.yaml and not in the cluster: add it with `kubexm-install add-node` and {bundle}, or remove it from \
             cluster.yaml",
            node.name()
        ));
    }
    for node in case.running.nodes.iter().filter(|node| cluster.host(&node.name).is_none()) {
        problems.push(format!(
            "{} is a node of the cluster and not in cluster.yaml: it would keep {}; add it to cluster.yaml, or delete the node",
            node.name, node.kubelet
        ));
    }
}

pub(super) fn one_minor(case: &Case<'_>, problems: &mut Lines, _: &mut Lines) {
    let (found, target) = (&case.found.oldest, &case.found.target);
    let newest = case.found.nodes().map(|(_, node)| &node.kubelet).chain([found]).max().unwrap_or(found);
    if target < found || target < newest {
        problems.push(format!(
            "the cluster runs {newest}, and the bundle has {target}, which is older: Kubernetes cannot go back to an earlier \
             version; use a bundle with {newest} or a newer one"
        ));
    } else if target.minor() > found.minor().saturating_add(1) {
        problems.push(format!(
            "the cluster runs {found}, and the bundle has {target}: minor versions cannot be skipped; upgrade with a bundle \
             of v1.{} first",
            found.minor().saturating_add(1)
        ));
    }
}

/// A kubelet that an earlier upgrade has left behind.
pub(super) fn kubelets(case: &Case<'_>, problems: &mut Lines, _: &mut Lines) {
    let (oldest, target) = (&case.found.oldest, &case.found.target);
    for (name, node) in case.found.nodes() {
        if node.kubelet.minor().saturating_add(1) < target.minor() && node.kubelet.minor() < oldest.minor() {
            problems.push(format!(
                "kubelet on {name} is {}, which an earlier upgrade has left behind: finish that one first, with a bundle of \
                 v1.{}",
                node.kubelet,
                oldest.minor()
            ));
        }
    }
}

/// What the cluster has had already: an older program on a node was put back by somebody, past Kubernetes' own rules.
pub(super) fn gone_back(case: &Case<'_>, problems: &mut Lines, warnings: &mut Lines) {
    let recorded =
        case.running.applied.as_ref().and_then(|applied| applied.kubernetes.parse::<KubernetesVersion>().ok());
    let Some(recorded) = recorded else { return };
    let target = &case.found.target;
    if *target < recorded {
        problems.push(format!(
            "the cluster was brought to {recorded} before, and the bundle has {target}, which is older: Kubernetes cannot go back \
             to an earlier version; use a bundle with {recorded} or a newer one"
        ));
        return;
    }
    // With the version of the record, an upgrade brings them forward again.
    if *target == recorded {
        return;
    }
    let is_plane = |name: &str| case.site.nodes.iter().any(|node| node.name() == name && node.roles.control_plane);
    let (planes, workers): (Vec<_>, Vec<_>) = case.found.nodes().partition(|(name, _)| is_plane(name));
    let behind = workers.into_iter().filter(|(_, node)| node.kubelet < recorded);
    warnings.extend(behind.map(|(name, node)| {
        format!(
            "kubelet on {name} is {}, and the cluster was brought to {recorded} before: an upgrade left it out, or somebody has put \
             it back",
            node.kubelet
        )
    }));
    let kubelets = planes.into_iter().map(|(name, node)| (format!("kubelet on {name}"), node.kubelet.clone()));
    let servers =
        case.running.components.iter().filter(|component| component.name == "kube-apiserver").filter_map(|one| {
            let version = depot::split_reference(&one.image).1?.parse().ok()?;
            Some((format!("kube-apiserver on {}", one.node), version))
        });
    let older: Vec<String> = kubelets
        .chain(servers)
        .filter(|(_, version)| *version < recorded)
        .map(|(what, version)| format!("{what} is {version}"))
        .collect();
    if !older.is_empty() {
        problems.push(format!(
            "the cluster was brought to {recorded} before, and {}: somebody has put an older version back. Find out why; then \
             `kubexm-install upgrade` with the bundle of {recorded} brings everything to it again",
            older.join(", ")
        ));
    }
}
