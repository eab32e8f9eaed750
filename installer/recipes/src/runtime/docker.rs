//! Docker's static build with cri-dockerd. The engine starts the containerd and runc of its own archive, and changes nothing of the
//! host's network: pods have that of the CNI. Every image is loaded from the node's content store
//! ([decision 0091](../../../../docs/decisions/0091-docker-loads-every-image-from-the-store.md)).

use kubexm_plan::op::{Dir, StateDir, Unit};
use kubexm_plan::runtime::docker;
use kubexm_plan::{Op, Probe, SlotProvider, Step, Undo};
use kubexm_spec::cluster::{RegistryKind, RuntimeKind};
use kubexm_spec::{ClusterImage, Program, Version};
use minijinja::context;
use serde_json::json;

use super::loaded::{self, NOWHERE};
use super::of_cluster::{cgroup_driver, of};
use super::steps::{RuntimeSteps, with_cni};
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::image_registry::ImageRegistry;
use crate::modules::{depot, programs};
use crate::templates::template;
use crate::{paths, selinux};

/// The first version that was run, and the first one with another store of images than the one that is configured here.
const FIRST: (u64, u64) = (20, 10);
const TOO_NEW: (u64, u64) = (29, 0);
/// A file of a container's output; kubelet would rotate it at 10 MiB, which docker does not let it.
const LOG_SIZE: &str = "8m";
const LOG_FILES: &str = "5";

/// Fails if the configuration that is written is not that of this version.
pub fn check_version(version: &str) -> Result<(), RecipeError> {
    let mut numbers = Version::of(version).numbers();
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (FIRST..TOO_NEW).contains(&(major, minor)) => Ok(()),
        _ => Err(RecipeError::Unsupported {
            what: format!(
                "docker {version} (its images are stored in another way than those of {}.{} to 28)",
                FIRST.0, FIRST.1
            ),
            hint: "leave out `spec.runtime.version`, or name a 24.0, and build the bundle again".to_owned(),
        }),
    }
}

pub(super) fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<RuntimeSteps, RecipeError> {
    check_version(&draft.cx.program(Program::Docker, node.platform)?.version)?;
    loaded::check(draft.cx, node)?;
    let (programs, mirrors) = (programs(draft.cx, node)?, mirrors(draft, node)?);
    Ok(RuntimeSteps { programs, mirrors, run: run(draft, node)?, reload: None })
}

