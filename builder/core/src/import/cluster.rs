//! KubeKey's `Cluster`, field by field (its API: kubekey.kubesphere.io/v1alpha2, `ClusterSpec`).

use super::source::Place;
use super::yaml::{Map, Yaml, cluster as named};

/// What KubeKey adds to names of its own that nothing of ours reads.
const HOST_FIELDS: [&str; 2] = ["address", "internalAddress"];

/// The whole file.
pub fn cluster(root: &Place<'_>) -> Map {
    known(root);
    let name = root.at(&["metadata", "name"]).and_then(|at| at.text()).unwrap_or("cluster").to_owned();
    let mut spec = Map::default();
    let Some(from) = root.get("spec") else { return named(&name, spec) };
    let part = |name: &str| from.get(name);
    spec.maybe("hosts", part("hosts").map(|at| at.items().iter().map(host).collect::<Vec<_>>()));
    spec.maybe("roleGroups", part("roleGroups").map(|at| roles(&at)));
    spec.maybe("system", part("system").map(|at| system(&at)));
    spec.maybe("kubernetes", part("kubernetes").map(|at| kubernetes(&at)));
    spec.maybe("etcd", part("etcd").map(|at| etcd(&at)));
    spec.set("runtime", runtime(&from));
    spec.maybe("network", part("network").map(|at| network(&at)));
    spec.maybe("loadBalancer", part("controlPlaneEndpoint").map(|at| load_balancer(&at)));
    spec.set("registry", registry(&from));
    spec.maybe("addons", part("addons").map(|at| at.items().iter().filter_map(addon).collect::<Vec<_>>()));
    spec.maybe("storage", part("storage").map(|at| storage(&at)));
    let mut bundle = Map::default();
    bundle.set("platforms", platforms(&from));
    spec.set("bundle", bundle);
    if let Some(at) = part("kubesphere") {
        at.leave("KubeSphere is not installed by this program; carry its chart with spec.bundle.extraCharts");
    }
    named(&name, spec)
}

/// What the hosts need, where a host says that it is another one than those that bundles are for by themselves.
fn platforms(spec: &Place<'_>) -> Vec<&'static str> {
    let hosts = spec.get("hosts").map(|at| at.items()).unwrap_or_default();
    let arm = |at: &Place<'_>| {
        at.get("arch").and_then(|at| at.text()).is_some_and(|arch| matches!(arch, "arm64" | "aarch64"))
    };
    let count = hosts.iter().filter(|at| arm(at)).count();
    match count {
        0 => Vec::new(),
        _ if count == hosts.len() => vec!["linux/arm64"],
        _ => vec!["linux/amd64", "linux/arm64"],
    }
}

/// What every file has, and what says nothing.
pub fn known(root: &Place<'_>) {
    for name in ["apiVersion", "kind"] {
        root.get(name).inspect(Place::taken);
    }
    root.get("status").inspect(Place::taken);
    root.at(&["metadata", "creationTimestamp"]).inspect(Place::taken);
}

/// Fields that mean the same, as texts.
fn same(from: &Place<'_>, to: &mut Map, names: &[(&str, &str)]) {
    for (old, new) in names {
        to.maybe(new, from.get(old).and_then(|at| at.text()));
    }
}

/// A number, or a text of one.
fn number(at: &Place<'_>) -> Option<u64> {
    let number = at.text()?.parse().ok();
    if number.is_none() {
        at.leave("it is no number");
    }
    number
}

fn host(from: &Place<'_>) -> Map {
    let mut host = Map::default();
    same(from, &mut host, &[("name", "name")]);
    for field in HOST_FIELDS {
        // Several addresses stand in one text, IPv4 first.
        let addresses = from.get(field).and_then(|at| at.text());
        host.maybe(field, addresses.map(one_or_more));
    }
    host.maybe("port", from.get("port").and_then(|at| number(&at)));
    same(from, &mut host, &[("user", "user"), ("privateKeyPath", "privateKeyPath"), ("arch", "arch")]);
    let name = from.get("name").and_then(|at| at.text()).unwrap_or("host").to_owned();
    if let Some(at) = from.get("password") {
        let variable = variable("KUBEXM_PASSWORD", &name);
        host.set("passwordFrom", env(&variable));
        at.leave(format!(
            "no secret stands in cluster.yaml, which travels in the bundle: set {variable} where kubexm-install runs"
        ));
    }
    if let Some(at) = from.get("privateKey") {
        at.leave("no secret stands in cluster.yaml: put the key into a file and give privateKeyPath");
    }
    if let Some(at) = from.get("timeout") {
        at.leave("how long is waited for a host is no field here; an SSH connection is given 30 seconds");
    }
    host.maybe("labels", from.get("labels").map(|at| texts(&at)));
    host
}

