//! `report.md`: a run as a person reads it. Pure: the same plan and journal give the same text.

use std::fmt::Write;

use crate::Status;
use crate::replay::{RunState, StepState};
use crate::status::StepStatus;

/// Renders a run; `evidence` are paths relative to the run's folder.
pub fn render(status: &Status, evidence: &[String]) -> String {
    let mut text = String::new();
    header(&mut text, status);
    failures(&mut text, status, evidence);
    steps(&mut text, status);
    changes(&mut text, status);
    text
}

// Writing to a string cannot fail; the results of `writeln!` say nothing.
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
        "- Steps: {} changed, {} held already, {} failed, {} blocked, {} open",
        counts.done, counts.satisfied, counts.failed, counts.blocked, counts.open
    );
    if let Some(command) = &status.go_on {
        let _ = writeln!(text, "\nTo go on:\n\n```\n{command}\n```");
    }
}

fn failures(text: &mut String, status: &Status, evidence: &[String]) {
    let failed: Vec<&StepStatus> = status.steps.iter().filter(|s| s.state == StepState::Failed).collect();
    if failed.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n## What failed");
    for step in failed {
        let _ = writeln!(text, "\n### {} on {} (`{}`)\n", step.title, step.host, step.step);
        for line in step.error.as_deref().unwrap_or("no reason was given").lines() {
            let _ = writeln!(text, "> {line}");
        }
        let _ = writeln!(text, "\nTried {} times. Log: `{}`", step.tries, log_path(step));
        let waiting: Vec<&str> = status
            .steps
            .iter()
            .filter(|s| s.blocked_on.as_deref() == Some(&step.step))
            .map(|s| s.step.as_str())
            .collect();
        if !waiting.is_empty() {
            let _ = writeln!(text, "Waiting for it: {}", waiting.join(", "));
        }
    }
    if !evidence.is_empty() {
        let _ = writeln!(text, "\nEvidence from the hosts:\n");
        for path in evidence {
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
        let note = step.irreversible.as_ref().map(|why| format!(" (cannot be taken back: {why})"));
        let _ = writeln!(text, "- {}: {}{}", step.step, step.changes.join(", "), note.unwrap_or_default());
    }
}

/// Where a step's log lies, relative to the run's folder.
fn log_path(step: &StepStatus) -> String {
    let name = step.step.split_once('/').map_or(step.step.as_str(), |(_, name)| name);
    format!("logs/{}/{}.log", crate::files::plain_name(&step.host), crate::files::plain_name(name))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

const fn state_words(state: RunState) -> &'static str {
    match state {
        RunState::New => "not begun",
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
        StepState::Waiting => "not begun",
        StepState::Prepared => "begun, not ended",
        StepState::Satisfied => "held already",
        StepState::Done => "done",
        StepState::Failed => "**failed**",
        StepState::Blocked => "blocked",
        StepState::Undone => "taken back",
    }
}
