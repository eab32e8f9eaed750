//! The sentences of a pipeline, with what its run knows.

use kubexm_engine::Status;
use kubexm_plan::Plan;
use kubexm_session::Ended;

use crate::commands::resume_command::{program, shell_word};

/// What is said of a plan before the question, besides its summary.
pub fn before(plan: &Plan) -> Option<String> {
    let mut hosts: Vec<&str> = plan.steps.iter().map(|step| step.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let text = plan.pipeline.row().sentences.before?;
    Some(fill(text, &[("cluster", plan.cluster_name.clone()), ("hosts", hosts.join(", "))]))
}

/// What is reported where there was nothing to do.
pub fn nothing_to_do(ended: &Ended) -> String {
    let text = ended.pipeline.row().sentences.nothing_to_do;
    fill(text, &[("cluster", ended.cluster.clone()), ("advice on removed hosts", advice(ended).to_owned())])
}

/// What is reported after a success.
pub fn success(ended: &Ended, status: &Status) -> String {
    let sentences = ended.pipeline.row().sentences;
    let own_network = ended.network_of_operator;
    let remains = match own_network {
        true => {
            "; network links and rules of the pod network that you installed may stay until its own clean-up or a reboot"
        }
        false => "",
    };
    let ready = match own_network {
        true => "up; its nodes stay NotReady until you install a pod network",
        false => "ready",
    };
    let more = if ended.kubeconfig.is_some() { sentences.kubeconfig } else { "" };
    let kubeconfig = ended.kubeconfig.clone().unwrap_or_default();
    let text = format!("{}{more}", sentences.success);
    let values = [
        ("ready", ready.to_owned()),
        ("network's remains", remains.to_owned()),
        ("advice on removed hosts", advice(ended).to_owned()),
        ("kubeconfig", shell_word(&kubeconfig.to_string_lossy())),
    ];
    fill(&text, &[values.as_slice(), &of(status)].concat())
}

/// What is reported after a run was rolled back.
pub fn rolled_back(ended: &Ended, status: &Status) -> String {
    fill(ended.pipeline.row().sentences.rolled_back, &of(status))
}

/// What the operator does after all hosts were deleted.
const fn advice(ended: &Ended) -> &'static str {
    match ended.missing.is_empty() {
        true => "; remove them from cluster.yaml, so that `create` and `add-node` do not add them again",
        false => "",
    }
}

fn of(status: &Status) -> Vec<(&'static str, String)> {
    let counts = &status.counts;
    vec![
        ("cluster", status.cluster.clone()),
        ("run", status.run.clone()),
        ("done", counts.done.to_string()),
        ("satisfied", counts.satisfied.to_string()),
        ("undone", counts.undone.to_string()),
        ("program", program()),
    ]
}

/// A text with the values of what stands in braces. A value is not searched again: it may have braces of its own.
fn fill(text: &str, values: &[(&'static str, String)]) -> String {
    let mut parts = text.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        filled.extend(values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str()));
        filled.push_str(rest);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn a_value_with_braces_stays_as_it_is() {
        let values = [("cluster", "{run}".to_owned()), ("run", "R".to_owned())];
        assert_eq!(fill("{cluster} of {run}: 1", &values), "{run} of R: 1");
    }
}
