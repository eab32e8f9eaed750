//! Kubernetes' programs and tools on a node, and the kubelet's unit.

use kubexm_plan::op::{Dir, File, Op, Unit};
use kubexm_plan::{Step, Undo};
use kubexm_spec::Program;
use minijinja::context;

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::modules::programs;
use crate::network;
use crate::paths;
use crate::runtime;
use crate::templates::template;

const UNIT: &str = "kubelet.service";

/// Programs, and the kubelet's unit.
pub fn steps(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Vec<Step>, RecipeError> {
    Ok(vec![programs(draft.cx, node)?, kubelet(draft, node)?])
}

/// helm, which installs charts; no step if there is none, and `spec.bundle.exclude` leaves it out.
pub fn helm(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Option<Step>, RecipeError> {
    if !programs::wanted(draft.cx, node, Program::Helm)? {
        return Ok(None);
    }
    install(draft, node, Program::Helm, "Install helm").map(Some)
}

/// Tools for administrators; no other step needs them.
pub fn tools(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Vec<Step>, RecipeError> {
    let mut steps = Vec::new();
    let of_network = network::of(draft.cx.cluster).tool.map(|tool| (tool, format!("Install {}", tool.name())));
    let all = TOOLS.into_iter().map(|(tool, title)| (tool, title.to_owned()));
    for (tool, title) in all.chain(of_network) {
        if programs::wanted(draft.cx, node, tool)? {
            steps.push(install(draft, node, tool, &title)?);
        }
    }
    Ok(steps)
}

/// etcd itself runs as a static pod; snapshots need `etcdctl`, and `etcdutl` is the one that restores them (3.6).
const TOOLS: [(Program, &str); 2] =
    [(Program::Etcd, "Install etcdctl and etcdutl"), (Program::Crictl, "Install crictl")];

fn programs(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let mut step = Step::on(node.name(), "kubernetes.programs", "Install kubeadm, kubelet and kubectl");
    for program in [Program::Kubeadm, Program::Kubelet, Program::Kubectl] {
        step = step.ensure(programs::install(cx, node, program, paths::BIN)?);
    }
    Ok(step.undo(Undo::RestoreBefore).build())
}

/// kubeadm alone, before it upgrades what it has made: kubelet must not be newer than the API server.
pub fn kubeadm(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    Ok(Step::on(node.name(), "upgrade.kubeadm", "Install the new kubeadm")
        .ensure(programs::install(cx, node, Program::Kubeadm, paths::BIN)?)
        .undo(Undo::RestoreBefore)
        .build())
}

/// The kubelet's configuration, which kubeadm writes.
const KUBELET_CONFIG: &str = "/var/lib/kubelet/config.yaml";

/// kubelet and kubectl, once kubeadm has upgraded the node, with a kubelet that runs with them.
pub fn kubelet_upgraded(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let (unit, dropin) = unit_files(draft)?;
    let loaded = vec![paths::bin("kubelet"), unit.path.clone(), dropin.path.clone(), KUBELET_CONFIG.to_owned()];
    Ok(Step::on(node.name(), "upgrade.kubelet", "Install the new kubelet and kubectl, and restart kubelet")
        .ensure(programs::install(draft.cx, node, Program::Kubelet, paths::BIN)?)
        .ensure(programs::install(draft.cx, node, Program::Kubectl, paths::BIN)?)
        .ensure(unit)
        .ensure(Dir { path: format!("{}.d", paths::unit(UNIT)), mode: 0o755 })
        .ensure(dropin)
        .ensure(Unit { name: UNIT.to_owned(), enabled: true, running: Some(true), loaded, reloaded: Vec::new() })
        .undo(Undo::RestoreBefore)
        .build())
}

/// The same on a node that was adopted: its unit stays as it is, and kubectl is replaced only where it is as kubexm has it.
pub fn kubelet_of_adopted(cx: &PlanContext<'_>, node: &PlannedHost<'_>, kubectl: bool) -> Result<Step, RecipeError> {
    let loaded = vec![paths::bin("kubelet"), KUBELET_CONFIG.to_owned()];
    let (kubectl, title) = match kubectl {
        true => (
            Some(programs::install(cx, node, Program::Kubectl, paths::BIN)?),
            "Install the new kubelet and kubectl, and restart kubelet",
        ),
        false => (None, "Install the new kubelet, and restart it"),
    };
    Ok(Step::on(node.name(), "upgrade.kubelet", title)
        .ensure(programs::install(cx, node, Program::Kubelet, paths::BIN)?)
        .ensure_all(kubectl)
        .ensure(Unit { name: UNIT.to_owned(), enabled: true, running: Some(true), loaded, reloaded: Vec::new() })
        .undo(Undo::RestoreBefore)
        .build())
}

/// Those of etcd's tools, by name, that an adopted host has not: they take the snapshot.
pub fn etcd_tools(cx: &PlanContext<'_>, node: &PlannedHost<'_>, names: &[&str]) -> Result<Step, RecipeError> {
    let mut op = programs::install(cx, node, Program::Etcd, paths::BIN)?;
    if let Op::Unpacked(archive) = &mut op {
        archive.members.retain(|_, path| names.iter().any(|name| *path == paths::bin(name)));
    }
    Ok(Step::on(node.name(), "upgrade.etcd-tools", &format!("Install {}", names.join(" and ")))
        .ensure(op)
        .undo(Undo::RestoreBefore)
        .build())
}

fn install(draft: &mut Draft<'_>, node: &PlannedHost<'_>, tool: Program, title: &str) -> Result<Step, RecipeError> {
    let mut step = Step::on(node.name(), &format!("kubernetes.{}", tool.name()), title).ensure(programs::install(
        draft.cx,
        node,
        tool,
        paths::BIN,
    )?);
    if tool == Program::Crictl {
        let values = context! { socket => runtime::of(draft.cx.cluster).endpoint };
        step = step.ensure(draft.template(paths::CRICTL_CONFIG, template!("crictl.yaml"), values)?);
    }
    Ok(step.undo(Undo::RestoreBefore).build())
}

/// Enabled but not started: kubeadm starts it after writing its config.
fn kubelet(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Step, RecipeError> {
    let (unit, dropin) = unit_files(draft)?;
    Ok(Step::on(node.name(), "kubernetes.kubelet", "Set up the kubelet's unit")
        .ensure(unit)
        .ensure(Dir { path: format!("{}.d", paths::unit(UNIT)), mode: 0o755 })
        .ensure(dropin)
        .ensure(Unit { name: UNIT.to_owned(), enabled: true, running: None, loaded: Vec::new(), reloaded: Vec::new() })
        .undo(Undo::RestoreBefore)
        .build())
}

fn unit_files(draft: &mut Draft<'_>) -> Result<(File, File), RecipeError> {
    let values = context! { bin => paths::BIN, runtime => runtime::of(draft.cx.cluster).unit };
    let unit = draft.template(paths::unit(UNIT), template!("kubelet.service"), values)?;
    let dropin =
        draft.template(paths::KUBELET_DROPIN, template!("kubelet-kubeadm.conf"), context! { bin => paths::BIN })?;
    Ok((unit, dropin))
}
