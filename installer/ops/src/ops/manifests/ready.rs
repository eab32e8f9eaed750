//! Waits until applied objects work, by what each kind reports of itself.

use kubexm_charts::objects::Identity;
use kubexm_plan::op::Manifests;
use serde_json::Value;

use crate::kube::{kubectl, waiting};
use crate::system::Program;
use crate::{Machine, OpError};

/// How a kind reports that it works.
enum Report {
    /// `kubectl rollout status`.
    Rollout,
    /// A condition.
    Condition(&'static str),
}

fn report(identity: &Identity) -> Option<Report> {
    Some(match (identity.group.as_str(), identity.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet") => Report::Rollout,
        ("batch", "Job") => Report::Condition("Complete"),
        ("", "Pod") => Report::Condition("Ready"),
        ("apiregistration.k8s.io", "APIService") => Report::Condition("Available"),
        _ => return None,
    })
}

/// Waits for every object that reports anything.
pub(super) fn wait(machine: &Machine, op: &Manifests, objects: &[Value]) -> Result<(), OpError> {
    for object in objects {
        let identity = Identity::of(object);
        let Some(report) = report(&identity) else { continue };
        let program = program(op, &identity, &report);
        let output = machine.try_run(&program)?;
        if output.code != 0 {
            let namespace = namespace(op, &identity);
            let pods = waiting::not_ready(machine, namespace).map(|pods| format!("\n{pods}")).unwrap_or_default();
            return Err(OpError::other(format!(
                "{identity} of add-on {} was applied, and does not work after {} s: {}{pods}",
                op.name,
                op.wait_s,
                output.tail()
            )));
        }
    }
    Ok(())
}

fn namespace<'a>(op: &'a Manifests, identity: &'a Identity) -> &'a str {
    if identity.namespace.is_empty() { &op.namespace } else { &identity.namespace }
}

fn program(op: &Manifests, identity: &Identity, report: &Report) -> Program {
    let kind = match identity.group.as_str() {
        "" => identity.kind.to_lowercase(),
        group => format!("{}.{group}", identity.kind.to_lowercase()),
    };
    let (name, timeout) = (format!("{kind}/{}", identity.name), format!("--timeout={}s", op.wait_s));
    let program = match report {
        Report::Rollout => kubectl(["rollout", "status", &name, &timeout]),
        Report::Condition(condition) => kubectl(["wait", &format!("--for=condition={condition}"), &name, &timeout]),
    };
    // Its own limit of 30 s would end a watch early.
    program.args(["--namespace", namespace(op, identity), "--request-timeout=0"]).within(op.wait_s + 30)
}