fn one_or_more(text: &str) -> Yaml {
    let all: Vec<&str> = text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect();
    match all.as_slice() {
        [one] => (*one).into(),
        _ => all.into(),
    }
}

/// A name that shells take.
fn variable(prefix: &str, name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("{prefix}_{name}")
}

fn env(variable: &str) -> Map {
    let mut from = Map::default();
    from.set("env", variable);
    from
}

fn texts(from: &Place<'_>) -> Map {
    let mut map = Map::default();
    for (name, at) in from.fields() {
        map.maybe(name, at.text());
    }
    map
}

fn roles(from: &Place<'_>) -> Map {
    let mut roles = Map::default();
    for (name, at) in from.fields() {
        match name {
            "etcd" | "master" | "control-plane" | "worker" | "registry" => roles.set(name, at.texts()),
            // An older name of both.
            "k8s" => at.leave("KubeKey's own fields name the roles master and worker; write them there"),
            "loadbalancer" => roles.set(name, at.texts()),
            _ => at.leave("there is no such role"),
        }
    }
    roles
}

fn system(from: &Place<'_>) -> Map {
    let mut system = Map::default();
    for name in ["ntpServers", "rpms", "debs"] {
        system.maybe(name, from.get(name).map(|at| at.texts()));
    }
    same(from, &mut system, &[("timezone", "timezone")]);
    for name in ["preInstall", "postInstall"] {
        let scripts = from.get(name).map(|at| at.items().iter().map(script).collect::<Vec<_>>());
        system.maybe(name, scripts);
    }
    system.maybe("skipConfigureOS", from.get("skipConfigureOS").map(|at| at.is_true()).filter(|yes| *yes));
    system
}

fn script(from: &Place<'_>) -> Map {
    let mut script = Map::default();
    same(from, &mut script, &[("name", "name"), ("bash", "bash")]);
    script.maybe("materials", from.get("materials").map(|at| at.texts()));
    script
}

fn kubernetes(from: &Place<'_>) -> Map {
    let mut to = Map::default();
    if let Some(at) = from.get("type") {
        match at.text() {
            Some("kubernetes") => {}
            _ => at.leave("only Kubernetes itself is installed; type kubexm runs its components without kubeadm"),
        }
    }
    same(from, &mut to, &[("version", "version"), ("clusterName", "clusterName"), ("dnsDomain", "dnsDomain")]);
    same(from, &mut to, &[("proxyMode", "proxyMode")]);
    to.maybe("maxPods", from.get("maxPods").and_then(|at| number(&at)));
    to.maybe("certSANs", from.get("apiserverCertExtraSans").map(|at| at.texts()));
    to.maybe("autoRenewCerts", from.get("autoRenewCerts").map(|at| at.is_true()).filter(|yes| *yes));
    if from.get("nodelocaldns").is_some_and(|at| at.is_true()) {
        to.put("nodelocaldns", Map::default());
    }
    if from.at(&["audit", "enabled"]).is_some_and(|at| at.is_true()) {
        to.put("audit", Map::default());
    }
    to.maybe("featureGates", from.get("featureGates").map(|at| gates(&at)));
    for (old, new) in [
        ("apiserverArgs", "apiServerArgs"),
        ("controllerManagerArgs", "controllerManagerArgs"),
        ("schedulerArgs", "schedulerArgs"),
    ] {
        to.maybe(new, from.get(old).map(|at| args(&at)));
    }
    for name in ["kubeletArgs", "kubeProxyArgs"] {
        if let Some(at) = from.get(name) {
            at.leave("flags of this kind are deprecated upstream: write fields of kubelet or kubeProxy (their configuration)");
        }
    }
    let mut kubelet = from.get("kubeletConfiguration").map(|at| raw(&at)).unwrap_or_default();
    kubelet.maybe("podPidsLimit", from.get("podPidsLimit").and_then(|at| number(&at)));
    to.set("kubelet", kubelet);
    let mut proxy = from.get("kubeProxyConfiguration").map(|at| raw(&at)).unwrap_or_default();
    if from.get("masqueradeAll").is_some_and(|at| at.is_true()) {
        let mut iptables = Map::default();
        iptables.put("masqueradeAll", true);
        proxy.set("iptables", iptables);
    }
    to.set("kubeProxy", proxy);
    if let Some(at) = from.get("nodeCidrMaskSize") {
        match at.text() {
            // It is the size that every node gets.
            Some("24") => {}
            _ => at.leave("every node gets a /24 of the pod network"),
        }
    }
    for name in ["nodeFeatureDiscovery", "kata"] {
        let Some(at) = from.get(name) else { continue };
        match at.get("enabled").is_some_and(|at| at.is_true()) {
            true => at.leave("it is not installed by this program; carry its chart with spec.bundle.extraCharts"),
            false => at.taken(),
        }
    }
    if let Some(at) = from.get("disableKubeProxy") {
        match at.is_true() {
            true => at.leave("kube-proxy is always installed"),
            false => at.taken(),
        }
    }
    to
}

