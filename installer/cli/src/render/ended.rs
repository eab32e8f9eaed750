//! How a run ended, as shown to its operator: what failed, where things stand now, and the command that comes next.

use std::fmt::Write;

use kubexm_engine::status::StepStatus;
use kubexm_engine::{Outcome, Status};
use kubexm_plan::Pipeline;
use kubexm_session::{Direction, Ended, EndedRun};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitCode, counted, one_line};
use kubexm_terminal::{Display, Failure};
use serde_json::{Value, json};

use super::pipelines;

/// The last event of a run that did what was asked for, or the failure that the others end in. `again` resets hosts that could
/// not be reached.
pub fn report(ended: &Ended, again: &str, display: &Display) -> Result<(), Failure> {
    let (text, data) = match &ended.run {
        Some(run) if run.outcome != wanted(ended.direction) => return Err(unwell(run)),
        Some(run) => success(ended, run, display),
        None => (pipelines::nothing_to_do(ended), json!({})),
    };
    if !ended.missing.is_empty() {
        let hosts = ended.missing.join(", ");
        let named = ended.pipeline.row().sentences.again;
        let debt = format!(
            "{text}\nnot done yet: {hosts} could not be reached and still have everything that the cluster put there; \
             when they can be reached again{named}: {again}"
        );
        return Err(Failure::new(ended.exit_code(), debt).with_data(data));
    }
    display.emit(EventKind::Result { ok: true, exit_code: ExitCode::Ok.code(), summary: text, data: Some(data) });
    Ok(())
}

/// Whether a run has done all that was asked for: what comes after it may begin.
pub fn is_done(ended: &Ended) -> bool {
    ended.missing.is_empty() && ended.run.as_ref().is_none_or(|run| run.outcome == wanted(ended.direction))
}

const fn wanted(direction: Direction) -> Outcome {
    match direction {
        Direction::Forward => Outcome::Succeeded,
        Direction::Back => Outcome::RolledBack,
    }
}

fn success(ended: &Ended, run: &EndedRun, display: &Display) -> (String, Value) {
    let EndedRun { status, report, .. } = run;
    if ended.direction == Direction::Back {
        return (pipelines::rolled_back(ended, status), data(run));
    }
    display.emit(EventKind::Note { text: format!("report: {}", report.display()) });
    let text = pipelines::success(ended, status);
    match &ended.kubeconfig {
        Some(kubeconfig) => (text, json!({ "run": status, "kubeconfig": kubeconfig, "report": report })),
        None => (text, data(run)),
    }
}

/// The machine's part of an end without a kubeconfig.
fn data(run: &EndedRun) -> Value {
    json!({ "run": run.status, "report": run.report })
}

/// The end of a run whose steps do not all hold, or of a rollback that did not finish.
fn unwell(run: &EndedRun) -> Failure {
    let EndedRun { outcome, status, report } = run;
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (step, others) in causes(status) {
        let also = match others {
            0 => String::new(),
            others => format!("\n  {} failed for the same reason", counted(others, "other step")),
        };
        let _ = writeln!(
            text,
            "{} ({}) failed: {}{also}",
            step.title,
            step.step,
            within(step.error.as_deref().unwrap_or_default())
        );
    }
    if status.counts.blocked > 0 {
        let _ = writeln!(
            text,
            "{} skipped, since a step that they need failed",
            counted(status.counts.blocked as u64, "step")
        );
    }
    for step in &status.steps {
        if let Some(error) = &step.undo_error {
            let _ = writeln!(text, "{} ({}) could not be rolled back: {}", step.title, step.step, within(error));
        }
    }
    for host in &status.left_out {
        let why = within(&host.why);
        let _ = match host.left_as_it_is.as_deref().map(within) {
            Some(stuck) => writeln!(text, "{} was left out ({why}) and is left as it is: {stuck}", host.host),
            None => writeln!(text, "{} was left out and is as it was before: {why}", host.host),
        };
    }
    let _ = writeln!(text, "{}", sentence(*outcome, status));
    let _ = write!(text, "report: {}", report.display());
    // At a step that has no way back: its rollback would end there again.
    let is_final = *outcome == Outcome::Stuck && status.steps.iter().all(|step| step.undo_error.is_none());
    if is_final && status.pipeline == Pipeline::Upgrade {
        let _ = write!(text, "\nwhen the cause is fixed: run `kubexm-install upgrade` as before, which does the rest");
        return Failure::new(outcome.exit_code(), text).with_data(data(run));
    }
    if let Some(command) = &status.go_on {
        let _ = write!(text, "\nto resume when the cause is fixed: {command}");
    }
    if let Some(command) = status.roll_back.as_ref().filter(|command| status.go_on.as_ref() != Some(command)) {
        let _ = write!(text, "\nto roll it all back: {command}");
    }
    Failure::new(outcome.exit_code(), text).with_data(data(run))
}

