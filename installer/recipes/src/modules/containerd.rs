//! Container runtime: containerd 2.x with runc and the CNI plugins, looking for images nowhere but at the depot.

use std::collections::BTreeSet;

use kubexm_plan::op::{Dir, Unit};
use kubexm_plan::{Probe, SlotProvider, Step, Undo};
use kubexm_spec::{ClusterImage, Kind, Program};
use minijinja::context;
use serde_json::Value;

use crate::context::{Node, PlanCx};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::{depot, programs};
use crate::paths;

const UNIT: &str = "containerd.service";
/// What containerd takes for an upstream host without a folder of its own.
const DEFAULT: &str = "_default";

/// Programs, where images come from, and the running service.
pub fn steps(draft: &mut Draft<'_>, node: &Node<'_>) -> Result<Vec<Step>, RecipeError> {
    Ok(vec![programs(draft.cx, node)?, mirrors(draft, node)?, run(draft, node)?])
}

fn programs(cx: &PlanCx<'_>, node: &Node<'_>) -> Result<Step, RecipeError> {
    let containerd = cx.program(Program::Containerd, node.platform)?;
    if !containerd.version.starts_with("2.") {
        return Err(RecipeError::NotBuiltYet {
            what: format!("containerd {} (its config has another shape than 2.x's)", containerd.version),
            hint: "leave out `spec.runtime.version`, or name a 2.x, and build the bundle again".to_owned(),
        });
    }
    Ok(Step::on(node.name(), "runtime.programs", "Install containerd, runc and the CNI plugins")
        .ensure(programs::place(cx, node, Program::Containerd, paths::BIN)?)
        .ensure(programs::place(cx, node, Program::Runc, paths::BIN)?)
        .ensure(Dir { path: paths::CNI_BIN.to_owned(), mode: 0o755 })
        .ensure(programs::place(cx, node, Program::CniPlugins, paths::CNI_BIN)?)
        .timeout_s(300)
        .undo(Undo::RestoreBefore)
        .build())
}

/// The hosts that the bundle's images come from upstream.
pub fn upstream_hosts(cx: &PlanCx<'_>) -> BTreeSet<String> {
    let images = cx.manifest.artifacts.iter().filter(|a| a.key.kind() == Kind::Image);
    images.filter_map(|a| a.name.split_once('/')).map(|(host, _)| host.to_owned()).collect()
}

/// One `hosts.toml` for each upstream host. `server` is the depot itself, so nothing falls back to the internet;
/// a host that is not in the bundle ends at the depot too, which says that it has no such image.
fn mirrors(draft: &mut Draft<'_>, node: &Node<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let mut step = Step::on(node.name(), "runtime.mirrors", "Point containerd at the cluster's registry")
        .ensure(Dir { path: "/etc/kubexm".to_owned(), mode: 0o755 })
        .ensure(draft.slot_file(paths::REGISTRY_CA, 0o644, depot::CA_SLOT, SlotProvider::RegistryCa))
        .ensure(Dir { path: "/etc/containerd".to_owned(), mode: 0o755 })
        .ensure(Dir { path: paths::CERTS_D.to_owned(), mode: 0o755 });
    let folders = upstream_hosts(cx).into_iter().map(|host| (format!("/v2/{host}"), host));
    for (path, folder) in folders.chain([("/v2".to_owned(), DEFAULT.to_owned())]) {
        let directory = format!("{}/{folder}", paths::CERTS_D);
        let values = context! { registry => cx.registry_address(), path, ca => paths::REGISTRY_CA };
        step = step.ensure(Dir { path: directory.clone(), mode: 0o755 }).ensure(draft.template(
            format!("{directory}/hosts.toml"),
            "hosts.toml",
            values,
        )?);
    }
    Ok(step.undo(Undo::RestoreBefore).build())
}

fn run(draft: &mut Draft<'_>, node: &Node<'_>) -> Result<Step, RecipeError> {
    let cx = draft.cx;
    let pause = &cx.image(ClusterImage::Pause, node.platform)?.name;
    let systemd_cgroup = cgroup_driver(cx)? == "systemd";
    let values = context! { pause, systemd_cgroup, certs_d => paths::CERTS_D };
    let config = draft.template(paths::CONTAINERD_CONFIG, "containerd.toml", values)?;
    let unit = draft.template(paths::unit(UNIT), "containerd.service", context! { bin => paths::BIN })?;
    let loaded = vec![paths::CONTAINERD_CONFIG.to_owned(), paths::unit(UNIT), paths::bin("containerd")];
    Ok(Step::on(node.name(), "runtime.run", "Configure and start containerd")
        .ensure(config)
        .ensure(unit)
        .ensure(Dir { path: paths::CNI_CONF.to_owned(), mode: 0o755 })
        .ensure(Unit { name: UNIT.to_owned(), enabled: true, running: Some(true), loaded })
        .probe(Probe::CriReady { config_dump: config_dump(pause, systemd_cgroup) }, 60)
        .timeout_s(180)
        .undo(Undo::RestoreBefore)
        .build())
}

/// containerd ignores keys that it does not know: what counts is what `containerd config dump` shows. It writes
/// literal strings in single quotes.
fn config_dump(pause: &str, systemd_cgroup: bool) -> Vec<String> {
    vec![
        format!("sandbox = '{pause}'"),
        format!("config_path = '{}'", paths::CERTS_D),
        format!("SystemdCgroup = {systemd_cgroup}"),
    ]
}

/// kubelet's and the runtime's driver must be the same; the user's own KubeletConfiguration decides.
pub fn cgroup_driver<'a>(cx: &PlanCx<'a>) -> Result<&'a str, RecipeError> {
    Ok(cx.kubernetes()?.kubelet.get("cgroupDriver").and_then(Value::as_str).unwrap_or("systemd"))
}