fn gates(from: &Place<'_>) -> Map {
    let mut gates = Map::default();
    for (name, at) in from.fields() {
        gates.put(name, at.is_true());
    }
    gates
}

/// `- --flag=value`, `- flag=value`.
fn args(from: &Place<'_>) -> Map {
    let mut args = Map::default();
    for at in from.items() {
        match at.text().and_then(|text| text.trim_start_matches('-').split_once('=')) {
            Some((flag, value)) => args.set(flag, value),
            None => at.leave("it is no flag with a value"),
        }
    }
    args
}

/// A configuration as it is.
fn raw(from: &Place<'_>) -> Map {
    let mut map = Map::default();
    for (name, at) in from.fields() {
        if !matches!(name, "apiVersion" | "kind") {
            map.put(name, at.raw());
        }
    }
    from.taken();
    map
}

fn etcd(from: &Place<'_>) -> Map {
    let mut etcd = Map::default();
    let kind = from.get("type").and_then(|at| at.text());
    etcd.maybe("type", kind.map(|kind| if kind == "kubekey" { "kubexm" } else { kind }));
    if let Some(external) = from.get("external") {
        let mut config = Map::default();
        config.maybe("endpoints", external.get("endpoints").map(|at| at.texts()));
        same(&external, &mut config, &[("caFile", "caFile"), ("certFile", "certFile"), ("keyFile", "keyFile")]);
        match kind {
            Some("external") => etcd.set("externalConfig", config),
            _ => external.taken(),
        }
    }
    same(from, &mut etcd, &[("dataDir", "dataDir")]);
    etcd.maybe("quota", from.get("quotaBackendBytes").and_then(|at| number(&at)));
    let mut snapshots = Map::default();
    snapshots.maybe("count", from.get("snapshotCount").and_then(|at| number(&at)));
    snapshots.maybe("keep", from.get("maxSnapshots").and_then(|at| number(&at)));
    etcd.set("snapshots", snapshots);
    let mut backup = Map::default();
    if let Some(at) = from.get("backupPeriod") {
        match number(&at).and_then(calendar) {
            Some(schedule) => backup.set("schedule", schedule),
            None => at.leave("write spec.etcd.backup.schedule, a calendar expression of systemd"),
        }
    }
    same(from, &mut backup, &[("backupDir", "dir")]);
    backup.maybe("keep", from.get("keepBackupNumber").and_then(|at| number(&at)));
    etcd.set("backup", backup);
    if let Some(at) = from.get("backupScript") {
        at.leave("backups are made by a unit of this program, without a script of its own");
    }
    etcd
}

