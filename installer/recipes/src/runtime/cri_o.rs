//! CRI-O with its own crun or runc and conmon, from upstream's archive; it pulls images only from the cluster's
//! registry (`crio.conf.d(5)`, `containers-registries.conf.d(5)`). Planned only: not yet tested on a real host.

use kubexm_plan::op::{Dir, StateDir, Unit};
use kubexm_plan::{Op, Probe, SlotProvider, Step, Undo, state_folders};
use kubexm_spec::cluster::{RegistryKind, RuntimeKind};
use kubexm_spec::{ClusterImage, Program};
use minijinja::context;

use super::of_cluster::{cgroup_driver, of, upstream_hosts};
use super::steps::RuntimeSteps;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::{depot, programs};
use crate::templates::template;
use crate::{network, paths, registries, selinux};

/// Its archive contains a runc and a crictl, which must not replace those of the bundle.
const PROGRAMS: &str = "/usr/local/lib/cri-o";
/// kubexm's drop-ins, read after those of CRI-O.
const CONFIG: &str = "/etc/crio/crio.conf.d/90-kubexm.conf";
const REGISTRIES: &str = "/etc/containers/registries.conf.d/90-kubexm.conf";
/// Signature policy; without this file CRI-O pulls nothing (`containers-policy.json(5)`).
const POLICY: &str = "/etc/containers/policy.json";

pub(super) fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<RuntimeSteps, RecipeError> {
    let (programs, mirrors) = (programs(draft.cx, node)?, mirrors(draft, node)?);
    Ok(RuntimeSteps { programs, mirrors, run: run(draft, node)? })
}

fn programs(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    Ok(Step::on(node.name(), "runtime.programs", "Install CRI-O and the CNI plugins")
        .ensure(Dir { path: PROGRAMS.to_owned(), mode: 0o755 })
        .ensure(programs::install(cx, node, Program::CriO, PROGRAMS)?)
        .ensure_all(state_folders::of_cni(&network::all_of(cx.cluster)?).into_iter().map(StateDir::at))
        .ensure(Dir { path: paths::CNI_BIN.to_owned(), mode: 0o755 })
        .ensure(programs::install(cx, node, Program::CniPlugins, paths::CNI_BIN)?)
        .timeout_s(300)
        .undo(Undo::RestoreBefore)
        .build())
}

/// Each upstream host is a folder of the cluster's registry. The format has no default entry, so CRI-O would contact a
/// host that is not in the bundle directly; preflight and the final check prevent that by comparing the images with the
/// bundle.
fn mirrors(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    if cx.cluster.registry.kind == RegistryKind::None {
        return Err(RecipeError::Unsupported {
            what: "spec.runtime.type cri-o without a registry".to_owned(),
            hint: "name a registry in spec.registry.type".to_owned(),
        });
    }
    let kind = cx.cluster.registry.kind;
    if matches!(kind, RegistryKind::External | RegistryKind::Harbor) {
        return Err(RecipeError::Unsupported {
            what: format!("spec.runtime.type cri-o with spec.registry.type {kind}"),
            hint: "use containerd, or another registry".to_owned(),
        });
    }
    if cx.cluster.depot_login().is_some() {
        return Err(RecipeError::Unsupported {
            what: "spec.runtime.type cri-o with a registry that demands a login".to_owned(),
            hint: "leave out `spec.registry.auths`, or use containerd".to_owned(),
        });
    }
    let mirrors: Vec<_> = upstream_hosts(cx)
        .into_iter()
        .map(|host| context! { folder => registries::folder(cx, &host), host => host })
        .collect();
    let registries = registries::pulled_from(cx, node)?;
    let values = context! { registries => &registries, mirrors };
    let mut trusted = Vec::new();
    for registry in &registries {
        let folder = format!("/etc/containers/certs.d/{registry}");
        let ca = draft.slot_file(&format!("{folder}/ca.crt"), 0o644, depot::CA_SLOT, SlotProvider::REGISTRY_CA);
        trusted.extend([Op::from(Dir { path: folder, mode: 0o755 }), Op::from(ca)]);
    }
    Ok(Step::on(node.name(), "runtime.mirrors", "Point CRI-O at the cluster's registry")
        .ensure(Dir { path: "/etc/containers".to_owned(), mode: 0o755 })
        .ensure(Dir { path: of(cx.cluster).registries.to_owned(), mode: 0o755 })
        .ensure(Dir { path: "/etc/containers/certs.d".to_owned(), mode: 0o755 })
        .ensure_all(trusted)
        .ensure(draft.template(REGISTRIES, template!("cri-o-registries.conf"), values)?)
        .ensure(draft.template(POLICY, template!("cri-o-policy.json"), context! {})?)
        .undo(Undo::RestoreBefore)
        .build())
}

fn run(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let runtime = of(cx.cluster);
    let pause = &cx.image(ClusterImage::Pause, node.platform)?.name;
    let driver = cgroup_driver(cx)?;
    let selinux = selinux::confines(draft.cx.cluster);
    let values =
        context! { pause, driver, cni_bin => paths::CNI_BIN, cni_conf => paths::CNI_CONF, bin => PROGRAMS, selinux };
    let config = draft.template(CONFIG, template!("cri-o.conf"), values)?;
    let unit = draft.template(paths::unit(runtime.unit), template!("crio.service"), context! { bin => PROGRAMS })?;
    let loaded = vec![CONFIG.to_owned(), REGISTRIES.to_owned(), paths::unit(runtime.unit), format!("{PROGRAMS}/crio")];
    // CRI-O prints values in TOML syntax.
    let config_dump = vec![format!("pause_image = \"{pause}\""), format!("cgroup_manager = \"{driver}\"")];
    Ok(Step::on(node.name(), "runtime.run", "Configure and start CRI-O")
        .ensure(Dir { path: "/etc/crio".to_owned(), mode: 0o755 })
        .ensure(Dir { path: "/etc/crio/crio.conf.d".to_owned(), mode: 0o755 })
        .ensure(config)
        .ensure(unit)
        .ensure(Dir { path: paths::CNI_CONF.to_owned(), mode: 0o755 })
        .ensure_all(runtime.state.iter().copied().map(StateDir::at))
        .ensure(Unit {
            name: runtime.unit.to_owned(),
            enabled: true,
            running: Some(true),
            loaded,
            reloaded: Vec::new(),
        })
        .probe(Probe::CriReady { runtime: RuntimeKind::CriO, config_dump }, 60)
        .timeout_s(180)
        .undo(Undo::RestoreBefore)
        .build())
}
