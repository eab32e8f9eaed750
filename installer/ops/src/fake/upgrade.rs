//! `kubeadm upgrade`.

use serde_json::json;

use super::control_plane::{STATIC_PODS, config, put};
use super::rooted::{FOLDER, RootedSystem};
use super::state::State;
use super::versions::program_version;
use crate::OpError;
use crate::system::{Output, System as _};
use kubexm_spec::KubernetesVersion;

const MANIFESTS: &str = "/etc/kubernetes/manifests";
const KUBELET_CONFIG: &str = "/var/lib/kubelet/config.yaml";

/// `kubernetesVersion:` of kubeadm's config.
pub(super) fn configured(config: &str) -> Option<String> {
    value(config, "kubernetesVersion:")
}

fn value(config: &str, key: &str) -> Option<String> {
    let line = config.lines().find_map(|line| line.trim().strip_prefix(key))?;
    Some(line.trim().trim_matches(['"', '\'']).to_owned())
}

/// What an upload writes, and the key of the document in it.
pub(super) const CONFIG_MAPS: [(&str, &str); 2] =
    [("kubeadm-config", "ClusterConfiguration"), ("kubelet-config", "kubelet")];

/// `kubeadm config validate`: the fake takes everything that has a version.
pub(super) fn validate(system: &RootedSystem, args: &[&str]) -> Output {
    if args.get(1) == Some(&"validate") && minor(system) < HAS_VALIDATE {
        return Output::failed(1, "unknown flag: --config");
    }
    read_config(system, args)
}

/// The first minor versions whose kubeadm has `config validate`, and phases of `upgrade apply`.
const HAS_VALIDATE: u32 = 28;
const HAS_PHASES: u32 = 32;

/// Of the host's kubeadm.
fn minor(system: &RootedSystem) -> u32 {
    let version = program_version(system, "kubeadm").and_then(|version| version.parse::<KubernetesVersion>().ok());
    version.map_or(u32::MAX, |version| version.minor())
}

fn read_config(system: &RootedSystem, args: &[&str]) -> Output {
    match config(system, args).as_deref().and_then(configured) {
        Some(_) => Output::text("ok\n"),
        None => Output::failed(3, "error: kubernetesVersion: Invalid value"),
    }
}

/// The tag of a loaded image. What kubeadm has as constants the fake takes from what its host has: the newest.
fn loaded(state: &State, image: &str) -> Option<String> {
    let tags = state.images.keys().filter_map(|name| name.strip_prefix(image)?.strip_prefix(':'));
    tags.filter(|tag| !tag.contains('@')).max().map(str::to_owned)
}

/// `kubeadm config images list`. `kubeadm-images`: further ones.
pub(super) fn images(system: &RootedSystem, state: &State, args: &[&str]) -> Output {
    if args.contains(&"--config") {
        return read_config(system, args);
    }
    let flag = |name: &str| args.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
    let (Some(version), Some(repository)) = (flag("--kubernetes-version"), flag("--image-repository")) else {
        return Output::failed(1, "error: there is no version, and no repository");
    };
    let mut all: Vec<String> =
        STATIC_PODS.iter().filter(|pod| **pod != "etcd").map(|pod| format!("{repository}/{pod}:{version}")).collect();
    for image in ["coredns/coredns", "pause", "etcd"].map(|name| format!("{repository}/{name}")) {
        all.extend(loaded(state, &image).map(|tag| format!("{image}:{tag}")));
    }
    let more = system.read(&format!("{FOLDER}/kubeadm-images")).unwrap_or_default();
    Output::text(all.join("\n") + "\n" + &more)
}

/// `kubeadm init phase upload-config all`.
pub(super) fn upload_config(system: &RootedSystem, state: &mut State, args: &[&str]) -> Result<Output, OpError> {
    let Some(text) = config(system, args) else {
        return Ok(Output::failed(1, "--config does not name a file"));
    };
    let after_etcd = text.split_once("etcd:").map_or("", |(_, after)| after);
    (state.cluster.version, state.cluster.etcd_tag) = (configured(&text), value(after_etcd, "imageTag:"));
    for (name, key) in CONFIG_MAPS {
        let object = json!({"kind": "ConfigMap", "metadata": {"name": name}, "data": {key: text}});
        state.cluster.objects.insert(format!("ConfigMap/{name}"), object.to_string());
    }
    Ok(Output::text("[upload-config] Storing the configuration used in ConfigMap \"kubeadm-config\"\n"))
}

