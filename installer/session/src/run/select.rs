//! Selects a run: the named one, or the cluster's last.

use kubexm_engine::replay::RunState;
use kubexm_engine::run::read_status;
use kubexm_engine::{RunId, Status};
use kubexm_plan::Pipeline;
use kubexm_spec::error_chain;

use crate::error::SessionError;
use crate::home::{ClusterHome, Home};

/// The run to resume. A run that is older than another one is resumed only if it is named.
pub(super) fn to_resume(home: &Home, cluster: &ClusterHome, named: Option<&str>) -> Result<RunId, SessionError> {
    let id = find(cluster, named).map_err(|none| match of_another_cluster(home, cluster, named) {
        Some(other) => SessionError::Run(format!("{none}; {other}")),
        None => none,
    })?;
    let run = status(cluster, &id)?;
    of_pipeline(&run, None)?;
    if run.pipeline == Pipeline::CreateFromBackup {
        return Err(SessionError::Run(format!(
            "run {id} of cluster {} makes it from a backup: `kubexm-install create --from-backup BACKUP` with the same bundle and cluster.yaml \
             continues with it, `kubexm-install rollback` rolls it back",
            cluster.name
        )));
    }
    let what = match run.state {
        RunState::Succeeded => "has succeeded: there is nothing to continue",
        RunState::RolledBack => "was rolled back: start a new one with `kubexm-install --bundle FILE`",
        _ => return Ok(id),
    };
    Err(SessionError::Run(format!("run {id} of cluster {} {what}", cluster.name)))
}

/// The cluster's last run, if it is of this pipeline and has not ended: beginning anew would leave what it has changed on some hosts
/// to another run's rollback.
pub(crate) fn to_continue(cluster: &ClusterHome, pipeline: Pipeline) -> Result<Option<RunId>, SessionError> {
    let Some(id) = cluster.run_ids()?.pop() else { return Ok(None) };
    let run = status(cluster, &id)?;
    if run.pipeline != pipeline {
        return Ok(None);
    }
    match run.state {
        RunState::Running | RunState::Interrupted | RunState::Failed => Ok(Some(id)),
        RunState::RollingBack | RunState::Stuck => Err(SessionError::Run(format!(
            "the rollback of run {id} of cluster {} has not ended: end it first, with {}",
            cluster.name,
            match pipeline.needs().bundle {
                true => format!("`kubexm-install rollback {id}`"),
                false => format!("--roll-back {id}"),
            }
        ))),
        RunState::New | RunState::Succeeded | RunState::Partial | RunState::RolledBack => Ok(None),
    }
}

/// The run to roll back: of a pipeline that has its own command for that, or of another one. Later runs build on the changes of earlier ones, so the latest is rolled
/// back first.
pub(super) fn to_roll_back(
    cluster: &ClusterHome,
    named: Option<&str>,
    own: Option<Pipeline>,
) -> Result<RunId, SessionError> {
    let id = find(cluster, named)?;
    let run = status(cluster, &id)?;
    of_pipeline(&run, own)?;
    let refused = |what: &str| SessionError::Run(format!("run {id} of cluster {} {what}", cluster.name));
    match run.state {
        RunState::RolledBack => {
            // A successful run is never selected by itself: running `rollback` twice would remove the cluster.
            let before = cluster.run_ids()?.into_iter().rev().skip_while(|later| *later != id).nth(1);
            let hint = before
                .map_or_else(String::new, |before| format!("; to roll back the one before it, name it: {before}"));
            return Err(refused(&format!("was rolled back already{hint}")));
        }
        RunState::New => return Err(refused("has not started: there is nothing to roll back")),
        // A refused command may have left no run: `create … || rollback` must not roll back the previous one.
        RunState::Succeeded | RunState::Partial if named.is_none() => {
            return Err(refused(&format!("succeeded, and what it made may be in use; to roll it back, name it: {id}")));
        }
        _ => {}
    }
    let later = cluster.run_ids()?.into_iter().skip_while(|earlier| *earlier != id).skip(1);
    let later: Vec<Status> = later.map(|later| status(cluster, &later)).collect::<Result<_, _>>()?;
    let ended = |run: &Status| end(run.pipeline, run.state, run.steps.iter().map(|step| step.step.as_str()));
    let ends: Vec<(Pipeline, RunState)> = later.iter().map(|run| (run.pipeline, ended(run))).collect();
    let stays = |at: usize| own == Some(Pipeline::Adopt) && stays_with_cluster(&ends, at);
    for (at, later) in later.iter().enumerate() {
        if left_something(later) && !stays(at) {
            return Err(refused(&format!(
                "was followed by run {}, which changed hosts: roll that one back first",
                later.run
            )));
        }
    }
    Ok(id)
}

