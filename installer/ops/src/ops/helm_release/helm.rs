//! helm's command lines. It has a home of its own and no plugins, and is given values on its standard input: they are neither
//! arguments, which every user of the host can see, nor a file that could be left behind.

use kubexm_plan::op::HelmRelease;
use kubexm_spec::Digest;
use serde_json::{Map, Value};

use crate::system::Program;
use crate::{Machine, paths};

/// Label of a revision's Secret: the blob that it was installed from. helm copies it when it rolls back.
pub(super) const LABEL: &str = "kubexm.io/chart";
/// Gone with the next boot.
const HOME: &str = "/run/kubexm/helm";
/// Revisions that are kept, so that one before can be restored.
const HISTORY: &str = "5";
/// The longest value of a label.
const LABEL_LENGTH: usize = 63;

/// A digest as the value of a label, which is one character too short for it.
pub(super) fn label(chart: &Digest) -> String {
    chart.hex().chars().take(LABEL_LENGTH).collect()
}

fn helm<S: Into<String>>(args: impl IntoIterator<Item = S>, op: &HelmRelease) -> Program {
    Program::new("helm")
        .args(args)
        .args(["--namespace", &op.namespace, "--kubeconfig", paths::ADMIN_CONF])
        .env("HOME", HOME)
        .env("HELM_CACHE_HOME", format!("{HOME}/cache"))
        .env("HELM_CONFIG_HOME", format!("{HOME}/config"))
        .env("HELM_DATA_HOME", format!("{HOME}/data"))
        .env("HELM_PLUGINS", format!("{HOME}/none"))
        .env("HELM_NO_PLUGINS", "1")
        .env("HELM_DRIVER", "secret")
        .within(4 * op.wait_s + 60)
}

fn waiting(program: Program, op: &HelmRelease) -> Program {
    program.args(["--wait", "--timeout"]).arg(format!("{}s", op.wait_s))
}

fn with_values(program: Program, values: &Map<String, Value>) -> Program {
    program.args(["--values", "-"]).stdin(Value::Object(values.clone()).to_string())
}

fn chart(machine: &Machine, op: &HelmRelease) -> String {
    machine.blob(&op.chart).display().to_string()
}

/// Installs or upgrades. Without `--reset-values` helm would use the values of the last revision if there are none now.
pub(super) fn upgrade(machine: &Machine, op: &HelmRelease, values: &Map<String, Value>) -> Program {
    let args = ["upgrade", &op.name, &chart(machine, op), "--install", "--create-namespace", "--reset-values"];
    let program =
        helm(args, op).args(["--history-max", HISTORY, "--labels"]).arg(format!("{LABEL}={}", label(&op.chart)));
    with_values(waiting(program.arg("--wait-for-jobs"), op), values)
}

/// What a chart is rendered with, beside its values.
#[derive(Clone, Copy)]
pub(super) struct Rendering<'r> {
    pub upgrade: bool,
    /// With what only `helm test` runs.
    pub tests: bool,
    pub kubernetes: &'r str,
    pub apis: &'r [String],
}

/// What an install or upgrade would create, with the objects and APIs that the cluster has.
pub(super) fn template(
    machine: &Machine,
    op: &HelmRelease,
    values: &Map<String, Value>,
    Rendering { upgrade, tests, kubernetes, apis }: Rendering<'_>,
) -> Program {
    let args = ["template", &op.name, &chart(machine, op), "--include-crds", "--dry-run=server"];
    let mut program = helm(args, op).args(["--kube-version", kubernetes]);
    if upgrade {
        program = program.arg("--is-upgrade");
    }
    if !tests {
        program = program.arg("--skip-tests");
    }
    for apis in apis.chunks(100) {
        program = program.args(["--api-versions", &apis.join(",")]);
    }
    with_values(program, values)
}

/// Makes a new revision of an earlier one.
pub(super) fn rollback(op: &HelmRelease, revision: u32) -> Program {
    let args = ["rollback", &op.name, &revision.to_string(), "--history-max", HISTORY, "--wait-for-jobs"];
    waiting(helm(args, op), op)
}

/// Removes the release with its history.
pub(super) fn uninstall(op: &HelmRelease) -> Program {
    waiting(helm(["uninstall", &op.name, "--ignore-not-found"], op), op)
}
