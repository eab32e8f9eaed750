//! The removal of a release that nobody wants any more, and its way back: helm's Secrets are put back as they were, and helm
//! makes a new revision of the last one, which creates what is missing.

use kubexm_charts::objects::{Identity, list};
use kubexm_charts::stored::Revision;
use kubexm_plan::op::{FoundRelease, FoundToRemove, HelmRelease, ReleaseAbsent};
use kubexm_spec::Digest;
use serde_json::{Value, json};

use super::{helm, kept, look, undo};
use crate::kube::objects::{FORCE, on, own, printed};
use crate::kube::removal::{self, by_namespace};
use crate::{Machine, OpError};

pub(in crate::ops) fn observe(machine: &Machine, op: &ReleaseAbsent) -> Result<FoundToRemove, OpError> {
    // While the API server is down nothing is known; the change itself reports errors.
    let Ok(history) = look::history(machine, &release_of(op)) else { return Ok(FoundToRemove::Unknown) };
    match history.last() {
        None => Ok(FoundToRemove::Absent),
        Some(last) if is_foreign(last) => Ok(FoundToRemove::Foreign),
        Some(last) => {
            Ok(FoundToRemove::There { release: look::found(last)?, history: Digest::of(list(&secrets(&history))) })
        }
    }
}

/// Uninstalls it; a removal that was interrupted goes on.
pub(in crate::ops) fn remove(machine: &Machine, op: &ReleaseAbsent) -> Result<(), OpError> {
    let release = release_of(op);
    let history = look::history(machine, &release)?;
    if history.last().is_none_or(is_foreign) {
        return Ok(());
    }
    machine.ledger().keep_bytes(list(&secrets(&history)).as_bytes())?;
    let Some(last) = history.last() else { return Ok(()) };
    // As helm does it, what hooks have made stays: it may be a key to data that stay. Only what has run and holds nothing goes.
    let hooks = undo::hooks(last)?.into_iter().map(|hook| hook.object).filter(has_run);
    let mut unused = kept::take_out(machine, &release, last)?;
    machine.run(&helm::uninstall(&release))?;
    removal::delete(machine, &op.namespace, hooks)?;
    // Whose a namespace is, nobody knows any more: it stays.
    unused.retain(|object| object.kind == removal::CRD);
    removal::remove_unused(machine, &unused)
}

fn has_run(object: &Value) -> bool {
    let identity = Identity::of(object);
    matches!((identity.group.as_str(), identity.kind.as_str()), ("batch", "Job") | ("", "Pod"))
}

/// Installs again what was removed.
pub(in crate::ops) fn bring_back(
    machine: &Machine,
    op: &ReleaseAbsent,
    found: &FoundRelease,
    history: &Digest,
) -> Result<(), OpError> {
    let release = release_of(op);
    let now = look::history(machine, &release)?;
    // Only a removal keeps them: if none was reached, the cluster has them still.
    let content = match machine.ledger().content(history) {
        Ok(content) => content,
        Err(_) if !now.is_empty() => return Ok(()),
        Err(error) => return Err(error),
    };
    let is_there =
        |now: &FoundRelease| (&now.objects, &now.values, &now.status) == (&found.objects, &found.values, &found.status);
    if now.last().map(look::found).transpose()?.as_ref().is_some_and(is_there) || !found.is_deployed() {
        return Ok(());
    }
    let secrets = printed(&content)
        .map_err(|error| OpError::other(format!("the revisions kept as {history} are no JSON: {error}")))?;
    if !look::has_namespace(machine, &op.namespace)? {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": op.namespace}});
        machine.run(&on("apply", FORCE, &namespace.to_string()))?;
    }
    for (namespace, secrets) in by_namespace(secrets, &op.namespace) {
        machine.run(&on("apply", FORCE, &list(&secrets)).args(["--namespace", &namespace]))?;
    }
    undo::roll_back(machine, &release, found.revision)
}

/// What is done by name and namespace alone.
fn release_of(op: &ReleaseAbsent) -> HelmRelease {
    let ReleaseAbsent { name, namespace, wait_s } = op.clone();
    let nothing = Digest::of("");
    HelmRelease { name, namespace, chart: nothing, input: nothing, slots: Vec::new(), wait_s }
}

fn is_foreign(last: &Revision) -> bool {
    last.label(helm::LABEL).is_empty()
}

/// In the form in which they can be applied.
fn secrets(history: &[Revision]) -> Vec<Value> {
    let secret = |revision: &Revision| {
        let mut secret = own(revision.secret().clone());
        // The items of a list have neither.
        secret["apiVersion"] = "v1".into();
        secret["kind"] = "Secret".into();
        secret
    };
    history.iter().map(secret).collect()
}
