//! What a file leaves to KubeKey is what KubeKey would have made of it.

use kubexm_spec::cluster::{EtcdKind, Firewall, NetworkPlugin, ProxyMode, RegistryKind, RuntimeKind, Selinux};
use serde_json::json;

use super::super::defaults::{COMMENT, ROWS};
use super::{at, cluster, file, import, json as yaml};

#[test]
fn a_file_that_says_nothing_becomes_the_cluster_that_kubekey_makes_of_it() {
    let imported = import(&file(""));
    let cluster = cluster(&imported);
    let kubernetes = cluster.kubernetes.as_ref().unwrap();
    assert_eq!(cluster.hosts[0].private_key_path.as_deref(), Some("~/.ssh/id_rsa".as_ref()));
    assert_eq!((cluster.system.firewall, cluster.system.selinux), (Firewall::Off, Selinux::Permissive));
    assert_eq!(kubernetes.cluster_name, "cluster.local");
    assert_eq!((kubernetes.proxy_mode, kubernetes.max_pods), (ProxyMode::Ipvs, 110));
    assert_eq!(kubernetes.nodelocaldns.as_ref().unwrap().address.to_string(), "169.254.25.10");
    assert_eq!(kubernetes.controller_manager_args["cluster-signing-duration"], "87600h");
    assert_eq!((kubernetes.kubelet["podPidsLimit"].clone(), kubernetes.auto_renew_certs), (json!(10_000), false));
    assert_eq!(kubernetes.kubelet["evictionHard"], json!({"memory.available": "5%", "pid.available": "10%"}));
    assert_eq!((cluster.etcd.kind, cluster.runtime.kind), (EtcdKind::Kubexm, RuntimeKind::Docker));
    let backup = cluster.etcd.backup.as_ref().unwrap();
    assert_eq!((backup.schedule.as_str(), backup.dir.as_str(), backup.keep), ("daily", "/var/backups/kube_etcd", 5));
    assert_eq!(cluster.etcd.snapshots.count, Some(10_000));
    assert_eq!(cluster.network.plugin, NetworkPlugin::Calico);
    assert_eq!(cluster.load_balancer.domain.as_deref(), Some("lb.kubesphere.local"));
    assert_eq!(cluster.registry.kind, RegistryKind::Embedded, "KubeKey sets up no registry of its own there");
}

#[test]
fn every_default_is_marked_in_the_text_and_listed_where_there_is_no_field_for_it() {
    // Each row of the table shows in one of the two files.
    let registry = file("").replace("etcd: [node1]", "etcd: [node1], registry: [node1]");
    let all = [import(&file("")), import(&registry)];
    for row in ROWS {
        let found = all.iter().find(|one| one.assumed.iter().any(|a| a.field == row.field && a.value == row.value));
        let imported = found.unwrap_or_else(|| panic!("{} = {} is not written", row.field, row.value));
        let assumed = imported.assumed.iter().find(|a| a.field == row.field && a.value == row.value).unwrap();
        let Some((path, ours)) = row.ours else {
            assert_eq!(assumed.written_as, None);
            continue;
        };
        let mut value = &yaml(&imported.cluster_yaml)["spec"];
        for name in path {
            value = &value[name];
        }
        let expected = match ours.yaml() {
            super::super::yaml::Yaml::Map(map) => {
                map.fields.iter().map(|field| (field.name.clone(), text(&field.value))).collect()
            }
            other => text(&other),
        };
        assert_eq!(*value, expected, "{path:?}");
    }
    assert_eq!(all[0].assumed[0].written_as.as_deref(), Some("spec.hosts[0].privateKeyPath"));
    let marked = all[0].cluster_yaml.lines().filter(|line| line.ends_with(&format!("# {COMMENT}"))).count();
    assert_eq!(marked, all[0].assumed.iter().filter(|assumed| assumed.written_as.is_some()).count());
}

