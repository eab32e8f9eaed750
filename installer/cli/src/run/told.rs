//! How a run ended, as its operator is told: what failed, where things stand now, and the command that comes next.

use std::fmt::Write;
use std::path::Path;

use kubexm_engine::{Outcome, Status};
use kubexm_terminal::Failure;
use serde_json::{Value, json};

/// The machine's part of every end.
pub fn data(status: &Status, report: &Path) -> Value {
    json!({ "run": status, "report": report })
}

/// The end of a run whose steps do not all hold, or of a rollback that did not come to its end.
pub fn unwell(outcome: Outcome, status: &Status, report: &Path) -> Failure {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for step in status.steps.iter().filter(|step| step.failed() || step.undo_error.is_some()) {
        if let Some(error) = &step.error {
            let _ = writeln!(text, "{} ({}) failed: {error}", step.title, step.step);
        }
        if let Some(error) = &step.undo_error {
            let _ = writeln!(text, "{} ({}) could not be taken back: {error}", step.title, step.step);
        }
    }
    for host in &status.left_out {
        let _ = match &host.left_as_it_is {
            Some(why) => writeln!(text, "{} was left out ({}) and is left as it is: {why}", host.host, host.why),
            None => writeln!(text, "{} was left out and is as it was before: {}", host.host, host.why),
        };
    }
    let _ = writeln!(text, "{}", sentence(outcome, status));
    let _ = write!(text, "report: {}", report.display());
    if let Some(command) = &status.go_on {
        let _ = write!(text, "\nto go on when it is mended: {command}");
    }
    if let Some(command) = status.take_back.as_ref().filter(|command| status.go_on.as_ref() != Some(command)) {
        let _ = write!(text, "\nto take it all back: {command}");
    }
    Failure::new(outcome.exit_code(), text).with_data(data(status, report))
}

fn sentence(outcome: Outcome, status: &Status) -> String {
    match outcome {
        Outcome::Succeeded => "every step holds".to_owned(),
        Outcome::Partial => format!("cluster {} is ready, without the hosts that were left out", status.cluster),
        Outcome::Failed => "what was done stays as it is".to_owned(),
        Outcome::RolledBack => {
            "everything this run had changed was taken back: the hosts are as they were; mend the cause and begin anew"
                .to_owned()
        }
        Outcome::Stuck => {
            let why = status.undo.as_ref().and_then(|undo| undo.stuck.as_deref());
            format!("it could not be taken back whole{}", why.map_or_else(String::new, |why| format!(": {why}")))
        }
        Outcome::Interrupted => "interrupted; what has begun is done".to_owned(),
    }
}
