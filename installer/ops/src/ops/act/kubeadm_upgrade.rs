//! `kubeadm upgrade apply` and `kubeadm upgrade node`.
//!
//! Both can be repeated (upstream's "Upgrading kubeadm clusters", "Recovering from a failure state"), and `apply`
//! restores the static pods' manifests by itself if one does not come up. kubexm's mark says which version was asked
//! for, whether it ended well, and what a worker had before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kubexm_plan::kubeadm_certificates::MANAGED;
use kubexm_plan::op::{KubeadmUpgrade, KubeadmUpgradeUndo, Progress, UpgradeOf};
use kubexm_spec::{Digest, KubernetesVersion, depot};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::files::UPGRADE_MARK as MARK;
use super::perform::Perform;
use super::{kubeadm_files, mark};
use crate::fsio::{self, Access};
use crate::kube::{self, kubectl, own_server};
use crate::ops::certificates_renewed;
use crate::system::{ActContext, Program};
use crate::{Machine, OpError, authority, paths, transient};

const MANIFESTS: &str = "/etc/kubernetes/manifests";
const API_SERVER: &str = "kube-apiserver";
const ETCD: &str = "etcd";
const CA_OF_ETCD: &str = "/etc/kubernetes/pki/etcd/ca.crt";
const KEY_OF_ETCD: &str = "/etc/kubernetes/pki/etcd/ca.key";
/// How long the API server may take to come back after a boot.
const COMES_BACK: Duration = Duration::from_secs(180);
/// What `kubeadm upgrade node` writes on a worker; without secrets.
const OF_KUBELET: [&str; 3] =
    ["/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env", "/var/lib/kubelet/instance-config.yaml"];
/// kubeadm's own checks that a host which has just booted does not pass yet: a Job has 15 s to end, and the nodes of all control planes must be
/// Ready (`cmd/kubeadm/app/phases/upgrade/health.go`).
const PASS_LATER: [&str; 2] = ["[ERROR CreateJob]", "[ERROR ControlPlaneNodesReady]"];
/// How often those are asked, and the pause between two times.
const ASKED: u32 = 8;
const PAUSE: Duration = Duration::from_secs(15);
/// kubeadm waits five minutes for each of the static pods to change.
const LIMIT_S: u64 = 1600;

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mark {
    version: String,
    /// The settings that it was run for, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settings: Option<Digest>,
    ended_well: bool,
    /// The step that started it, until it has succeeded: its unit may still run when another run starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    act: Option<ActContext>,
    /// What the upload of the cluster's new configuration replaces, by ConfigMap; of the first attempt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    configs: BTreeMap<String, Value>,
    /// The static pods that are to be replaced, of the first attempt.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    replaces: BTreeSet<String>,
    /// The files of a worker's kubelet before the upgrade, and their copies, by path; none for one that did not exist.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    before: BTreeMap<String, Option<String>>,
    /// kubeadm has run while every API server was new: what kube-proxy is afterwards is somebody else's doing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    addons_tried: bool,
}

impl Mark {
    /// An unreadable record is an error: it may have the only copy of the files and ConfigMaps of before.
    fn read(machine: &Machine) -> Result<Option<Self>, OpError> {
        let Some(bytes) = fsio::read(&machine.path(MARK))? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            OpError::other(format!(
                "{MARK} has what `kubeadm upgrade` on this node replaced, and cannot be read: {error}; if a newer \
                 kubexm-install wrote it, use that version; if it is damaged, remove it: `kubeadm upgrade` is then run again, \
                 and a rollback leaves kubelet's configuration as it is now"
            ))
        })
    }

    fn write(&self, machine: &Machine) -> Result<(), OpError> {
        let text = serde_json::to_vec(self)
            .map_err(|error| OpError::other(format!("{MARK} cannot be written as JSON: {error}")))?;
        machine.write_file(MARK, &text, Access::mode(0o600))
    }

    /// Whether it is of this upgrade. An earlier one to the same version says nothing of settings.
    fn is_of(&self, version: &str, settings: Option<Digest>) -> bool {
        self.version == version && (settings.is_none() || self.settings == settings)
    }

    /// The record of this upgrade; none where it is of another one.
    fn of(machine: &Machine, version: &str, settings: Option<Digest>) -> Result<Option<Self>, OpError> {
        Ok(Self::read(machine)?.filter(|mark| mark.is_of(version, settings)))
    }

    /// The running act: this step's own, or the one of the run that started it.
    fn still_running(&self, machine: &Machine) -> Result<Option<ActContext>, OpError> {
        transient::still_running(machine, self.act.as_ref())
    }
}

