//! How a run ended, as shown to its operator: what failed, where things stand now, and the command that comes next.

use std::fmt::Write;

use kubexm_engine::status::StepStatus;
use kubexm_engine::{Outcome, Status};
use kubexm_session::{Direction, Ended, EndedRun};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitCode, counted};
use kubexm_terminal::{Display, Failure};
use serde_json::{Value, json};

use super::pipelines::Texts;

/// The last event of a run that did what was asked for, or the failure that the others end in. `again` resets hosts that could
/// not be reached.
pub fn report(ended: &Ended, again: &str, display: &Display) -> Result<(), Failure> {
    let (text, data) = match &ended.run {
        Some(run) if run.outcome != wanted(ended.direction) => return Err(unwell(run)),
        Some(run) => success(ended, run, display),
        None => ((Texts::of(ended.pipeline).nothing_to_do)(ended), json!({})),
    };
    if !ended.missing.is_empty() {
        let hosts = ended.missing.join(", ");
        let named = Texts::of(ended.pipeline).again;
        let debt = format!(
            "{text}\nnot done yet: {hosts} could not be reached and still have everything that the cluster put there; \
             when they can be reached again{named}: {again}"
        );
        return Err(Failure::new(ended.exit_code(), debt).with_data(data));
    }
    display.emit(EventKind::Result { ok: true, exit_code: ExitCode::Ok.code(), summary: text, data: Some(data) });
    Ok(())
}

const fn wanted(direction: Direction) -> Outcome {
    match direction {
        Direction::Forward => Outcome::Succeeded,
        Direction::Back => Outcome::RolledBack,
    }
}

fn success(ended: &Ended, run: &EndedRun, display: &Display) -> (String, Value) {
    let EndedRun { status, report, .. } = run;
    let texts = Texts::of(ended.pipeline);
    if ended.direction == Direction::Back {
        return ((texts.rolled_back)(status), data(run));
    }
    display.emit(EventKind::Note { text: format!("report: {}", report.display()) });
    let text = (texts.success)(ended, status);
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
            step.error.as_deref().unwrap_or_default()
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
            let _ = writeln!(text, "{} ({}) could not be rolled back: {error}", step.title, step.step);
        }
    }
    for host in &status.left_out {
        let _ = match &host.left_as_it_is {
            Some(why) => writeln!(text, "{} was left out ({}) and is left as it is: {why}", host.host, host.why),
            None => writeln!(text, "{} was left out and is as it was before: {}", host.host, host.why),
        };
    }
    let _ = writeln!(text, "{}", sentence(*outcome, status));
    let _ = write!(text, "report: {}", report.display());
    if let Some(command) = &status.go_on {
        let _ = write!(text, "\nto resume when the cause is fixed: {command}");
    }
    if let Some(command) = status.roll_back.as_ref().filter(|command| status.go_on.as_ref() != Some(command)) {
        let _ = write!(text, "\nto roll it all back: {command}");
    }
    Failure::new(outcome.exit_code(), text).with_data(data(run))
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
            format!("it could not be rolled back completely{}", why.map_or_else(String::new, |why| format!(": {why}")))
        }
        Outcome::Interrupted => "interrupted; the steps that had started were finished".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kubexm_engine::replay::{RunState, StepState};
    use kubexm_engine::status::{Counts, SCHEMA};
    use kubexm_plan::Pipeline;

    use super::*;

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
    fn a_run_that_was_rolled_back_advises_to_start_again_and_nothing_else() {
        let text = text(Outcome::RolledBack, RunState::RolledBack);
        assert!(text.contains("fix the cause and start again") && !text.contains("resume"), "{text}");
    }
}
