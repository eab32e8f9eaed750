//! `report.md`: a run as text for people. Pure: equal plans and journals give equal texts.

use std::fmt::Write;

use kubexm_spec::{counted, printable};

use crate::Status;
use crate::replay::{RunState, StepState};
use crate::status::StepStatus;

/// Texts of hosts that a run has kept: paths relative to its folder.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Logs of actions.
    pub logs: Vec<String>,
    /// What was collected on hosts after a failure.
    pub evidence: Vec<String>,
}

/// Renders a run.
pub fn render(status: &Status, kept: &Kept) -> String {
    let mut text = String::new();
    header(&mut text, status);
    left_out(&mut text, status);
    stuck(&mut text, status);
    failures(&mut text, status, kept);
    steps(&mut text, status);
    changes(&mut text, status);
    printable(&text).into_owned()
}

// Writing to a string cannot fail, so the results of `writeln!` are ignored.
fn header(text: &mut String, status: &Status) {
    let _ = writeln!(text, "# {} of cluster {}: {}\n", status.pipeline, status.cluster, state_words(status.state));
    let _ = writeln!(text, "- Run: {}", status.run);
    if let Some(started) = &status.started {
        let _ = writeln!(text, "- Started: {started}");
    }
    if let Some(last) = &status.last {
        let _ = writeln!(text, "- Last record: {last}");
    }
    if status.resumes > 0 {
        let _ = writeln!(text, "- Resumed: {} times", status.resumes);
    }
    let _ = writeln!(text, "- By: {}", status.tool);
    let counts = &status.counts;
    let _ = writeln!(
        text,
        "- Steps: {} changed, {} needed no change, {} rolled back, {} failed, {} blocked, {} open",
        counts.done, counts.satisfied, counts.undone, counts.failed, counts.blocked, counts.open
    );
    if let Some(undo) = &status.undo {
        let _ = writeln!(text, "- Rolled back because: {}", undo.why);
    }
    let (forward, back) = match status.state {
        RunState::RollingBack | RunState::Stuck => ("To continue with the rollback, when the cause is fixed", None),
        RunState::Partial => ("To add the hosts that were left out, when they are fixed", status.roll_back.as_ref()),
        _ => ("To continue", status.roll_back.as_ref()),
    };
    for (what, command) in [(forward, status.go_on.as_ref()), ("To roll everything back", back)] {
        if let Some(command) = command {
            let _ = writeln!(text, "\n{what}:\n\n```\n{command}\n```");
        }
    }
}

fn left_out(text: &mut String, status: &Status) {
    if status.left_out.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n## Hosts that were left out\n");
    for host in &status.left_out {
        let left = match (&host.left_as_it_is, host.rolled_back) {
            (_, true) => "Everything that this run had changed for it is as it was before.".to_owned(),
            (Some(why), false) => format!("It is left as it is, half changed: {}", line(why)),
            (None, false) => "It has not been rolled back completely.".to_owned(),
        };
        let _ = writeln!(text, "- {}: {}. {left}", host.host, line(&host.why));
    }
}

fn stuck(text: &mut String, status: &Status) {
    let Some(why) = status.undo.as_ref().and_then(|undo| undo.stuck.as_ref()) else { return };
    let _ = writeln!(text, "\n## What could not be rolled back\n\n{}", line(why));
    for step in status.steps.iter().filter(|s| !s.changes.is_empty() && s.state != StepState::Undone) {
        let note = match (&step.undo_error, &step.irreversible) {
            (Some(error), _) => format!(" (failed: {})", line(error)),
            (None, Some(why)) => format!(" (cannot be rolled back: {why})"),
            (None, None) => String::new(),
        };
        let _ = writeln!(text, "\n- `{}`{note}", step.step);
    }
}

fn failures(text: &mut String, status: &Status, kept: &Kept) {
    let failed: Vec<&StepStatus> = status.steps.iter().filter(|s| s.failed()).collect();
    if failed.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n## What failed");
    for step in failed {
        let _ = writeln!(text, "\n### {} on {} (`{}`)\n", step.title, step.host, step.step);
        for line in step.error.as_deref().unwrap_or("no reason was given").lines() {
            let _ = writeln!(text, "> {line}");
        }
        let log = Some(log_path(step)).filter(|path| kept.logs.contains(path));
        let log = log.map_or_else(String::new, |path| format!(" Log: `{path}`"));
        let _ = writeln!(text, "\nTried {}.{log}", counted(u64::from(step.tries), "time"));
        let waiting: Vec<&str> = status
            .steps
            .iter()
            .filter(|s| s.blocked_on.as_deref() == Some(&step.step))
            .map(|s| s.step.as_str())
            .collect();
        if !waiting.is_empty() {
            let others = match waiting.len() {
                1 => String::new(),
                count => format!(" and {} more (see Steps)", count - 1),
            };
            let _ = writeln!(text, "Skipped, since they need it: `{}`{others}", waiting[0]);
        }
    }
    if !kept.evidence.is_empty() {
        let _ = writeln!(text, "\nEvidence from the hosts:\n");
        for path in &kept.evidence {
            let _ = writeln!(text, "- `{path}`");
        }
    }
}

fn steps(text: &mut String, status: &Status) {
    let _ = writeln!(text, "\n## Steps\n\n| host | step | title | outcome | time |\n|---|---|---|---|---|");
    for step in &status.steps {
        let time = step.duration_ms.map(seconds).unwrap_or_default();
        let name = step.step.split_once('/').map_or(step.step.as_str(), |(_, name)| name);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {time} |",
            cell(&step.host),
            cell(name),
            cell(&step.title),
            outcome_words(step.state)
        );
    }
}

fn changes(text: &mut String, status: &Status) {
    let changed: Vec<&StepStatus> = status.steps.iter().filter(|s| !s.changes.is_empty()).collect();
    let _ = writeln!(text, "\n## Changes on the hosts\n");
    if changed.is_empty() {
        let _ = writeln!(text, "None.");
    }
    for step in changed {
        let note = match (&step.irreversible, step.state) {
            (_, StepState::Undone) => " (rolled back)".to_owned(),
            (Some(why), _) => format!(" (cannot be rolled back: {why})"),
            (None, _) => String::new(),
        };
        let _ = writeln!(text, "- {}: {}{note}", step.step, step.changes.join(", "));
    }
}

/// Where a step's log lies, relative to the run's folder.
fn log_path(step: &StepStatus) -> String {
    let name = step.step.split_once('/').map_or(step.step.as_str(), |(_, name)| name);
    format!("logs/{}/{}.log", crate::files::plain_name(&step.host), crate::files::plain_name(name))
}

fn line(text: &str) -> String {
    text.replace('\n', " ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

const fn state_words(state: RunState) -> &'static str {
    match state {
        RunState::New => "not started",
        RunState::Running => "not ended",
        RunState::Interrupted => "interrupted",
        RunState::Failed => "failed",
        RunState::Succeeded => "succeeded",
        RunState::Partial => "succeeded, with hosts left out",
        RunState::RollingBack => "being rolled back",
        RunState::RolledBack => "rolled back",
        RunState::Stuck => "rollback stuck",
    }
}

const fn outcome_words(state: StepState) -> &'static str {
    match state {
        StepState::Waiting => "not started",
        StepState::Prepared => "started, not finished",
        StepState::Satisfied => "needed no change",
        StepState::Done => "done",
        StepState::Failed => "**failed**",
        StepState::Blocked => "blocked",
        StepState::Undone => "rolled back",
    }
}