fn folder(cx: &PlanContext<'_>) -> &'static str {
    of(cx.cluster).programs.unwrap_or(paths::BIN)
}

fn programs(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let folder = folder(cx);
    let cri = docker::CRI_PROGRAM.rsplit_once('/').map_or(paths::BIN, |(folder, _)| folder);
    let step = Step::on(node.name(), "runtime.programs", "Install docker, cri-dockerd and the CNI plugins")
        .ensure(Dir { path: folder.to_owned(), mode: 0o755 })
        .ensure(programs::install(cx, node, Program::Docker, folder)?)
        .ensure(Dir { path: cri.to_owned(), mode: 0o755 })
        .ensure(programs::install(cx, node, Program::CriDockerd, cri)?);
    with_cni(step, cx, node)
}

/// Docker asks mirrors for docker.io's images only, and at no path of theirs. What can be configured is a CA: then images of the
/// cluster's registry can be pulled by the registry's own name.
fn mirrors(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let [config_dir, _] = docker::FOLDERS;
    let config = Dir { path: config_dir.to_owned(), mode: 0o755 };
    if cx.cluster.registry.kind == RegistryKind::None {
        return Ok(Step::on(node.name(), "runtime.mirrors", "Make docker's folder of configuration")
            .ensure(StateDir::at(config_dir))
            .ensure(config)
            .undo(Undo::RestoreBefore)
            .build());
    }
    let registry = ImageRegistry::of(cx, node)?;
    let ca = draft.slot_file(paths::REGISTRY_CA, 0o644, depot::CA_SLOT, SlotProvider::REGISTRY_CA);
    let certs = of(cx.cluster).registries;
    let mut trusted = Vec::new();
    for address in &registry.addresses {
        let folder = format!("{certs}/{address}");
        let file = draft.slot_file(&format!("{folder}/ca.crt"), 0o644, depot::CA_SLOT, SlotProvider::REGISTRY_CA);
        trusted.extend([Op::from(Dir { path: folder, mode: 0o755 }), Op::from(file)]);
    }
    Ok(Step::on(node.name(), "runtime.mirrors", "Let docker trust the cluster's registry")
        .ensure(ca)
        // The engine writes there, too: before anything of it is there.
        .ensure(StateDir::at(config_dir))
        .ensure(config)
        .ensure(Dir { path: certs.to_owned(), mode: 0o755 })
        .ensure_all(trusted)
        .undo(Undo::RestoreBefore)
        .build())
}

/// The names of the registry that docker may ask, without their ports.
fn registries(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<String, RecipeError> {
    if cx.cluster.registry.kind == RegistryKind::None {
        return Ok(String::new());
    }
    let addresses = ImageRegistry::of(cx, node)?.addresses;
    let host = |address: &String| address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).to_owned();
    let mut hosts: Vec<String> = addresses.iter().map(host).collect();
    hosts.dedup();
    Ok(hosts.join(","))
}

/// No rule of iptables, so neither FORWARD's policy nor anybody's chains, and no bridge: that is the business of the pod network.
/// Containers go on while the engine is restarted.
fn config(cx: &PlanContext<'_>) -> Result<serde_json::Value, RecipeError> {
    let mut config = json!({
        "hosts": [format!("unix://{}", docker::SOCKET)],
        // Who may use the socket is root of this host.
        "group": "root",
        "data-root": cx.cluster.runtime.kind.data_dir(),
        "exec-root": docker::EXEC_ROOT,
        "pidfile": format!("{}/docker.pid", docker::EXEC_ROOT),
        "exec-opts": [format!("native.cgroupdriver={}", cgroup_driver(cx)?)],
        "storage-driver": "overlay2",
        "log-driver": "json-file",
        "log-opts": {"max-size": LOG_SIZE, "max-file": LOG_FILES},
        "live-restore": true,
        "bridge": "none",
        "iptables": false,
        "ip6tables": false,
        "ip-forward": false,
        "ip-masq": false,
        "userland-proxy": false,
    });
    if selinux::confines(cx.cluster) {
        config["selinux-enabled"] = true.into();
    }
    Ok(config)
}

fn run(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let (runtime, bin) = (of(cx.cluster), folder(cx));
    let config = config(cx)?;
    let text = |key: &str| config[key].as_str().unwrap_or_default().to_owned();
    // As docker says them of itself.
    let config_dump = vec![
        format!("Driver={}", text("storage-driver")),
        format!("CgroupDriver={}", cgroup_driver(cx)?),
        format!("DockerRootDir={}", text("data-root")),
        format!("LoggingDriver={}", text("log-driver")),
        "LiveRestoreEnabled=true".to_owned(),
        format!("HttpsProxy={NOWHERE}"),
    ];
    let fault = |error: serde_json::Error| RecipeError::Document { name: "daemon.json", reason: error.to_string() };
    let file = draft.file(runtime.config, 0o644, serde_json::to_string_pretty(&config).map_err(fault)? + "\n");
    let engine = draft.template(
        paths::unit(runtime.unit),
        template!("docker.service"),
        context! { bin, config => runtime.config, nowhere => NOWHERE, registries => registries(cx, node)? },
    )?;
    let values = context! {
        program => docker::CRI_PROGRAM,
        endpoint => runtime.endpoint,
        docker => docker::SOCKET,
        pause => &cx.image(ClusterImage::Pause, node.platform)?.name,
        cni_bin => paths::CNI_BIN,
        cni_conf => paths::CNI_CONF,
    };
    let cri = draft.template(paths::unit(docker::CRI_UNIT), template!("cri-docker.service"), values)?;
    let unit = |name: &str, loaded: Vec<String>| Unit {
        name: name.to_owned(),
        enabled: true,
        running: Some(true),
        loaded,
        reloaded: Vec::new(),
    };
    let of_engine = vec![runtime.config.to_owned(), paths::unit(runtime.unit), runtime.program(docker::DAEMON)];
    let of_cri = vec![paths::unit(docker::CRI_UNIT), docker::CRI_PROGRAM.to_owned()];
    Ok(Step::on(node.name(), "runtime.run", "Configure and start docker and cri-dockerd")
        .ensure(file)
        .ensure(engine)
        .ensure(cri)
        .ensure(Dir { path: paths::CNI_CONF.to_owned(), mode: 0o755 })
        .ensure_all(docker::WRITTEN.map(StateDir::at))
        .ensure_all(runtime.state.iter().copied().filter(|path| *path != docker::FOLDERS[0]).map(StateDir::at))
        .ensure(unit(runtime.unit, of_engine))
        .ensure(unit(docker::CRI_UNIT, of_cri))
        .probe(Probe::CriReady { runtime: RuntimeKind::Docker, config_dump }, 60)
        .timeout_s(180)
        .undo(Undo::RestoreBefore)
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_with_another_store_of_images_is_refused() {
        for good in ["20.10.24", "24.0.9", "28.5.2"] {
            assert!(check_version(good).is_ok(), "{good}");
        }
        for bad in ["19.03.15", "29.0.0", "29"] {
            let error = check_version(bad).map_err(|error| error.to_string());
            assert!(error.is_err_and(|error| error.contains(&format!("docker {bad} "))), "{bad}");
        }
    }
}