/// Why the record cannot be read, if it cannot.
pub(crate) fn unreadable(machine: &Machine) -> Option<OpError> {
    Mark::read(machine).err()
}

/// Whether it was started on this host, whatever became of it.
pub(crate) fn has_begun(upgrade: &KubeadmUpgrade, machine: &Machine) -> Result<bool, OpError> {
    let mark = Mark::of(machine, &upgrade.version, upgrade.settings)?;
    mark.map_or(Ok(false), |mark| Ok(!mark.ended_well || has_images(machine, &upgrade.images)?))
}

impl Perform for KubeadmUpgrade {
    /// A mark of another version, or of other settings, is that of an earlier upgrade.
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        let Some(mark) = Mark::of(machine, &self.version, self.settings)? else {
            return Ok(Progress::NotBegun);
        };
        if !mark.ended_well {
            return Ok(Progress::HalfDone);
        }
        let done = has_images(machine, &self.images)? && (mark.addons_tried || !has_old_addons(machine, self));
        Ok(if done { Progress::Done } else { Progress::NotBegun })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        let earlier = Mark::read(machine)?.filter(|mark| mark.version == self.version);
        let mut running = earlier.as_ref().map_or(Ok(None), |mark| mark.still_running(machine))?;
        if let Some(act) =
            running.take_if(|_| !earlier.as_ref().is_some_and(|mark| mark.is_of(&self.version, self.settings)))
        {
            // It brings other settings, and would put its own manifests back over those of this one.
            transient::stop(machine, &act)?;
        }
        // Only the first attempt has seen the files and ConfigMaps as they were before.
        let (before, configs, replaces) = match (earlier, &self.of) {
            (Some(mark), _) if !mark.ended_well => (mark.before, mark.configs, mark.replaces),
            (_, UpgradeOf::Cluster { config: Some(_) }) => {
                (BTreeMap::new(), uploaded(machine)?, missing_images(machine, &self.images)?)
            }
            // Nothing is uploaded: kubeadm changes its ConfigMaps itself, once the static pods are replaced.
            (_, UpgradeOf::Cluster { config: None } | UpgradeOf::ControlPlane) => Default::default(),
            (_, UpgradeOf::Worker) => (kubelet_files(machine)?, BTreeMap::new(), BTreeSet::new()),
        };
        let act = running.clone().or_else(|| machine.act().cloned());
        let addons_tried = false;
        let mut mark = Mark {
            version: self.version.clone(),
            settings: self.settings,
            ended_well: false,
            act,
            configs,
            replaces,
            before,
            addons_tried,
        };
        mark.write(machine)?;
        let leaves_etcd = leaves_etcd(machine, self)?;
        let upgrade = if leaves_etcd { program(self).arg("--etcd-upgrade=false") } else { program(self) };
        let waited_for = match running {
            // Started by a run that was interrupted: wait for it. If it fails, it is run again.
            Some(act) => machine.with_act(act).run_act(&upgrade).is_ok(),
            None => false,
        };
        if !waited_for {
            // Its host may have booted just now.
            if self.of.is_control_plane() {
                own_server::wait_for(machine, COMES_BACK)?;
            }
            let config = match &self.of {
                UpgradeOf::Cluster { config } => config.as_deref(),
                UpgradeOf::ControlPlane | UpgradeOf::Worker => None,
            };
            let upgraded = config.map_or(Ok(()), |config| upload(machine, config)).and_then(|()| {
                if leaves_etcd {
                    renew_etcd(machine, config.unwrap_or(paths::KUBEADM_CONFIG))?;
                }
                run(machine, &upgrade)
            });
            if let Err(error) = upgraded {
                return Err(put_back(machine, &self.images, &mark, error));
            }
        }
        if !has_images(machine, &self.images)? {
            return Err(OpError::other(format!(
                "`{upgrade}` succeeded, and the static pods in {MANIFESTS} do not have the images of {}; `kubeadm upgrade \
                 plan` on this host shows what it wants",
                self.version
            )));
        }
        if let UpgradeOf::Cluster { config: Some(config) } = &self.of {
            given_to_kubeadm(machine, config)?;
        }
        // Later edits of people are compared with these, where kubexm has made the node.
        if mark::any_ended_well(machine)? {
            kubeadm_files::record(machine)?;
        }
        (mark.ended_well, mark.act, mark.addons_tried) = (true, None, all_servers_are_new(machine, self));
        mark.write(machine)
    }
}

