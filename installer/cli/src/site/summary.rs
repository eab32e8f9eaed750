//! What a plan will do, for the person who says yes or no to it. Pure.

use std::fmt::Write;

use kubexm_plan::{Plan, Step, Undo};

/// Steps by module, and what cannot be taken back.
pub fn short(plan: &Plan) -> String {
    let mut text = head(plan);
    for (module, steps) in modules(plan) {
        let titles: Vec<&str> = steps.iter().map(|step| step.title.as_str()).collect();
        let _ = writeln!(text, "  {module:14} {:>3}  {}", steps.len(), titles.join("; "));
    }
    tail(&mut text, plan);
    text
}

/// Every step in its order, with what must hold after it.
pub fn long(plan: &Plan) -> String {
    let mut text = head(plan);
    for (number, step) in plan.steps.iter().enumerate() {
        let _ = writeln!(text, "{:>4}. {}  {}", number + 1, step.id, step.title);
        for op in &step.ops {
            let _ = writeln!(text, "        {}", kubexm_engine::status::describe(op));
        }
        if let Some(timed) = &step.probe {
            let _ = writeln!(text, "        then within {} s: {}", timed.within_s, probe(&timed.probe));
        }
    }
    tail(&mut text, plan);
    text
}

// Writing to a string cannot fail; the results of `writeln!` say nothing.
fn head(plan: &Plan) -> String {
    let mut text = format!("{} of cluster {}, bundle {}\n", plan.pipeline, plan.cluster_name, plan.bundle);
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

fn probe(probe: &kubexm_plan::Probe) -> String {
    let value = serde_json::to_value(probe).unwrap_or_default();
    let field = |name: &str| value.get(name).and_then(serde_json::Value::as_str);
    let subject = ["url", "node", "name"].into_iter().find_map(field).unwrap_or_default();
    format!("{} {subject}", field("probe").unwrap_or("probe")).trim_end().to_owned()
}
