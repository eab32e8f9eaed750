//! Where a run put the agent's program on hosts that had none: `runs/<id>/agents`, a host a line. Written before the run
//! changes anything, so that anybody who rolls the run back later, in another process, removes the agent too.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use kubexm_engine::{EventSink, Run};
use kubexm_plan::Plan;

use crate::events;
use crate::fleet::Fleet;

const FILE: &str = "agents";

/// Adds the hosts on which this process put it.
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
        // No reason to stop: what is lost is the tidying of a rollback that another process carries out.
        events::warning(shown, format!("{} cannot be written: {error}", run.join(FILE).display()));
    }
}

/// After a rollback: hosts with nothing left of the run are as they were, but for the agent where there was none.
pub(super) async fn take_away(run: &Run, plan: &Plan, fleet: &Fleet, shown: &dyn EventSink) {
    let written = std::fs::read_to_string(run.dir().join(FILE)).unwrap_or_default();
    let mut hosts: BTreeSet<String> = written.lines().map(str::to_owned).chain(fleet.new_agents()).collect();
    for step in plan.steps.iter().filter(|step| run.replay().step(&step.id).changed()) {
        hosts.remove(&step.host);
    }
    fleet.take_agents_away(&hosts, shown).await;
}