/// The init's mark has the digest of what kubeadm was given, and the text stands where `create` has written it: a rollback of what follows takes
/// neither back without the other.
fn given_to_kubeadm(machine: &Machine, config: &str) -> Result<(), OpError> {
    let Some(text) = fsio::read(&machine.path(config))? else { return Ok(()) };
    if machine.path(paths::KUBEADM_CONFIG).is_file() {
        machine.write_file(paths::KUBEADM_CONFIG, &text, Access::mode(0o644))?;
    }
    mark::configured_with(machine, Some(Digest::of(&text)))
}

/// Runs kubeadm, and again where it has changed nothing yet since the cluster was not healthy for a moment.
fn run(machine: &Machine, upgrade: &Program) -> Result<(), OpError> {
    let passes_later = |error: &OpError| PASS_LATER.iter().any(|check| error.full().contains(check));
    for _ in 1..ASKED {
        match machine.run_act(upgrade) {
            Err(error) if passes_later(&error) && machine.is_real() => std::thread::sleep(PAUSE),
            Err(error) if passes_later(&error) => {}
            ended => return ended.map(drop),
        }
    }
    machine.run_act(upgrade).map(drop)
}

/// Whether etcd is left alone. kubeadm starts it anew although only its certificates are other ones afterwards, and does not wait for it before
/// it stops the API server (`cmd/kubeadm/app/phases/upgrade/staticpods.go`). A minor version may bring etcd other flags, and it reads another
/// authority only when it starts.
fn leaves_etcd(machine: &Machine, upgrade: &KubeadmUpgrade) -> Result<bool, OpError> {
    let Some(image) = upgrade.images.get(ETCD).filter(|_| upgrade.same_etcd) else { return Ok(false) };
    if !has_image(machine, ETCD, image)? || !keeps_minor(machine, upgrade)? {
        return Ok(false);
    }
    let read = |path: &str| fsio::read_text(&machine.path(path)).map(Option::unwrap_or_default);
    let authority = read(CA_OF_ETCD)?;
    for (_, path) in of_etcd() {
        if !authority::has_signed(&authority, &read(path)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The certificates that kubeadm renews before it starts etcd anew.
fn of_etcd() -> impl Iterator<Item = (&'static str, &'static str)> {
    MANAGED.into_iter().filter(|(_, path)| path.starts_with("/etc/kubernetes/pki/etcd/"))
}

/// etcd reads them with every connection. An authority without its key signs elsewhere, and kubeadm leaves its certificates as they are, too.
fn renew_etcd(machine: &Machine, config: &str) -> Result<(), OpError> {
    if !machine.path(KEY_OF_ETCD).is_file() {
        return Ok(());
    }
    of_etcd().try_for_each(|(name, _)| machine.run(&certificates_renewed::renew_by(name, machine, config)).map(drop))
}

/// Whether the API server has the minor version that it is upgraded to.
fn keeps_minor(machine: &Machine, upgrade: &KubeadmUpgrade) -> Result<bool, OpError> {
    let manifest = fsio::read_text(&machine.path(format!("{MANIFESTS}/{API_SERVER}.yaml")))?.unwrap_or_default();
    let image = manifest.lines().find_map(|line| line.trim().trim_start_matches("- ").strip_prefix("image:"));
    let tag = image.and_then(|image| depot::split_reference(image.trim()).1);
    let read = |text: &str| text.parse::<KubernetesVersion>().ok();
    let versions = tag.and_then(read).zip(read(&upgrade.version));
    Ok(versions.is_some_and(|(now, wanted)| now.minor() == wanted.minor()))
}

/// kubeadm looks nothing up on the internet: the version is given, or is that of the cluster's config.
pub(crate) fn program(act: &KubeadmUpgrade) -> Program {
    let mut upgrade = Program::new("kubeadm").arg("upgrade").within(LIMIT_S);
    upgrade = match act.of {
        UpgradeOf::Cluster { .. } => upgrade.args(["apply", &act.version, "--yes"]),
        UpgradeOf::ControlPlane | UpgradeOf::Worker => upgrade.arg("node"),
    };
    if let Some(patches) = &act.patches {
        upgrade = upgrade.arg(format!("--patches={patches}"));
    }
    if !act.skip_phases.is_empty() {
        upgrade = upgrade.arg(format!("--skip-phases={}", act.skip_phases.join(",")));
    }
    match act.ignore.as_slice() {
        [] => upgrade,
        ignore => upgrade.arg(format!("--ignore-preflight-errors={}", ignore.join(","))),
    }
}

impl Perform for KubeadmUpgradeUndo {
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        let mark = Mark::of(machine, &self.version, self.settings)?;
        Ok(if mark.is_none() { Progress::Done } else { Progress::NotBegun })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        let Some(mark) = Mark::of(machine, &self.version, self.settings)? else { return Ok(()) };
        if let Some(act) = mark.still_running(machine)? {
            transient::stop(machine, &act)?;
        }
        for (path, text) in &mark.before {
            // As kubeadm and `kubeadm_files` write them.
            let mode = if OF_KUBELET.contains(&path.as_str()) { 0o644 } else { 0o600 };
            match text {
                Some(text) => machine.write_file(path, text.as_bytes(), Access::mode(mode))?,
                None => fsio::remove(&machine.path(path))?,
            }
        }
        fsio::remove(&machine.path(MARK))
    }
}

fn kubelet_files(machine: &Machine) -> Result<BTreeMap<String, Option<String>>, OpError> {
    let paths = OF_KUBELET.into_iter().flat_map(|path| [path.to_owned(), kubeadm_files::copy(path)]);
    let read = |path: String| fsio::read_text(&machine.path(&path)).map(|text| (path, text));
    paths.map(read).collect()
}

/// Makes kubeadm's config that of the cluster: `upgrade` takes the images' tags and kubelet's settings from there.
fn upload(machine: &Machine, config: &str) -> Result<(), OpError> {
    let upload = ["init", "phase", "upload-config", "all", "--config", config];
    machine.run(&Program::new("kubeadm").args(upload).within(120)).map(drop)
}

/// The ConfigMaps with the configuration of the cluster.
const CONFIG_MAPS: [&str; 2] = ["kubeadm-config", "kubelet-config"];
const NAMESPACE: &str = "kube-system";

/// The ConfigMaps as they are, without what the API server adds.
fn uploaded(machine: &Machine) -> Result<BTreeMap<String, Value>, OpError> {
    let get = |name: &str| -> Result<(String, Value), OpError> {
        let found = kube::get(machine, ["configmap", name, "--namespace", NAMESPACE])?;
        Ok((name.to_owned(), found["data"].clone()))
    };
    CONFIG_MAPS.into_iter().map(get).collect()
}

/// The cluster's configuration must be that of what runs: a node that joins, or a repair by kubeadm, reads it. Once a static pod has been
/// replaced it is the new one, which the next attempt completes.
fn put_back(
    machine: &Machine,
    images: &BTreeMap<String, String>,
    Mark { configs, replaces, .. }: &Mark,
    error: OpError,
) -> OpError {
    // An image that both versions have says nothing.
    let mut replaced = images.iter().filter(|(pod, _)| replaces.contains(*pod));
    let none_new = replaced.all(|(pod, image)| matches!(has_image(machine, pod, image), Ok(false)));
    if configs.is_empty() || !none_new {
        return error;
    }
    let replaced = configs.iter().try_for_each(|(name, data)| {
        let metadata = json!({"name": name, "namespace": NAMESPACE});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        machine.run(&kubectl(["replace", "--filename", "-"]).stdin(object.to_string())).map(drop)
    });
    let names = CONFIG_MAPS.join(" and ");
    OpError::other(match replaced {
        Ok(()) => format!("{}; {names} in the cluster are as before", error.full()),
        Err(other) => format!(
            "{}; {names} in the cluster are those of the new version, and could not be put back ({}): run the same command again",
            error.full(),
            other.full()
        ),
    })
}

/// The static pods whose manifests have other images.
fn missing_images(machine: &Machine, images: &BTreeMap<String, String>) -> Result<BTreeSet<String>, OpError> {
    let mut missing = BTreeSet::new();
    for (pod, image) in images {
        if !has_image(machine, pod, image)? {
            missing.insert(pod.clone());
        }
    }
    Ok(missing)
}

/// Whether the manifests of the static pods have these images.
fn has_images(machine: &Machine, images: &BTreeMap<String, String>) -> Result<bool, OpError> {
    for (pod, image) in images {
        if !has_image(machine, pod, image)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether every API server is upgraded and kube-proxy is not. kubeadm upgrades it with the last control plane of the old version; where that one
/// has died, and a new one has joined in its place, nothing of kubeadm's comes after it. What the cluster does not say is taken for done.
fn has_old_addons(machine: &Machine, upgrade: &KubeadmUpgrade) -> bool {
    let proxy =
        || kube::get(machine, ["daemonset", "kube-proxy", "--namespace", "kube-system", "--ignore-not-found"]).ok();
    let is_old = |image: String| {
        let tag = depot::split_reference(&image).1.and_then(|tag| tag.parse::<KubernetesVersion>().ok());
        tag.zip(upgrade.version.parse().ok()).is_some_and(|(proxy, version)| proxy < version)
    };
    all_servers_are_new(machine, upgrade)
        && proxy().and_then(|proxy| image_at(&proxy, "/spec/template/spec/containers/0/image")).is_some_and(is_old)
}

fn all_servers_are_new(machine: &Machine, upgrade: &KubeadmUpgrade) -> bool {
    let Some(wanted) = upgrade.images.get(API_SERVER) else { return false };
    let Ok(pods) = kube::get(machine, ["pods", "--namespace", "kube-system", "--selector", "tier=control-plane"])
    else {
        return false;
    };
    let pods = pods["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let servers = pods.iter().filter(|pod| {
        let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        name.strip_prefix(API_SERVER).is_some_and(|node| node.starts_with('-'))
    });
    let servers: Vec<_> = servers.map(|pod| image_at(pod, "/spec/containers/0/image")).collect();
    !servers.is_empty() && servers.iter().all(|image| image.as_ref() == Some(wanted))
}

fn image_at(object: &Value, path: &str) -> Option<String> {
    object.pointer(path).and_then(Value::as_str).map(str::to_owned)
}

fn has_image(machine: &Machine, pod: &str, image: &str) -> Result<bool, OpError> {
    let manifest = fsio::read_text(&machine.path(format!("{MANIFESTS}/{pod}.yaml")))?.unwrap_or_default();
    let line = |line: &str| line.trim().trim_start_matches("- ").strip_prefix("image:").map(str::trim) == Some(image);
    Ok(manifest.lines().any(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};

    impl ActCases for KubeadmUpgrade {
        const TESTED: Tested<ActCase<Self>> = Tested::In("kubeadm_upgrade.rs");
    }

    impl ActCases for KubeadmUpgradeUndo {
        const TESTED: Tested<ActCase<Self>> = Tested::In("kubeadm_upgrade.rs");
    }
}
