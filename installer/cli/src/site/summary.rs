//! What a plan will do, for the person who says yes or no to it. Pure.

use std::fmt::Write;

use kubexm_plan::{Plan, Step, Undo};

/// Steps by module, and what cannot be taken back.
pub fn short(plan: &Plan) -> String {
    let mut text = head(plan);
    for (module, steps) in modules(plan) {
        let _ = writeln!(text, "  {module}");
        for step in steps {
            let host = if plan.hosts.len() > 1 { format!("{}: ", step.host) } else { String::new() };
            let _ = writeln!(text, "    {host}{}", step.title);
        }
    }
    tail(&mut text, plan);
    text
}

/// Every step in its order, with what must hold after it.
pub fn long(plan: &Plan) -> String {
    let mut text = plan.render();
    text.push('\n');
    tail(&mut text, plan);
    text
}

// Writing to a string cannot fail; the results of `writeln!` say nothing.
fn head(plan: &Plan) -> String {
    let mut text = format!("{} of cluster {}", plan.pipeline, plan.cluster_name);
    if let Some(bundle) = plan.bundle {
        let _ = write!(text, ", bundle {bundle}");
    }
    text.push('\n');
    for host in &plan.hosts {
        let _ = writeln!(text, "  host {}: {}", host.name, host.roles.join(", "));
    }
    let _ = writeln!(text, "{} steps; what holds already is left alone:", plan.steps.len());
    text
}

fn tail(text: &mut String, plan: &Plan) {
    let irreversible: Vec<(&Step, &str)> = plan
        .steps
        .iter()
        .filter_map(|step| match &step.undo {
            Undo::Irreversible { why } => Some((step, why.as_str())),
            _ => None,
        })
        .collect();
    if irreversible.is_empty() {
        let _ = writeln!(text, "Every step can be taken back.");
        return;
    }
    let _ = writeln!(text, "Cannot be taken back:");
    for (step, why) in irreversible {
        let _ = writeln!(text, "  {}: {}: {why}", step.id, step.title);
    }
}

/// Modules in the order in which their first step comes.
fn modules(plan: &Plan) -> Vec<(&str, Vec<&Step>)> {
    let mut modules: Vec<(&str, Vec<&Step>)> = Vec::new();
    for step in &plan.steps {
        let name = step.id.0.split_once('/').map_or(step.id.0.as_str(), |(_, name)| name);
        let module = name.split_once('.').map_or(name, |(module, _)| module);
        match modules.iter_mut().find(|(known, _)| *known == module) {
            Some((_, steps)) => steps.push(step),
            None => modules.push((module, vec![step])),
        }
    }
    modules
}
