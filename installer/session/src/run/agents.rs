//! The hosts on which a run has installed the agent for the first time: `runs/<id>/agents`, one host on each line.
//! Written before the run changes anything, so that a later rollback by another process can remove the agent.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use kubexm_engine::{EventSink, Run};
use kubexm_plan::Plan;

use crate::events;
use crate::fleet::Fleet;

const FILE: &str = "agents";

/// Adds the hosts on which this process has installed it.
pub(super) fn remember(run: &Path, fleet: &Fleet, shown: &dyn EventSink) {
    let new = fleet.new_agents();
    if new.is_empty() {
        return;
    }
    let file = std::fs::OpenOptions::new().append(true).create(true).open(run.join(FILE));
    let written = file.and_then(|mut file| {
        new.iter().try_for_each(|host| writeln!(file, "{host}"))?;
        file.sync_all()
    });
    if let Err(error) = written {
        // Not a reason to stop: without the file, a rollback by another process leaves the agent on the hosts.
        events::warning(shown, format!("{} cannot be written: {error}", run.join(FILE).display()));
    }
}

/// After a rollback: removes the agent from hosts that had none and have no changes of the run left.
pub(super) async fn delete(run: &Run, plan: &Plan, fleet: &Fleet, shown: &dyn EventSink) {
    let written = std::fs::read_to_string(run.dir().join(FILE)).unwrap_or_default();
    let mut hosts: BTreeSet<String> = written.lines().map(str::to_owned).chain(fleet.new_agents()).collect();
    for step in plan.steps.iter().filter(|step| run.replay().step(&step.id).changed()) {
        hosts.remove(&step.host);
    }
    fleet.delete_agents(&hosts, shown).await;
}