/// What a new run says of the last one, if that cannot be read: its changes cannot be distinguished from others any more.
pub(super) fn unreadable_last(cluster: &ClusterHome) -> Result<Option<String>, SessionError> {
    let Some(id) = cluster.run_ids()?.pop() else { return Ok(None) };
    let text = |error: SessionError| {
        format!(
            "run {id} cannot be read, and so neither be resumed nor rolled back: {}; the new run starts from what it finds on \
             the hosts, and a reset removes what both have changed",
            error_chain(&error)
        )
    };
    Ok(status(cluster, &id).err().map(text))
}

/// A pipeline that needs no bundle has its own command.
fn of_pipeline(run: &Status, own: Option<Pipeline>) -> Result<(), SessionError> {
    let verb = run.pipeline;
    let hint = match own {
        Some(wanted) if wanted == verb => return Ok(()),
        None if verb.needs().bundle => return Ok(()),
        _ if verb.needs().bundle => format!("is a {verb}: `kubexm-install rollback` rolls it back"),
        _ => format!(
            "is a {verb}: `kubexm-install {0}` continues with it, `kubexm-install {0} --roll-back` rolls it back",
            verb.command()
        ),
    };
    Err(SessionError::Run(format!("run {} of cluster {} {hint}", run.run, run.cluster)))
}

/// Whether a run has renewed certificates or upgraded the cluster, and nothing of that is half done: this does not belong to an adoption, and
/// stays when that is rolled back. What an earlier run of the kind has left undone the last one has done.
fn stays_with_cluster(runs: &[(Pipeline, RunState)], at: usize) -> bool {
    let of_kind = |pipeline: Pipeline| runs.iter().rposition(|run| *run == (pipeline, RunState::Succeeded));
    match runs.get(at) {
        Some((pipeline @ (Pipeline::CertsRenew | Pipeline::Upgrade), _)) => {
            of_kind(*pipeline).is_some_and(|last| at <= last)
        }
        _ => false,
    }
}

/// How a run has ended. An upgrade that pauses leaves nodes to the next one: its plan ends before the check of the nodes.
fn end<'a>(pipeline: Pipeline, state: RunState, mut steps: impl Iterator<Item = &'a str>) -> RunState {
    match state {
        RunState::Succeeded if pipeline == Pipeline::Upgrade && !steps.any(|id| id.contains("/check.ready-")) => {
            RunState::Partial
        }
        state => state,
    }
}

/// Whether hosts may differ from their state before a run.
fn left_something(run: &Status) -> bool {
    match run.state {
        RunState::New | RunState::RolledBack => false,
        RunState::Succeeded => run.counts.done > 0,
        _ => true,
    }
}

fn status(cluster: &ClusterHome, id: &RunId) -> Result<Status, SessionError> {
    Ok(read_status(&cluster.runs(), id)?)
}

fn find(cluster: &ClusterHome, named: Option<&str>) -> Result<RunId, SessionError> {
    let runs = cluster.run_ids()?;
    let found = match named {
        Some(name) => runs.into_iter().find(|id| id.as_str() == name),
        None => runs.into_iter().next_back(),
    };
    found.ok_or_else(|| SessionError::Run(none(cluster, named)))
}

