//! isulad of openEuler's packages: the host gets it with the packages of its system, and this configures and starts it. Containers are
//! started by the bundle's runc. Every image is loaded from the node's content store, since its mirrors are for names without a host
//! ([decision 0120](../../../../docs/decisions/0120-isulad-loads-every-image-and-is-a-package-of-the-system.md)).

use kubexm_manifests::error::OldRuntimePackage;
use kubexm_manifests::packaged_runtime;
use kubexm_plan::op::{Dir, StateDir, Unit};
use kubexm_plan::runtime::isulad;
use kubexm_plan::{Probe, SlotProvider, Step, Undo};
use kubexm_spec::cluster::{RegistryKind, RuntimeKind};
use kubexm_spec::{ClusterImage, Program};
use minijinja::context;
use serde_json::json;

use super::loaded::{self, NOWHERE};
use super::of_cluster::{cgroup_driver, of};
use super::steps::{RuntimeSteps, with_cni};
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::{depot, programs};
use crate::paths;
use crate::templates::template;

/// The first release whose control groups systemd can keep.
const FIRST_SYSTEMD: &str = "2.1.6";

/// A package in the bundle whose isulad cannot be configured for this cluster.
pub(super) fn too_old(cx: &PlanContext<'_>) -> Option<RecipeError> {
    let all = cx.manifest.artifacts.iter().map(|artifact| (&artifact.key, artifact.version.as_str()));
    let old = packaged_runtime::too_old(cx.cluster, all)?;
    let OldRuntimePackage { runtime, package, version, os, what, first, instead } = old;
    Some(RecipeError::Unsupported {
        what: format!("spec.runtime.type {runtime} with {package} {version} of {os} ({what} comes with {first})"),
        hint: format!("{instead}, and build the bundle again"),
    })
}

pub(super) fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<RuntimeSteps, RecipeError> {
    if let Some(error) = too_old(draft.cx) {
        return Err(error);
    }
    loaded::check(draft.cx, node)?;
    let (programs, mirrors) = (programs(draft.cx, node)?, mirrors(draft, node));
    Ok(RuntimeSteps { programs, mirrors, run: run(draft, node)?, reload: None })
}

fn folder(cx: &PlanContext<'_>) -> &'static str {
    of(cx.cluster).programs.unwrap_or(paths::BIN)
}

fn programs(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let folder = folder(cx);
    let step = Step::on(node.name(), "runtime.programs", "Install runc and crictl for isulad, and the CNI plugins")
        .ensure(Dir { path: folder.to_owned(), mode: 0o755 })
        .ensure(programs::install(cx, node, Program::Runc, folder)?)
        .ensure(programs::install(cx, node, Program::Crictl, folder)?);
    with_cni(step, cx, node)
}

/// It has no mirror, and not the CA of the cluster's registry: isulad fails every pull from a registry of which it has a CA and no client
/// certificate. The CA is for people of the host.
fn mirrors(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Step {
    let config = of(draft.cx.cluster).config.rsplit_once('/').map_or("/", |(folder, _)| folder);
    let step = Step::on(node.name(), "runtime.mirrors", "Let isulad pull from no registry");
    let step = match draft.cx.cluster.registry.kind {
        RegistryKind::None => step,
        _ => step.ensure(draft.slot_file(paths::REGISTRY_CA, 0o644, depot::CA_SLOT, SlotProvider::REGISTRY_CA)),
    };
    // As the package makes it.
    step.ensure(Dir { path: config.to_owned(), mode: 0o750 }).undo(Undo::RestoreBefore).build()
}

/// Of the package's own configuration nothing is kept. `runtimes` has the bundle's runc under a name of kubexm's: the supervisor of a
/// container has its path among its arguments, by which those of the cluster are known.
fn config(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<serde_json::Value, RecipeError> {
    let runtime = of(cx.cluster);
    let mut config = json!({
        "hosts": [runtime.endpoint],
        // Who may use the socket is root of this host.
        "group": "root",
        "graph": cx.cluster.runtime.kind.data_dir(),
        "state": isulad::STATE,
        "pidfile": isulad::WRITTEN[0],
        "log-level": "WARN",
        "log-driver": "stdout",
        "container-log": {"driver": "json-file"},
        "default-runtime": isulad::RUNTIME,
        "runtimes": {isulad::RUNTIME: {"path": isulad::RUNC, "runtime-args": []}},
        "storage-driver": "overlay2",
        "storage-opts": ["overlay2.override_kernel_check=true"],
        "registry-mirrors": [],
        "insecure-registries": [],
        "pod-sandbox-image": &cx.image(ClusterImage::Pause, node.platform)?.name,
        "native.umask": "normal",
        "network-plugin": "cni",
        "cni-bin-dir": paths::CNI_BIN,
        "cni-conf-dir": paths::CNI_CONF,
        "enable-cri-v1": true,
    });
    // Older releases do not know the key, and have the other driver alone.
    if cgroup_driver(cx)? == "systemd" {
        config["systemd-cgroup"] = true.into();
    }
    Ok(config)
}

fn run(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let runtime = of(cx.cluster);
    let config = config(cx, node)?;
    let text = |key: &str| config[key].as_str().unwrap_or_default().to_owned();
    // As isulad says them of itself.
    let mut config_dump = vec![
        format!("Storage Driver: {}", text("storage-driver")),
        format!("iSulad Root Dir: {}", text("graph")),
        format!("Https Proxy: {NOWHERE}"),
    ];
    if cgroup_driver(cx)? == "systemd" {
        config_dump.push(format!("Server Version: >= {FIRST_SYSTEMD}"));
    }
    let fault = |error: serde_json::Error| RecipeError::Document { name: "daemon.json", reason: error.to_string() };
    let file = draft.file(runtime.config, 0o640, serde_json::to_string_pretty(&config).map_err(fault)? + "\n");
    let values = context! { daemon => isulad::DAEMON, nowhere => NOWHERE };
    let unit_file = draft.template(paths::unit(runtime.unit), template!("isulad.service"), values)?;
    let unit = Unit {
        name: runtime.unit.to_owned(),
        enabled: true,
        running: Some(true),
        loaded: vec![runtime.config.to_owned(), paths::unit(runtime.unit)],
        reloaded: Vec::new(),
    };
    Ok(Step::on(node.name(), "runtime.run", "Configure and start isulad")
        .ensure(file)
        .ensure(unit_file)
        .ensure(Dir { path: paths::CNI_CONF.to_owned(), mode: 0o755 })
        .ensure_all(isulad::WRITTEN.map(StateDir::at))
        .ensure_all(runtime.state.iter().copied().map(StateDir::at))
        .ensure(unit)
        .probe(Probe::CriReady { runtime: RuntimeKind::Isulad, config_dump }, 60)
        .timeout_s(180)
        .undo(Undo::RestoreBefore)
        .build())
}