/// Every so many minutes, as systemd says it (systemd.time(7)).
fn calendar(minutes: u64) -> Option<String> {
    match minutes {
        1..=59 if 60_u64.is_multiple_of(minutes) => Some(format!("*:0/{minutes}")),
        60 => Some("hourly".to_owned()),
        1440 => Some("daily".to_owned()),
        61..1440 if minutes.is_multiple_of(60) && 1440_u64.is_multiple_of(minutes) => {
            Some(format!("0/{}:00", minutes / 60))
        }
        _ => None,
    }
}

fn runtime(spec: &Place<'_>) -> Map {
    let mut runtime = Map::default();
    if let Some(at) = spec.at(&["kubernetes", "containerManager"]) {
        match at.text() {
            Some(kind @ ("docker" | "containerd")) => runtime.set("type", kind),
            Some("crio") => runtime.set("type", "cri-o"),
            Some("isula") => runtime.set("type", "isulad"),
            _ => at.leave("it is none of containerd, docker, crio and isula"),
        }
    }
    if let Some(at) = spec.at(&["kubernetes", "containerRuntimeEndpoint"]) {
        at.leave("the socket follows from the runtime");
    }
    runtime.maybe("dataDir", spec.at(&["registry", "dataRoot"]).and_then(|at| at.text()));
    runtime
}

fn network(from: &Place<'_>) -> Map {
    let mut network = Map::default();
    let plugin = from.get("plugin").and_then(|at| at.text());
    network.maybe("plugin", plugin.map(|plugin| if plugin == "kubeovn" { "kube-ovn" } else { plugin }));
    for (old, new) in [("kubePodsCIDR", "podCidr"), ("kubeServiceCIDR", "serviceCidr")] {
        network.maybe(new, from.get(old).and_then(|at| at.text()).map(one_or_more));
    }
    if let Some(multus) = from.get("multusCNI") {
        match multus.get("enabled").is_some_and(|at| at.is_true()) {
            true => network.set("multus", true),
            false => multus.taken(),
        }
    }
    for name in ["calico", "flannel", "kubeovn", "cilium", "hybridnet"] {
        let Some(at) = from.get(name) else { continue };
        match plugin == Some(name) {
            true => {
                at.leave("options of the plugin have other names here: write spec.network.options, values of its chart")
            }
            // Another plugin's say nothing.
            false => at.taken(),
        }
    }
    network
}

fn load_balancer(from: &Place<'_>) -> Map {
    let (mut to, mut kind) = (Map::default(), Map::default());
    let vip = from.get("address").and_then(|at| at.text());
    match from.get("internalLoadbalancer").map(|at| (at.text(), at)) {
        Some((Some(internal @ ("haproxy" | "kube-vip")), _)) => {
            to.set("mode", "internal");
            kind.set("type", internal);
            to.set("internal", kind);
        }
        Some((_, at)) => at.leave("it is neither haproxy nor kube-vip"),
        None if vip.is_some() => {
            to.set("mode", "external");
            kind.set("type", "external");
            to.set("external", kind);
        }
        None => {}
    }
    to.maybe("vip", vip);
    to.maybe("port", from.get("port").and_then(|at| number(&at)).filter(|port| *port != 6443));
    same(from, &mut to, &[("domain", "domain")]);
    if let Some(at) = from.get("externalDNS") {
        match at.is_true() {
            true => at.leave("the name is written into /etc/hosts of every node all the same"),
            false => at.taken(),
        }
    }
    if let Some(at) = from.get("kubevip") {
        match at.get("mode").and_then(|mode| mode.text()) {
            None | Some("ARP" | "arp") => at.taken(),
            _ => at.leave("kube-vip announces its address by ARP only"),
        }
    }
    to
}

