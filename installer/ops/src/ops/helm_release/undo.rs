//! Removes a release, or goes back to an earlier revision.

use std::collections::BTreeSet;

use kubexm_charts::objects::Identity;
use kubexm_charts::stored::{Hook, Revision};
use kubexm_plan::op::{FoundRelease, HelmRelease};

use super::{helm, kept, look};
use crate::kube::removal;
use crate::{Machine, OpError};

/// A run that was killed leaves a revision that helm holds to be at work, and refuses every other change: it is undone first.
/// Returns the history without it.
pub(super) fn unfinished(
    machine: &Machine,
    op: &HelmRelease,
    history: Vec<Revision>,
    namespace: bool,
) -> Result<Vec<Revision>, OpError> {
    let Some(last) = history.last() else { return Ok(history) };
    match last_good(&history) {
        // Nothing but failed or interrupted attempts.
        None => drop(uninstall(machine, op, namespace, &[])?),
        Some(good) if last.status().starts_with("pending") => roll_back(machine, op, good.number())?,
        Some(_) => return Ok(history),
    }
    look::history(machine, op)
}

/// The last revision that was installed completely, if the cluster has it. helm marks it as superseded before the one that takes its
/// place is deployed: if that fails, none is.
pub(super) fn last_good(history: &[Revision]) -> Option<&Revision> {
    history.iter().rfind(|revision| matches!(revision.status(), "deployed" | "superseded"))
}

/// Makes a new revision of an earlier one. Hooks that only later ones have are nobody's then, and helm leaves them.
pub(super) fn roll_back(machine: &Machine, op: &HelmRelease, revision: u32) -> Result<(), OpError> {
    let history = look::history(machine, op)?;
    kept::protect(machine, op, history.last())?;
    machine.run(&helm::rollback(op, revision))?;
    let of = |revision: Option<&Revision>| revision.map(hooks).transpose().map(Option::unwrap_or_default);
    let stay = of(history.iter().find(|one| one.number() == revision))?;
    let stay: BTreeSet<Identity> = stay.iter().map(|hook| Identity::of(&hook.object)).collect();
    let later = of(history.last())?.into_iter().map(|hook| hook.object);
    let gone = later.filter(|object| !stay.contains(&Identity::of(object)));
    removal::delete(machine, &op.namespace, gone)
}

/// Goes back to a revision that was found, unless its objects and values are there.
pub(super) fn to_revision(machine: &Machine, op: &HelmRelease, found: &FoundRelease) -> Result<(), OpError> {
    let history = look::history(machine, op)?;
    let now = history.last().map(look::found).transpose()?;
    let same =
        |now: &FoundRelease| (&now.objects, &now.values, &now.status) == (&found.objects, &found.values, &found.status);
    // To a state in which helm had not finished there is no way back, and nobody wants one.
    if now.as_ref().is_some_and(same) || !found.is_deployed() {
        return Ok(());
    }
    if !history.iter().any(|revision| revision.number() == found.revision) {
        return Err(OpError::other(format!(
            "revision {} of release {}/{} is no longer there, so it cannot be restored; install it again from the bundle before",
            found.revision, op.namespace, op.name
        )));
    }
    roll_back(machine, op, found.revision)
}

/// Uninstalls, with the objects of hooks, which helm leaves. What holds data or objects of others stays; the namespace goes if
/// it did not exist before and nothing is in it, and so do definitions (`crds`) of which there are no objects.
/// Returns the volumes and claims that stay.
pub(super) fn uninstall(
    machine: &Machine,
    op: &HelmRelease,
    namespace: bool,
    crds: &[Identity],
) -> Result<Vec<Identity>, OpError> {
    let history = look::history(machine, op)?;
    let mut unused = crds.to_vec();
    if let Some(last) = history.last() {
        let hooks = hooks(last)?;
        unused.extend(kept::take_out(machine, op, last)?);
        machine.run(&helm::uninstall(op))?;
        removal::delete(machine, &op.namespace, hooks.into_iter().map(|hook| hook.object))?;
    }
    removal::remove_unused(machine, &unused)?;
    if !namespace {
        removal::remove_unused_namespace(machine, &op.namespace)?;
    }
    unused.retain(|object| object.kind.starts_with("PersistentVolume"));
    Ok(unused)
}

pub(super) fn hooks(revision: &Revision) -> Result<Vec<Hook>, OpError> {
    let release = look::read(revision)?;
    release.hooks().map_err(|error| OpError::other(format!("{}: {}", error.place, error.problem)))
}