pub(super) fn upgrade(system: &RootedSystem, state: &mut State, args: &[&str]) -> Result<Output, OpError> {
    let refuse = |why: String| Ok(Output::failed(1, format!("[upgrade] FATAL: {why}")));
    if !state.cluster.has_quorum() {
        return refuse("failed to get the cluster's config: connection refused".to_owned());
    }
    let version = match args.get(1).copied() {
        Some("apply") => args.get(2).map(|version| (*version).to_owned()),
        Some("node") => state.cluster.version.clone(),
        other => return refuse(format!("the fake does not know kubeadm upgrade {other:?}")),
    };
    let (Some(version), Some(own)) = (version, program_version(system, "kubeadm")) else {
        return refuse("there is no version".to_owned());
    };
    if own != version {
        return refuse(format!("this kubeadm is {own}, and cannot upgrade to {version}"));
    }
    if minor(system) < HAS_PHASES && args.iter().any(|arg| arg.starts_with("--skip-phases=addon/")) {
        return refuse("unknown flag: --skip-phases, or invalid phase name".to_owned());
    }
    let name = system.hostname()?;
    // `refuse-kubeadm-upgrade`: what kubeadm's preflight finds; a dry run finds it, too.
    if let Some(why) = system.read(&format!("{FOLDER}/refuse-kubeadm-upgrade")) {
        return Ok(Output::failed(1, format!("[preflight] Some fatal errors occurred:\n\t[ERROR {}", why.trim())));
    }
    if args.contains(&"--dry-run") {
        put(system, "/etc/kubernetes/tmp/kubeadm-upgrade-dryrun7/config.yaml", "double: kubelet's config\n")?;
        return Ok(Output::text("[dryrun] Finished dryrunning successfully!\n"));
    }
    // `unhealthy-kubeadm-upgrade`: so many more times kubeadm's health check fails, as on a host that has just booted.
    let unhealthy = format!("{FOLDER}/unhealthy-kubeadm-upgrade");
    let times = system.read(&unhealthy).and_then(|times| times.trim().parse::<u32>().ok()).unwrap_or_default();
    if let Some(left) = times.checked_sub(1) {
        put(system, &unhealthy, &left.to_string())?;
        let job = "[ERROR CreateJob]: Job \"upgrade-health-check-7v5kq\" in the namespace \"kube-system\" did not complete in 15s";
        return Ok(Output::failed(1, format!("[preflight] Some fatal errors occurred:\n\t{job}")));
    }
    let kill = system.at(&format!("{FOLDER}/kill-kubeadm-upgrade"));
    if kill.exists() {
        crate::fsio::remove(&kill)?;
        return Ok(Output::failed(137, "killed half-way"));
    }
    // Without an upload before it, kubeadm writes the version into its own configuration.
    if args.get(1) == Some(&"apply") && state.cluster.version.as_deref() != Some(version.as_str()) {
        state.cluster.version = Some(version.clone());
        state.cluster.etcd_tag = loaded(state, "registry.k8s.io/etcd");
    }
    if system.at(&format!("{MANIFESTS}/kube-apiserver.yaml")).exists() {
        for pod in STATIC_PODS {
            let image = match (pod, &state.cluster.etcd_tag) {
                // kubeadm has none then.
                ("etcd", _) if state.cluster.apart || args.contains(&"--etcd-upgrade=false") => continue,
                ("etcd", Some(tag)) => format!("registry.k8s.io/etcd:{tag}"),
                ("etcd", None) => continue,
                _ => format!("registry.k8s.io/{pod}:{version}"),
            };
            // Where the image is the same, kubeadm starts etcd anew for its certificates. `etcd-started`: that it did.
            if pod == "etcd" {
                put(system, &format!("{FOLDER}/etcd-started"), &version)?;
            }
            let path = format!("{MANIFESTS}/{pod}.yaml");
            let old = system.read(&path).unwrap_or_default();
            let kept: String =
                old.lines().filter(|line| !line.contains("image:")).map(|line| format!("{line}\n")).collect();
            put(system, &path, &format!("{kept}    image: {image}\n"))?;
            state.cluster.images.entry(name.clone()).or_default().insert(pod.to_owned(), image);
        }
    }
    // kubeadm of 1.32 and later makes what it does not find, unless that phase is skipped.
    if !args.iter().any(|arg| arg.starts_with("--skip-phases=") && arg.contains("addon/kube-proxy")) {
        state
            .cluster
            .objects
            .entry("DaemonSet/kube-proxy".to_owned())
            .or_insert_with(|| "kind: DaemonSet\n".to_owned());
    }
    put(system, KUBELET_CONFIG, &format!("double: kubelet's config of {version}\n"))?;
    Ok(Output::text("[upgrade] SUCCESS!\n"))
}
