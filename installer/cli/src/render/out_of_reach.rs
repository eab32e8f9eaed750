//! What is asked when a run cannot continue without a host that is out of reach. Pure.

use kubexm_plan::Pipeline;
use kubexm_session::OutOfReach;
use kubexm_spec::counted;

/// The question.
pub const PROMPT: &str = "Roll the other hosts back now? (no: keep everything, to be resumed)";

/// What an operator must know to answer it, line by line.
pub fn text(question: &OutOfReach<'_>) -> Vec<String> {
    let OutOfReach { cluster, run, plan, lost, others } = question;
    let each = lost.iter().map(|lost| match lost.gone {
        None => format!("{} was out of reach, and answers again", lost.host),
        Some(gone) => format!("{} has been out of reach for {} s", lost.host, gone.as_secs()),
    });
    let mut lines: Vec<String> = each.collect();
    let away: Vec<&str> = lost.iter().filter(|lost| lost.gone.is_some()).map(|lost| lost.host.as_str()).collect();
    let stays = match away.is_empty() {
        true => String::new(),
        false => format!("; {} stays as it is until it is rolled back, too", away.join(", ")),
    };
    let names = lost.iter().map(|lost| lost.host.as_str()).collect::<Vec<_>>().join(", ");
    lines.push(format!("run {run} of cluster {cluster} cannot continue without {names}"));
    lines.push(format!(
        "- kept: nothing is changed on any host, and the run can be resumed when {names} can be reached"
    ));
    let (changed, unchanged): (Vec<_>, Vec<_>) = others.iter().partition(|(_, changed)| *changed > 0);
    let each = changed.iter().map(|(host, steps)| format!("{host} ({})", counted(*steps as u64, "step")));
    let undone = match changed.is_empty() {
        true => "the run has changed nothing on the other hosts".to_owned(),
        false => format!("what the run has changed is undone on {}", each.collect::<Vec<_>>().join(", ")),
    };
    let data = match plan.pipeline {
        Pipeline::Create | Pipeline::CreateFromBackup if !changed.is_empty() => {
            ", with all data in the cluster if this run created it"
        }
        _ => "",
    };
    lines.push(format!("- rolled back: {undone}{data}{stays}"));
    if !unchanged.is_empty() && !changed.is_empty() {
        let hosts = unchanged.iter().map(|(host, _)| *host).collect::<Vec<_>>().join(", ");
        lines.push(format!("  nothing was changed on {hosts}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kubexm_recipes::sample;
    use kubexm_session::LostHost;

    use super::*;

    #[test]
    fn the_question_names_the_host_for_how_long_and_what_a_rollback_does_to_each_other_one() {
        let plan = sample::plan(&sample::cluster()).unwrap();
        let lost = [LostHost { host: "cp2".to_owned(), gone: Some(Duration::from_secs(95)) }];
        let others = vec![("cp1", 31), ("w1", 1), ("w2", 0)];
        let text = text(&OutOfReach { cluster: "plant", run: "R", plan: &plan, lost: &lost, others }).join("\n");
        assert_eq!(
            text,
            "cp2 has been out of reach for 95 s\n\
             run R of cluster plant cannot continue without cp2\n\
             - kept: nothing is changed on any host, and the run can be resumed when cp2 can be reached\n\
             - rolled back: what the run has changed is undone on cp1 (31 steps), w1 (1 step), with all data in the cluster \
             if this run created it; cp2 stays as it is until it is rolled back, too\n  nothing was changed on w2"
        );
    }

    #[test]
    fn a_host_that_answers_again_is_not_said_to_stay_as_it_is() {
        let plan = sample::plan(&sample::cluster()).unwrap();
        let lost = [LostHost { host: "cp2".to_owned(), gone: None }];
        let others = vec![("cp1", 31), ("cp2", 12)];
        let text = text(&OutOfReach { cluster: "plant", run: "R", plan: &plan, lost: &lost, others }).join("\n");
        assert!(text.starts_with("cp2 was out of reach, and answers again\n"), "{text}");
        assert!(
            text.contains("undone on cp1 (31 steps), cp2 (12 steps)") && !text.contains("stays as it is"),
            "{text}"
        );
    }
}
