//! Every field of cluster.yaml with another value than its default, and who acts on it.

use serde_json::{Value, json};

use super::merge;

const RECIPIENT: &str = "age195lpn50un3389thrdqqyv42xdl3hcgguumxpm827kg8zg5wmyc0qew6cj8";

/// What acts on a field, if not a recipe.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum By {
    /// The plan is another one, or the field is named as not built.
    Recipe,
    /// The field says how a host is reached: the installer's links read it (`installer/session/src/fleet.rs`).
    Links,
    /// The field says what the builder fetches; the plan is made of what the bundle has.
    Builder,
}

/// Every field, with what is laid over the base's `spec` (RFC 7386) so that it has another value than its default.
pub(super) fn fields() -> Vec<(&'static str, By, Value)> {
    use By::{Builder, Links, Recipe};
    let hosts = |first: Value| {
        let mut host = json!({"name": "node1", "address": "10.77.0.11", "user": "operator"});
        merge(&mut host, first);
        json!({"hosts": [host, {"name": "node2", "address": "10.77.0.12"}]})
    };
    let jump = |jump: Value| {
        let mut whole = json!({"address": "bastion"});
        merge(&mut whole, jump);
        hosts(json!({"via": [whole]}))
    };
    let env = || json!({"env": "SECRET"});
    let file = || json!({"file": "/root/secret"});
    let kubernetes = |field: Value| json!({"kubernetes": field});
    let etcd = |field: Value| json!({"etcd": field});
    let cluster_ca = |field: Value| {
        let mut key = json!({"env": "KEY"});
        merge(&mut key, field);
        json!({"kubernetes": {"ca": {"certFile": "ca.crt", "keyFrom": key}}})
    };
    let external_etcd = |field: Value| {
        let mut external = json!({
            "endpoints": ["https://10.0.0.5:2379"], "caFile": "ca", "certFile": "cert", "keyFrom": {"env": "KEY"},
        });
        merge(&mut external, field);
        json!({"etcd": {"type": "external", "externalConfig": external}})
    };
    let balancer = |field: Value| json!({"loadBalancer": field});
    let keepalived = |field: Value| {
        let mut whole = json!({"mode": "external", "external": {"type": "kubexm-kh"}, "vip": "10.77.0.9"});
        merge(&mut whole, field);
        json!({"loadBalancer": whole, "roleGroups": {"loadbalancer": ["node2"]}})
    };
    let registry = |field: Value| json!({"registry": field});
    let own_registry = |field: Value| {
        let mut whole = json!({"type": "external", "privateRegistry": "registry.example.com"});
        merge(&mut whole, field);
        json!({"registry": whole})
    };
    let harbor = |field: Value| {
        let hosts = ["node1", "node2", "node3"]
            .map(|name| json!({"name": name, "address": format!("10.77.0.1{}", &name[4..])}));
        json!({"hosts": hosts, "roleGroups": {"registry": ["node3"]}, "registry": {"type": "harbor", "harborConfig": field}})
    };
    let auth = |field: Value| {
        let mut whole = json!({"username": "me", "passwordFrom": {"env": "SECRET"}});
        merge(&mut whole, field);
        json!({"registry": {"auths": {"registry.demo.kubexm.internal": whole}}})
    };
    let addon = |field: Value| {
        let mut whole = json!({"name": "a", "type": "helm", "source": {"path": "a"}});
        merge(&mut whole, field);
        json!({"addons": [whole]})
    };
    let secret = |field: Value| {
        let mut whole = json!({"name": "a", "dataFrom": {"k": {"env": "E"}}});
        match field.get("dataFrom") {
            Some(source) => whole["dataFrom"] = source.clone(),
            None => merge(&mut whole, field),
        }
        json!({"secrets": [whole]})
    };
    let after = || {
        let one =
            |name: &str, after: Value| json!({"name": name, "type": "helm", "source": {"path": name}, "after": after});
        json!({"addons": [one("b", json!([])), one("a", json!(["b"]))]})
    };
    let sha256 = "0".repeat(64);
    let from = |source: Value| json!({"addons": [{"name": "a", "type": "helm", "source": source}]});
    let repo = || json!({"repo": "https://charts.example.com", "chart": "a", "version": "1.0.0"});
    let script = |field: Value| {
        let mut whole = json!({"name": "a", "bash": "true"});
        merge(&mut whole, field);
        json!([whole])
    };
    let bundle = |field: Value| json!({"bundle": field});
    let rule = |field: Value| {
        let mut whole = json!({"repositories": ["registry.k8s.io"]});
        merge(&mut whole, field);
        json!({"bundle": {"imageSignatures": [whole]}})
    };
    let identity = |field: Value| {
        let mut whole = json!({"issuer": "https://a.example.com", "subject": "a@example.com"});
        merge(&mut whole, field);
        rule(json!({"identities": [whole], "trustedRoot": "root.json"}))
    };
    let chart = |field: Value| {
        let mut whole = json!({"name": "a", "source": {"path": "a"}});
        merge(&mut whole, field);
        json!({"bundle": {"extraCharts": [whole]}})
    };
    let a_file = || json!({"url": "https://example.com/a", "sha256": sha256});
    let nfs = |field: Value| {
        let mut whole = json!({"server": "10.0.0.2", "path": "/srv"});
        merge(&mut whole, field);
        json!({"storage": {"nfs": whole}})
    };
    vec![
        (
            "hosts[].name",
            Recipe,
            json!({
                "hosts": [{"name": "other", "address": "10.77.0.11"}, {"name": "node2", "address": "10.77.0.12"}],
                "roleGroups": {"master": ["other"], "worker": ["node2"]},
            }),
        ),
        ("hosts[].address", Recipe, hosts(json!({"address": "10.77.0.13"}))),
        ("hosts[].internalAddress", Recipe, hosts(json!({"internalAddress": "10.77.0.13"}))),
        ("hosts[].port", Links, hosts(json!({"port": 2222}))),
        ("hosts[].user", Recipe, hosts(json!({"user": "other"}))),
        ("hosts[].privateKeyPath", Links, hosts(json!({"privateKeyPath": "/root/key"}))),
        ("hosts[].passwordFrom.env", Links, hosts(json!({"passwordFrom": env()}))),
        ("hosts[].passwordFrom.file", Links, hosts(json!({"passwordFrom": file()}))),
        ("hosts[].agent", Links, hosts(json!({"agent": true}))),
        ("hosts[].sudoPasswordFrom.env", Links, hosts(json!({"sudoPasswordFrom": env()}))),
        ("hosts[].sudoPasswordFrom.file", Links, hosts(json!({"sudoPasswordFrom": file()}))),
        ("hosts[].via[]", Links, hosts(json!({"via": ["ops@bastion"]}))),
        ("hosts[].via[].address", Links, jump(json!({"address": "other"}))),
        ("hosts[].via[].port", Links, jump(json!({"port": 2222}))),
        ("hosts[].via[].user", Links, jump(json!({"user": "ops"}))),
        ("hosts[].via[].privateKeyPath", Links, jump(json!({"privateKeyPath": "/root/key"}))),
        ("hosts[].via[].passwordFrom.env", Links, jump(json!({"passwordFrom": env()}))),
        ("hosts[].via[].passwordFrom.file", Links, jump(json!({"passwordFrom": file()}))),
        ("hosts[].via[].agent", Links, jump(json!({"agent": true}))),
        ("hosts[].arch", Recipe, {
            let mut patch = hosts(json!({"arch": "arm64"}));
            merge(&mut patch, json!({"bundle": {"platforms": ["linux/amd64", "linux/arm64"]}}));
            patch
        }),
        ("hosts[].labels", Recipe, hosts(json!({"labels": {"disk": "ssd"}}))),
        ("hosts[].annotations", Recipe, hosts(json!({"annotations": {"example.com/owner": "team a"}}))),
        ("hosts[].taints", Recipe, hosts(json!({"taints": ["dedicated=database:NoSchedule"]}))),
        (
            "hosts[].roles",
            Recipe,
            json!({
                "hosts": [
                    {"name": "node1", "address": "10.77.0.11"},
                    {"name": "node2", "address": "10.77.0.12", "roles": ["control-plane"]},
                ],
            }),
        ),
        ("roleGroups.etcd", Recipe, json!({"roleGroups": {"etcd": ["node2"]}, "etcd": {"type": "kubexm"}})),
        ("roleGroups.master", Recipe, json!({"roleGroups": {"master": ["node1", "node2"]}})),
        (
            "roleGroups.control-plane",
            Recipe,
            json!({"roleGroups": {"master": null, "control-plane": ["node1", "node2"]}}),
        ),
        ("roleGroups.worker", Recipe, json!({"roleGroups": {"worker": ["node2"]}})),
        ("roleGroups.loadbalancer", Recipe, keepalived(json!({}))),
        ("roleGroups.registry", Recipe, json!({"roleGroups": {"registry": ["node2"]}})),
        ("system.ntpServers", Recipe, json!({"system": {"ntpServers": ["10.77.0.11"]}})),
        ("system.timezone", Recipe, json!({"system": {"timezone": "Asia/Shanghai"}})),
        ("system.firewall", Recipe, json!({"system": {"firewall": "off"}})),
        ("system.selinux", Recipe, json!({"system": {"selinux": "permissive"}})),
        ("system.rpms", Recipe, json!({"system": {"rpms": ["vim"]}})),
        ("system.debs", Recipe, json!({"system": {"debs": ["vim"]}})),
        ("system.preInstall[].name", Recipe, json!({"system": {"preInstall": script(json!({}))}})),
        ("system.preInstall[].bash", Recipe, json!({"system": {"preInstall": script(json!({"bash": "false"}))}})),
        (
            "system.preInstall[].materials",
            Recipe,
            json!({"system": {"preInstall": script(json!({"materials": ["a.sh"]}))}}),
        ),
        ("system.preInstall[].timeout", Recipe, json!({"system": {"preInstall": script(json!({"timeout": 5}))}})),
        ("system.preInstall[].undo", Recipe, json!({"system": {"preInstall": script(json!({"undo": "true"}))}})),
        ("system.preInstall[].roles", Recipe, json!({"system": {"preInstall": script(json!({"roles": ["worker"]}))}})),
        ("system.preInstall[].hosts", Recipe, json!({"system": {"preInstall": script(json!({"hosts": ["node2"]}))}})),
        ("system.postInstall[].name", Recipe, json!({"system": {"postInstall": script(json!({}))}})),
        ("system.postInstall[].bash", Recipe, json!({"system": {"postInstall": script(json!({"bash": "false"}))}})),
        (
            "system.postInstall[].materials",
            Recipe,
            json!({"system": {"postInstall": script(json!({"materials": ["a.sh"]}))}}),
        ),
        ("system.postInstall[].timeout", Recipe, json!({"system": {"postInstall": script(json!({"timeout": 5}))}})),
        ("system.postInstall[].undo", Recipe, json!({"system": {"postInstall": script(json!({"undo": "true"}))}})),
        (
            "system.postInstall[].roles",
            Recipe,
            json!({"system": {"postInstall": script(json!({"roles": ["worker"]}))}}),
        ),
        ("system.postInstall[].hosts", Recipe, json!({"system": {"postInstall": script(json!({"hosts": ["node2"]}))}})),
        ("system.skipConfigureOS", Recipe, json!({"system": {"skipConfigureOS": true}})),
        ("system.osPackages", Recipe, json!({"system": {"osPackages": "full"}})),
        (
            "extra.hosts[].domain",
            Recipe,
            json!({"extra": {"hosts": [{"domain": "ntp.example.com", "address": "10.0.0.2"}]}}),
        ),
        (
            "extra.hosts[].address",
            Recipe,
            json!({"extra": {"hosts": [{"domain": "ntp.example.com", "address": "10.0.0.2"}]}}),
        ),
        ("extra.resolves[].address", Recipe, json!({"extra": {"resolves": [{"address": "10.0.0.2"}]}})),
        ("operators[].name", Recipe, json!({"operators": [{"name": "alice", "recipient": RECIPIENT}]})),
        ("operators[].recipient", Recipe, json!({"operators": [{"name": "alice", "recipient": RECIPIENT}]})),
        ("kubernetes.type", Recipe, json!({"kubernetes": {"type": "kubexm"}, "etcd": {"type": "kubexm"}})),
        ("kubernetes.version", Recipe, kubernetes(json!({"version": "v1.33.4"}))),
        ("kubernetes.clusterName", Recipe, kubernetes(json!({"clusterName": "other"}))),
        ("kubernetes.dnsDomain", Recipe, kubernetes(json!({"dnsDomain": "other.local"}))),
        ("kubernetes.proxyMode", Recipe, kubernetes(json!({"proxyMode": "nftables"}))),
        ("kubernetes.maxPods", Recipe, kubernetes(json!({"maxPods": 200}))),
        ("kubernetes.featureGates", Recipe, kubernetes(json!({"featureGates": {"SidecarContainers": true}}))),
        ("kubernetes.apiServerArgs", Recipe, kubernetes(json!({"apiServerArgs": {"event-ttl": "2h"}}))),
        ("kubernetes.controllerManagerArgs", Recipe, kubernetes(json!({"controllerManagerArgs": {"v": "4"}}))),
        ("kubernetes.schedulerArgs", Recipe, kubernetes(json!({"schedulerArgs": {"v": "4"}}))),
        ("kubernetes.certSANs", Recipe, kubernetes(json!({"certSANs": ["k8s.example.com"]}))),
        ("kubernetes.ca.certFile", Recipe, cluster_ca(json!({}))),
        ("kubernetes.ca.keyFrom.env", Recipe, cluster_ca(json!({}))),
        ("kubernetes.ca.keyFrom.file", Recipe, cluster_ca(json!({"env": null, "file": "a"}))),
        (
            "kubernetes.ca.certificatesFolder",
            Recipe,
            json!({"kubernetes": {"ca": {"certFile": "ca.crt", "certificatesFolder": "/certificates"}}}),
        ),
        ("kubernetes.certificateValidityPeriod", Recipe, kubernetes(json!({"certificateValidityPeriod": "100d"}))),
        ("kubernetes.caCertificateValidityPeriod", Recipe, kubernetes(json!({"caCertificateValidityPeriod": "7300d"}))),
        ("kubernetes.autoRenewCerts", Recipe, kubernetes(json!({"autoRenewCerts": true}))),
        ("kubernetes.nodelocaldns.address", Recipe, kubernetes(json!({"nodelocaldns": {"address": "169.254.25.11"}}))),
        ("kubernetes.audit.policyFile", Recipe, kubernetes(json!({"audit": {"policyFile": "policy.yaml"}}))),
        (
            "kubernetes.audit.webhook.kubeconfigFrom.env",
            Recipe,
            kubernetes(json!({"audit": {"webhook": {"kubeconfigFrom": env()}}})),
        ),
        (
            "kubernetes.audit.webhook.kubeconfigFrom.file",
            Recipe,
            kubernetes(json!({"audit": {"webhook": {"kubeconfigFrom": file()}}})),
        ),
        ("kubernetes.audit.maxAge", Recipe, kubernetes(json!({"audit": {"maxAge": 1}}))),
        ("kubernetes.audit.maxBackups", Recipe, kubernetes(json!({"audit": {"maxBackups": 1}}))),
        ("kubernetes.audit.maxSize", Recipe, kubernetes(json!({"audit": {"maxSize": 1}}))),
        ("kubernetes.kubelet", Recipe, kubernetes(json!({"kubelet": {"maxParallelImagePulls": 3}}))),
        ("kubernetes.kubeProxy", Recipe, kubernetes(json!({"kubeProxy": {"metricsBindAddress": "0.0.0.0:10249"}}))),
        ("etcd.type", Recipe, etcd(json!({"type": "kubexm"}))),
        ("etcd.externalConfig.endpoints", Recipe, external_etcd(json!({"endpoints": ["https://10.0.0.6:2379"]}))),
        ("etcd.externalConfig.caFile", Recipe, external_etcd(json!({}))),
        ("etcd.externalConfig.certFile", Recipe, external_etcd(json!({}))),
        ("etcd.externalConfig.keyFrom.env", Recipe, external_etcd(json!({}))),
        ("etcd.externalConfig.keyFrom.file", Recipe, external_etcd(json!({"keyFrom": {"env": null, "file": "a"}}))),
        ("etcd.externalConfig.prefix", Recipe, external_etcd(json!({"prefix": "/demo/registry"}))),
        ("etcd.dataDir", Recipe, etcd(json!({"dataDir": "/data/etcd"}))),
        ("etcd.quota", Recipe, etcd(json!({"quota": "8Gi"}))),
        ("etcd.snapshots.count", Recipe, etcd(json!({"snapshots": {"count": 5000}}))),
        ("etcd.snapshots.keep", Recipe, etcd(json!({"snapshots": {"keep": 3}}))),
        ("etcd.backup.schedule", Recipe, etcd(json!({"backup": {"schedule": "hourly"}}))),
        ("etcd.backup.dir", Recipe, etcd(json!({"backup": {"dir": "/srv/backups"}}))),
        ("etcd.backup.keep", Recipe, etcd(json!({"backup": {"keep": 3}}))),
        ("etcd.backup.recipients", Recipe, etcd(json!({"backup": {"recipients": [RECIPIENT]}}))),
        ("runtime.type", Recipe, json!({"runtime": {"type": "docker", "version": null}})),
        ("runtime.version", Recipe, json!({"runtime": {"version": "1.7.32"}})),
        ("runtime.dataDir", Recipe, json!({"runtime": {"dataDir": "/data/containerd"}})),
        ("runtime.extraConfig", Recipe, json!({"runtime": {"extraConfig": {"oom_score": 1}}})),
        ("network.plugin", Recipe, json!({"network": {"plugin": "calico"}})),
        ("network.version", Recipe, json!({"network": {"plugin": "cilium", "version": "1.20.0"}})),
        ("network.multus", Recipe, json!({"network": {"multus": true}})),
        ("network.podCidr", Recipe, json!({"network": {"podCidr": "10.128.0.0/16"}})),
        ("network.serviceCidr", Recipe, json!({"network": {"serviceCidr": "10.96.0.0/16"}})),
        ("network.interface", Recipe, json!({"network": {"interface": "eth0"}})),
        ("network.options", Recipe, json!({"network": {"plugin": "calico", "options": {"mtu": 1400}}})),
        ("loadBalancer.mode", Recipe, balancer(json!({"mode": "external", "vip": "10.77.0.9"}))),
        ("loadBalancer.external.type", Recipe, keepalived(json!({"external": {"type": "kubexm-kn"}}))),
        ("loadBalancer.external.virtualRouterId", Recipe, keepalived(json!({"external": {"virtualRouterId": 51}}))),
        ("loadBalancer.internal.type", Recipe, balancer(json!({"mode": "internal", "internal": {"type": "nginx"}}))),
        ("loadBalancer.vip", Recipe, balancer(json!({"mode": "external", "vip": "10.77.0.9"}))),
        ("loadBalancer.port", Recipe, balancer(json!({"mode": "external", "vip": "10.77.0.9", "port": 8443}))),
        ("loadBalancer.interface", Recipe, keepalived(json!({"interface": "eth1"}))),
        ("loadBalancer.domain", Recipe, balancer(json!({"domain": "api.example.com"}))),
        ("registry.type", Recipe, registry(json!({"type": "registry"}))),
        ("registry.port", Recipe, registry(json!({"port": 6000}))),
        ("registry.fanOut", Recipe, registry(json!({"fanOut": false}))),
        ("registry.listen", Recipe, registry(json!({"listen": "node-address"}))),
        ("registry.dataDir", Recipe, registry(json!({"type": "registry", "dataDir": "/srv/registry"}))),
        ("registry.privateRegistry", Recipe, registry(json!({"privateRegistry": "registry.example.com"}))),
        ("registry.auths{}.username", Recipe, auth(json!({"username": "other"}))),
        ("registry.auths{}.passwordFrom.env", Recipe, auth(json!({}))),
        ("registry.auths{}.passwordFrom.file", Recipe, auth(json!({"passwordFrom": {"env": null, "file": "a"}}))),
        (
            "registry.auths{}.passwordFrom.dockerConfig",
            Recipe,
            auth(json!({"passwordFrom": {"env": null, "dockerConfig": "a"}})),
        ),
        ("registry.harborConfig.version", Recipe, harbor(json!({"version": "2.10.1"}))),
        ("registry.harborConfig.adminPasswordFrom.env", Recipe, harbor(json!({"adminPasswordFrom": env()}))),
        ("registry.harborConfig.adminPasswordFrom.file", Recipe, harbor(json!({"adminPasswordFrom": file()}))),
        ("registry.harborConfig.databasePasswordFrom.env", Recipe, harbor(json!({"databasePasswordFrom": env()}))),
        ("registry.harborConfig.databasePasswordFrom.file", Recipe, harbor(json!({"databasePasswordFrom": file()}))),
        ("registry.harborConfig.public", Recipe, harbor(json!({"public": true}))),
        ("registry.harborConfig.projectQuota", Recipe, harbor(json!({"projectQuota": "200Gi"}))),
        ("registry.harborConfig.config", Recipe, harbor(json!({"config": {"log": {"level": "debug"}}}))),
        ("registry.insecure", Recipe, own_registry(json!({"insecure": true}))),
        ("registry.caFile", Recipe, own_registry(json!({"caFile": "ca.crt"}))),
        ("registry.namespaceOverride", Recipe, own_registry(json!({"namespaceOverride": "mirror"}))),
        ("addons[].name", Recipe, addon(json!({}))),
        ("addons[].type", Recipe, addon(json!({"type": "yaml"}))),
        ("addons[].source.catalogue", Recipe, from(json!({"catalogue": "metrics-server"}))),
        ("addons[].source.repo", Recipe, from(repo())),
        ("addons[].source.chart", Recipe, from(repo())),
        ("addons[].source.version", Recipe, from(repo())),
        ("addons[].source.oci", Recipe, from(json!({"oci": "oci://ghcr.io/a/b", "version": "1.0.0"}))),
        ("addons[].source.url", Recipe, from(a_file())),
        ("addons[].source.sha256", Recipe, from(a_file())),
        ("addons[].source.path", Recipe, from(json!({"path": "a"}))),
        ("addons[].namespace", Recipe, addon(json!({"namespace": "other"}))),
        ("addons[].values", Recipe, addon(json!({"values": {"a": 1}}))),
        ("addons[].valuesFile", Recipe, addon(json!({"valuesFile": "values.yaml"}))),
        ("addons[].after", Recipe, after()),
        ("addons[].secrets[].name", Recipe, addon(secret(json!({"name": "b"})))),
        ("addons[].secrets[].type", Recipe, addon(secret(json!({"type": "example.com/own"})))),
        ("addons[].secrets[].dataFrom{}.env", Recipe, addon(secret(json!({})))),
        ("addons[].secrets[].dataFrom{}.file", Recipe, addon(secret(json!({"dataFrom": {"k": {"file": "f"}}})))),
        ("storage.openebs.basePath", Recipe, json!({"storage": {"openebs": {"basePath": "/data/local"}}})),
        ("storage.openebs.defaultClass", Recipe, json!({"storage": {"openebs": {"defaultClass": false}}})),
        ("storage.nfs.server", Recipe, nfs(json!({}))),
        ("storage.nfs.path", Recipe, nfs(json!({"path": "/other"}))),
        ("storage.nfs.mountOptions", Recipe, nfs(json!({"mountOptions": ["hard"]}))),
        ("storage.nfs.defaultClass", Recipe, nfs(json!({"defaultClass": true}))),
        ("bundle.platforms", Recipe, bundle(json!({"platforms": ["linux/amd64", "linux/arm64"]}))),
        ("bundle.os", Recipe, bundle(json!({"os": null}))),
        ("bundle.zone", Builder, bundle(json!({"zone": "cn"}))),
        ("bundle.extraImages[].name", Recipe, bundle(json!({"extraImages": [{"name": "busybox:1"}]}))),
        ("bundle.extraImages[].from", Recipe, bundle(json!({"extraImages": [{"name": "busybox:1", "from": "oci:a"}]}))),
        ("bundle.extraFiles[].url", Builder, bundle(json!({"extraFiles": [a_file()]}))),
        ("bundle.extraFiles[].sha256", Builder, bundle(json!({"extraFiles": [a_file()]}))),
        ("bundle.extraFiles[].path", Builder, bundle(json!({"extraFiles": [{"path": "a"}]}))),
        ("bundle.extraCharts[].name", Recipe, chart(json!({}))),
        (
            "bundle.extraCharts[].source.catalogue",
            Recipe,
            chart(json!({"source": {"path": null, "catalogue": "metrics-server"}})),
        ),
        (
            "bundle.extraCharts[].source.repo",
            Recipe,
            chart(json!({"source": {"path": null, "repo": "https://a.test", "chart": "a", "version": "1"}})),
        ),
        (
            "bundle.extraCharts[].source.chart",
            Recipe,
            chart(json!({"source": {"path": null, "repo": "https://a.test", "chart": "a", "version": "1"}})),
        ),
        (
            "bundle.extraCharts[].source.version",
            Recipe,
            chart(json!({"source": {"path": null, "repo": "https://a.test", "chart": "a", "version": "1"}})),
        ),
        (
            "bundle.extraCharts[].source.oci",
            Recipe,
            chart(json!({"source": {"path": null, "oci": "oci://a.test/b", "version": "1"}})),
        ),
        (
            "bundle.extraCharts[].source.url",
            Recipe,
            chart(json!({"source": {"path": null, "url": "https://a.test/b", "sha256": sha256}})),
        ),
        (
            "bundle.extraCharts[].source.sha256",
            Recipe,
            chart(json!({"source": {"path": null, "url": "https://a.test/b", "sha256": sha256}})),
        ),
        ("bundle.extraCharts[].source.path", Recipe, chart(json!({}))),
        ("bundle.extraCharts[].namespace", Recipe, chart(json!({"namespace": "other"}))),
        ("bundle.extraCharts[].values", Recipe, chart(json!({"values": {"a": 1}}))),
        ("bundle.extraCharts[].valuesFile", Recipe, chart(json!({"valuesFile": "values.yaml"}))),
        ("bundle.ignoreImages", Builder, bundle(json!({"ignoreImages": ["none"]}))),
        ("bundle.imageSignatures[].repositories", Builder, rule(json!({"repositories": ["*"], "accept": "any"}))),
        ("bundle.imageSignatures[].keys", Builder, rule(json!({"keys": ["a.pub"]}))),
        ("bundle.imageSignatures[].identities[].issuer", Builder, identity(json!({"issuer": "https://b.example.com"}))),
        ("bundle.imageSignatures[].identities[].subject", Builder, identity(json!({"subject": "*@b.example.com"}))),
        ("bundle.imageSignatures[].trustedRoot", Builder, identity(json!({}))),
        ("bundle.imageSignatures[].accept", Builder, rule(json!({"accept": "any"}))),
        ("bundle.imageSignatures[].signedAs", Builder, rule(json!({"keys": ["a.pub"], "signedAs": "any"}))),
        ("bundle.exclude", Recipe, bundle(json!({"exclude": ["crictl"]}))),
    ]
}