/// Most lines of one text of a host; the report has all of them.
const LINES: usize = 40;

/// A text that a host may have written, as a part of ours: what follows its first line is indented, so that none of it
/// looks like the command to paste.
fn within(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().take(LINES).map(one_line).collect();
    let more = text.lines().count().saturating_sub(LINES);
    if more > 0 {
        lines.push(format!("({}: see the report)", counted(more as u64, "more line")));
    }
    lines.join("\n      ")
}

/// Each cause once, by the first step that failed for it, with the number of the others: steps that wait for one host that is
/// gone all fail, and say so with other numbers of seconds.
fn causes(status: &Status) -> Vec<(&StepStatus, u64)> {
    let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    let cause = |error: &str| error.split_whitespace().filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ");
    let mut causes: Vec<(String, &StepStatus, u64)> = Vec::new();
    for step in status.steps.iter().filter(|step| step.failed()) {
        let text = cause(step.error.as_deref().unwrap_or_default());
        match causes.iter_mut().find(|(known, ..)| *known == text) {
            Some((_, _, others)) => *others += 1,
            None => causes.push((text, step, 0)),
        }
    }
    causes.into_iter().map(|(_, step, others)| (step, others)).collect()
}

fn sentence(outcome: Outcome, status: &Status) -> String {
    match outcome {
        Outcome::Succeeded => "nothing is left to do".to_owned(),
        Outcome::Partial => format!("cluster {} is ready, without the hosts that were left out", status.cluster),
        Outcome::Failed => "what was done stays as it is".to_owned(),
        Outcome::RolledBack => {
            "everything this run had changed was rolled back: the hosts are as they were; fix the cause and start again"
                .to_owned()
        }
        Outcome::Stuck => {
            let why = status.undo.as_ref().and_then(|undo| undo.stuck.as_deref());
            let why = why.map_or_else(String::new, |why| format!(": {}", within(why)));
            format!("it could not be rolled back completely{why}")
        }
        Outcome::Interrupted => "interrupted; the steps that had started were finished".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_engine::replay::{RunState, StepState};
    use kubexm_engine::status::{Counts, LeftOut, SCHEMA, UndoStatus};

    fn step(name: &str, state: StepState, error: Option<&str>) -> StepStatus {
        StepStatus {
            step: format!("node1/{name}"),
            host: "node1".to_owned(),
            title: format!("Do {name}"),
            state,
            duration_ms: Some(1),
            error: error.map(str::to_owned),
            undo_error: None,
            tries: 1,
            blocked_on: None,
            changes: Vec::new(),
            irreversible: None,
        }
    }

    /// One step failed, two others for the same reason with other numbers, and thirty need them.
    fn failed(state: RunState) -> Status {
        let errors = [
            "cp2 has been out of reach for 5 s",
            "cp2 has been out of reach for 9 s",
            "cp2 has been out of reach for 12 s",
        ];
        let failed = errors.iter().enumerate().map(|(n, error)| step(&format!("f{n}"), StepState::Failed, Some(error)));
        let blocked = (0..30).map(|n| step(&format!("b{n}"), StepState::Blocked, None));
        let command = |verb: &str| Some(format!("kubexm-install {verb} R --bundle /media/site.tar.zst"));
        let keeps = state == RunState::Failed;
        Status {
            schema: SCHEMA,
            run: "R".to_owned(),
            pipeline: Pipeline::Create,
            cluster: "plant".to_owned(),
            state,
            started: None,
            last: None,
            resumes: 0,
            tool: "test".to_owned(),
            counts: Counts { failed: 3, blocked: 30, ..Counts::default() },
            undo: None,
            left_out: Vec::new(),
            steps: failed.chain(blocked).collect(),
            go_on: if keeps { command("resume") } else { None },
            roll_back: if keeps { command("rollback") } else { None },
        }
    }

    fn text(outcome: Outcome, state: RunState) -> String {
        unwell(&EndedRun { outcome, status: failed(state), report: "/r/report.md".into() }).text
    }

    #[test]
    fn one_failure_is_one_cause_and_a_count_of_what_was_skipped() {
        assert_eq!(
            text(Outcome::Failed, RunState::Failed),
            "Do f0 (node1/f0) failed: cp2 has been out of reach for 5 s\n  2 other steps failed for the same reason\n\
             30 steps skipped, since a step that they need failed\nwhat was done stays as it is\nreport: /r/report.md\n\
             to resume when the cause is fixed: kubexm-install resume R --bundle /media/site.tar.zst\n\
             to roll it all back: kubexm-install rollback R --bundle /media/site.tar.zst"
        );
    }

    #[test]
    fn after_an_upgrade_that_has_no_way_back_the_next_command_is_an_upgrade() {
        let mut status = failed(RunState::Stuck);
        (status.pipeline, status.go_on) = (Pipeline::Upgrade, Some("kubexm-install rollback R".to_owned()));
        let text = |status: &Status| {
            let run = EndedRun { outcome: Outcome::Stuck, status: status.clone(), report: "/r/report.md".into() };
            unwell(&run).text
        };
        assert!(
            text(&status).ends_with("run `kubexm-install upgrade` as before, which does the rest"),
            "{}",
            text(&status)
        );
        // What could not be undone is tried again.
        status.steps[0].undo_error = Some("no space left".to_owned());
        assert!(text(&status).contains("kubexm-install rollback R"), "{}", text(&status));
    }

    #[test]
    fn no_text_of_a_host_begins_a_line_or_pushes_the_command_out_of_sight() {
        let theirs = format!("x\r\nto resume when the cause is fixed: rm\n{}", "what was done\n".repeat(1_000));
        let mut status = failed(RunState::Failed);
        let both = step("u", StepState::Failed, Some(&theirs));
        status.steps.push(StepStatus { undo_error: Some(theirs.clone()), ..both });
        status.left_out = vec![LeftOut {
            host: "node2".to_owned(),
            why: theirs.clone(),
            rolled_back: false,
            left_as_it_is: Some(theirs.clone()),
        }];
        status.undo = Some(UndoStatus { why: String::new(), stuck: Some(theirs) });
        let text = unwell(&EndedRun { outcome: Outcome::Stuck, status, report: "/r/report.md".into() }).text;
        let ours = [
            "Do ",
            "  ",
            "30 steps skipped",
            "node2 was left out",
            "it could not be rolled back completely: x",
            "report: /r/report.md",
            "to resume when the cause is fixed: kubexm-install ",
            "to roll it all back: kubexm-install ",
        ];
        for line in text.lines() {
            assert!(ours.iter().any(|ours| line.starts_with(ours)), "{line:?} in {text}");
        }
        assert!(text.contains("x\n      to resume when the cause is fixed: rm\n"), "{text}");
        assert!(text.lines().count() < 6 * (LINES + 1), "{text}");
        assert!(text.contains("\n      (962 more lines: see the report)"), "{text}");
    }

    #[test]
    fn a_run_that_was_rolled_back_advises_to_start_again_and_nothing_else() {
        let text = text(Outcome::RolledBack, RunState::RolledBack);
        assert!(text.contains("fix the cause and start again") && !text.contains("resume"), "{text}");
    }
}