fn text(value: &super::super::yaml::Yaml) -> serde_json::Value {
    match value {
        super::super::yaml::Yaml::Text(text) => text.as_str().into(),
        super::super::yaml::Yaml::Int(number) => i64::try_from(*number).unwrap().into(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_value_in_the_file_is_not_marked_as_a_default() {
    let imported = import(&file(
        "  system: {skipConfigureOS: true}
  kubernetes: {clusterName: a.local, proxyMode: iptables, nodelocaldns: false, podPidsLimit: 5, containerManager: containerd, schedulerArgs: [bind-address=127.0.0.1], kubeletConfiguration: {evictionSoft: {}, kubeReserved: {cpu: 1}}, kubeProxyConfiguration: {iptables: {syncPeriod: 1s}}}
  etcd: {type: kubeadm}
  network: {plugin: flannel}
  controlPlaneEndpoint: {domain: a.example.com}
",
    ));
    let written: Vec<&str> = imported.assumed.iter().filter_map(|assumed| assumed.written_as.as_deref()).collect();
    let document = yaml(&imported.cluster_yaml);
    for path in [
        "spec.system.firewall",
        "spec.kubernetes.nodelocaldns",
        "spec.etcd.backup",
        "spec.kubernetes.kubeProxy.iptables.minSyncPeriod",
        "spec.etcd.snapshots",
    ] {
        assert!(at(&document, path).is_null(), "{path}");
    }
    assert_eq!(*at(&document, "spec.kubernetes.kubelet.evictionSoft"), json!({}));
    assert_eq!(*at(&document, "spec.kubernetes.kubelet.kubeReserved"), json!({"cpu": 1}));
    assert_eq!(*at(&document, "spec.kubernetes.schedulerArgs"), json!({"bind-address": "127.0.0.1"}));
    for field in ["clusterName", "proxyMode", "podPidsLimit", "type", "plugin", "domain"] {
        assert!(!written.iter().any(|path| path.ends_with(&format!(".{field}"))), "{field}: {written:?}");
    }
}

#[test]
fn zero_counts_as_not_set() {
    let imported =
        import(&file("  kubernetes: {podPidsLimit: 0, maxPods: 0}\n  etcd: {backupPeriod: 0, keepBackupNumber: 0}\n"));
    let cluster = cluster(&imported);
    let kubernetes = cluster.kubernetes.unwrap();
    assert_eq!((kubernetes.kubelet["podPidsLimit"].clone(), kubernetes.max_pods), (json!(10_000), 110));
    assert_eq!(cluster.etcd.backup.unwrap().keep, 5);
    assert_eq!(imported.left, []);
}

#[test]
fn hosts_with_the_role_registry_get_the_registry_that_kubekey_puts_there() {
    let file = file("").replace("etcd: [node1]", "etcd: [node1], registry: [node1]");
    let registry = cluster(&import(&file)).registry;
    assert_eq!((registry.kind, registry.port), (RegistryKind::Registry, 443));
    assert_eq!(registry.private_registry.as_deref(), Some("dockerhub.kubekey.local"));
    let harbor = cluster(&import(&format!("{file}  registry: {{type: harbor}}\n"))).registry;
    assert_eq!((harbor.kind, harbor.port), (RegistryKind::Harbor, 443));
    let external = cluster(&import(&super::file("  registry: {privateRegistry: r.example.com}\n"))).registry;
    assert_eq!(external.kind, RegistryKind::External);
}

#[test]
fn a_password_is_also_used_for_sudo_and_disables_the_default_key() {
    let text = file("").replace("address: 10.0.0.1}", "address: 10.0.0.1, user: ops, password: x}");
    let host = cluster(&import(&text)).hosts.remove(0);
    assert!(host.password.is_some() && host.sudo_password == host.password && host.private_key_path.is_none());
}

#[test]
fn two_names_that_make_one_variable_get_two() {
    let text = file("").replace(
        "{name: node1, address: 10.0.0.1}",
        "{name: node1, address: 10.0.0.1, password: a}, {name: n-2, address: 10.0.0.2, password: b}, {name: n.2, address: 10.0.0.3, password: c}",
    );
    let text = text.replace("master: [node1]", "master: [node1, n-2, n.2]");
    let hosts = cluster(&import(&text)).hosts;
    assert_ne!(hosts[1].password, hosts[2].password);
}