/// A run of another cluster that may be meant: a run is of the cluster that its cluster.yaml names, which need not be that of the
/// bundle.
fn of_another_cluster(home: &Home, cluster: &ClusterHome, named: Option<&str>) -> Option<String> {
    let others = home.clusters().ok()?.into_iter().filter(|other| other.name != cluster.name);
    others.into_iter().find_map(|other| {
        let run = status(&other, &find(&other, named).ok()?).ok()?;
        let command = run.go_on?;
        Some(format!("run {} of cluster {} can be continued with: {command}", run.run, other.name))
    })
}

fn none(cluster: &ClusterHome, named: Option<&str>) -> String {
    match named {
        Some(name) => format!("cluster {} has no run {name}; `kubexm-install status` lists its runs", cluster.name),
        None => format!(
            "cluster {} has no run in {}; `kubexm-install --bundle FILE` starts one",
            cluster.name,
            cluster.runs().display()
        ),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use kubexm_engine::Run;
    use kubexm_engine::journal::{Entry, Journal, Record};
    use kubexm_plan::backup::Archive;
    use kubexm_plan::facts::Stamp;
    use kubexm_plan::{ClusterId, lint};
    use kubexm_recipes::{RestoreContext, restore, sample};
    use kubexm_spec::Digest;

    use super::*;

    fn begun(cluster: &ClusterHome, id: &str) {
        let site = sample::cluster();
        let mut facts = sample::all_facts(&site);
        for facts in facts.values_mut() {
            let id = Some(ClusterId::from_random([1; 16]));
            facts.stamp =
                Some(Stamp { cluster: site.name.clone(), run: "r".to_owned(), id, bundle: None, adopted: false });
            facts.joined = true;
        }
        let archive = Archive { sha256: Digest::of("archive"), size: 7 };
        let cluster_digest = Digest::of("yaml");
        let cx = RestoreContext { cluster: &site, cluster_digest, facts: &facts, archive, snapshot: 7, id: "1" };
        let plan = lint::check(restore(&cx).unwrap()).unwrap().0;
        let run = Run::create(&cluster.runs(), RunId::named(id), &plan).unwrap();
        let (resume, rollback) = (String::new(), String::new());
        let record = Record::RunStarted { plan: run.plan_digest(), tool: "test".to_owned(), resume, rollback };
        Journal::open(&run.dir().join("journal.jsonl")).unwrap().0.append(&Entry::now(record)).unwrap();
    }

    #[test]
    fn an_adoption_leaves_what_was_renewed_and_upgraded_to_the_end() {
        let runs = [
            (Pipeline::CertsRenew, RunState::Failed),
            (Pipeline::Upgrade, RunState::Stuck),
            (Pipeline::CertsRenew, RunState::Succeeded),
            (Pipeline::Upgrade, RunState::Succeeded),
            (Pipeline::Upgrade, RunState::Partial),
        ];
        assert_eq!([0, 1, 2, 3, 4].map(|at| stays_with_cluster(&runs, at)), [true, true, true, true, false]);
        assert!(!stays_with_cluster(&runs[..3], 1), "a renewal does not end an upgrade");
        assert!(!stays_with_cluster(&[(Pipeline::Create, RunState::Succeeded)], 0));
        let of = |pipeline, steps: &[&'static str]| end(pipeline, RunState::Succeeded, steps.iter().copied());
        let (paused, whole) = (["n1/upgrade.stamp"], ["n1/upgrade.stamp", "n1/check.ready-n2"]);
        assert_eq!(of(Pipeline::Upgrade, &paused), RunState::Partial, "the next one does the rest");
        assert_eq!(of(Pipeline::Upgrade, &whole), RunState::Succeeded);
        assert_eq!(of(Pipeline::CertsRenew, &paused), RunState::Succeeded);
    }

    #[test]
    fn a_restore_that_was_killed_is_continued_and_not_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = Home::new(folder.path().to_owned(), None, None).cluster("red");
        assert_eq!(to_continue(&cluster, Pipeline::Restore).unwrap(), None);
        begun(&cluster, "20260101T000000Z-0001");
        let found = to_continue(&cluster, Pipeline::Restore).unwrap().unwrap();
        assert_eq!(found.as_str(), "20260101T000000Z-0001");
        assert_eq!(to_continue(&cluster, Pipeline::CertsRenew).unwrap(), None);
    }
}
