//! KubeKey's `Cluster`, field by field (its API: kubekey.kubesphere.io/v1alpha2, `ClusterSpec`).

mod hosts;
mod kubernetes;
mod registry;

use super::source::Place;
use super::yaml::{Map, Yaml, cluster as named};
use hosts::{host, roles, system};
use kubernetes::{etcd, kubernetes};
use registry::{addon, registry, storage};

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
