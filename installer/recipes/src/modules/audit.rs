//! The API server's audit log on a control plane: its policy, its folder, and the kubeadm settings for both.

use kubexm_plan::op::{Dir, File, PodReady, StaticPodStarted};
use kubexm_plan::{SlotProvider, Step, Undo};
use kubexm_spec::cluster::{AUDIT_WEBHOOK, Audit};
use minijinja::context;
use serde_json::{Value, json};

use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::paths;
use crate::templates::template;

/// The static pod that has the audit log.
const API_SERVER: &str = "kube-apiserver";

/// Files and folder for the audit log, made before kubeadm starts a kube-apiserver here. A reset keeps the log: it
/// records who did what and belongs to the operator.
pub fn step(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Option<Step>, RecipeError> {
    let Some(audit) = of(draft.cx)? else { return Ok(None) };
    let policy = match &audit.policy_file {
        Some(file) => draft.file(paths::AUDIT_POLICY, 0o600, draft.cx.material(file)?),
        None => {
            File { mode: 0o600, ..draft.template(paths::AUDIT_POLICY, template!("audit-policy.yaml"), context! {})? }
        }
    };
    let webhook = audit.webhook.as_ref().map(|_| {
        let provider = SlotProvider::Secret { field: AUDIT_WEBHOOK.to_owned() };
        draft.filled_file(paths::AUDIT_WEBHOOK, 0o600, "audit-webhook", provider, |slot| {
            format!("# Written by kubexm-install, from {AUDIT_WEBHOOK} of cluster.yaml.\n{}", slot.placeholder())
        })
    });
    Ok(Some(
        Step::on(node.name(), "control-plane.audit", "Write the API server's audit policy and webhook configuration")
            .ensure(Dir { path: paths::AUDIT.to_owned(), mode: 0o700 })
            .ensure(policy)
            .ensure_all(webhook)
            .ensure(Dir { path: paths::AUDIT_LOGS.to_owned(), mode: 0o700 })
            .undo(Undo::RestoreBefore)
            .build(),
    ))
}

/// Restarts an API server that was started with other files; it reads them only when it starts.
pub fn loaded(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Option<Step>, RecipeError> {
    let Some(audit) = of(cx)? else { return Ok(None) };
    let webhook = audit.webhook.as_ref().map(|_| paths::AUDIT_WEBHOOK);
    let after = [paths::AUDIT_POLICY].into_iter().chain(webhook).map(str::to_owned).collect();
    let runtime = cx.cluster.runtime.kind;
    Ok(Some(
        Step::on(node.name(), "control-plane.audit-loaded", "Restart the API server if its audit files have changed")
            .ensure(StaticPodStarted {
                pod: API_SERVER.to_owned(),
                after,
                reloaded: Vec::new(),
                runtime,
                ready: PodReady::ApiServer,
            })
            .timeout_s(300)
            .undo(Undo::RestoreBefore)
            .build(),
    ))
}

/// Flags of kube-apiserver, without their dashes.
pub fn arguments(cx: &PlanContext<'_>) -> Result<Vec<(&'static str, String)>, RecipeError> {
    let Some(audit) = of(cx)? else { return Ok(Vec::new()) };
    let mut flags = vec![
        ("audit-policy-file", paths::AUDIT_POLICY.to_owned()),
        ("audit-log-path", format!("{}/audit.log", paths::AUDIT_LOGS)),
        ("audit-log-maxage", audit.max_age.to_string()),
        ("audit-log-maxbackup", audit.max_backups.to_string()),
        ("audit-log-maxsize", audit.max_size.to_string()),
    ];
    if audit.webhook.is_some() {
        flags.push(("audit-webhook-config-file", paths::AUDIT_WEBHOOK.to_owned()));
    }
    Ok(flags)
}

/// Mounts of kube-apiserver's pod (kubeadm's `extraVolumes`).
pub fn volumes(cx: &PlanContext<'_>) -> Result<Vec<Value>, RecipeError> {
    if of(cx)?.is_none() {
        return Ok(Vec::new());
    }
    let volume = |name: &str, path: &str, read_only: bool| json!({"name": name, "hostPath": path, "mountPath": path, "readOnly": read_only, "pathType": "Directory"});
    Ok(vec![volume("kubexm-audit", paths::AUDIT, true), volume("kubexm-audit-logs", paths::AUDIT_LOGS, false)])
}

fn of<'a>(cx: &PlanContext<'a>) -> Result<Option<&'a Audit>, RecipeError> {
    Ok(cx.kubernetes()?.audit.as_ref())
}