fn registry(spec: &Place<'_>) -> Map {
    let mut to = Map::default();
    let Some(from) = spec.get("registry") else { return to };
    let private = from.get("privateRegistry").and_then(|at| at.text());
    match from.get("type").map(|at| (at.text(), at)) {
        Some((Some("harbor"), _)) => to.set("type", "harbor"),
        Some((Some("docker-registry"), _)) => to.set("type", "registry"),
        Some((_, at)) => at.leave("it is neither harbor nor docker-registry"),
        None if private.is_some() => to.set("type", "external"),
        None => {}
    }
    to.maybe("privateRegistry", private);
    same(&from, &mut to, &[("namespaceOverride", "namespaceOverride")]);
    if let Some(at) = from.get("insecureRegistries") {
        let all = at.texts();
        if private.is_some_and(|private| all.contains(&private)) {
            to.set("insecure", true);
        }
        if !all.iter().all(|one| Some(*one) == private) {
            at.leave("only the cluster's own registry can be insecure");
        }
    }
    if let Some(at) = from.get("registryMirrors") {
        at.leave("where images are fetched from is a zone's: `kubexm-bundle zone --help` shows the file");
    }
    if let Some(at) = from.get("bridgeIP") {
        at.leave("docker's bridge is left as docker makes it; see spec.runtime.extraConfig");
    }
    if let Some(auths) = from.get("auths") {
        let mut all = Map::default();
        for (host, at) in auths.fields() {
            all.set(host, auth(host, &at));
        }
        to.set("auths", all);
    }
    to
}

fn auth(host: &str, from: &Place<'_>) -> Map {
    let mut auth = Map::default();
    same(from, &mut auth, &[("username", "username")]);
    if let Some(at) = from.get("password") {
        let variable = variable("KUBEXM_REGISTRY_PASSWORD", host);
        auth.set("passwordFrom", env(&variable));
        at.leave(format!("no secret stands in cluster.yaml: set {variable} where the programs run"));
    }
    for name in ["skipTLSVerify", "plainHTTP"] {
        if let Some(at) = from.get(name) {
            match at.is_true() {
                true => at.leave("spec.registry.insecure says it for the cluster's own registry"),
                false => at.taken(),
            }
        }
    }
    if let Some(at) = from.get("certsPath") {
        at.leave("give the CA with spec.registry.caFile");
    }
    auth
}

fn addon(from: &Place<'_>) -> Option<Map> {
    let mut addon = Map::default();
    same(from, &mut addon, &[("name", "name")]);
    let mut source = Map::default();
    if let Some(chart) = from.at(&["sources", "chart"]) {
        addon.set("type", "helm");
        match (chart.get("path"), chart.get("repo")) {
            (Some(path), _) => source.maybe("path", path.text()),
            (None, Some(repo)) => {
                let address = repo.text().unwrap_or_default();
                let oci = address.starts_with("oci://");
                let name = chart.get("name").and_then(|at| at.text()).unwrap_or_default();
                match oci {
                    true => source.set("oci", format!("{}/{name}", address.trim_end_matches('/'))),
                    false => {
                        source.set("repo", address);
                        source.set("chart", name);
                    }
                }
                source.maybe("version", chart.get("version").and_then(|at| at.text()));
                if chart.get("version").is_none() {
                    chart.leave("a chart is carried by its exact version: give source.version");
                }
            }
            (None, None) => chart.leave("it says neither a repo nor a path"),
        }
        if let Some(at) = chart.get("values") {
            at.leave("values are written as YAML here (values:), not as --set does");
        }
        addon.set("source", source);
        same(from, &mut addon, &[("namespace", "namespace")]);
        same(&chart, &mut addon, &[("valuesFile", "valuesFile")]);
    } else if let Some(paths) = from.at(&["sources", "yaml", "path"]) {
        addon.set("type", "yaml");
        let items = paths.items();
        let (first, more) = items.split_first()?;
        source.maybe("path", first.text());
        more.iter().for_each(|at| at.leave("an add-on is of one file or folder: make another one of it"));
        addon.set("source", source);
        same(from, &mut addon, &[("namespace", "namespace")]);
    } else {
        from.leave("it has no source");
        return None;
    }
    for name in ["retries", "delay"] {
        if let Some(at) = from.get(name) {
            at.leave("add-ons are waited for, and not tried again by number");
        }
    }
    Some(addon)
}

fn storage(from: &Place<'_>) -> Map {
    let mut storage = Map::default();
    if let Some(openebs) = from.get("openebs") {
        let mut to = Map::default();
        same(&openebs, &mut to, &[("basePath", "basePath")]);
        storage.put("openebs", to);
    }
    storage
}
