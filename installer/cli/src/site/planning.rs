//! Looking at the hosts, preflight, the plan and its lint: all that comes before the question.

use std::collections::BTreeMap;

use kubexm_engine::EventSink;
use kubexm_plan::lint::{self, Problem};
use kubexm_plan::{CheckedPlan, Facts, Plan, Severity};
use kubexm_recipes::PlanCx;
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};

use super::findings::Findings;
use super::fleet::Fleet;
use super::mesh;
use super::opened::Opened;
use super::packages::Carried;
use super::summary;
use crate::support::home::Home;
use crate::support::{events, failures};

/// What planning starts from, besides bundle and cluster.
#[derive(Debug)]
pub struct Seen {
    /// By host.
    pub facts: BTreeMap<String, Facts>,
    /// Packages of the bundle that some host lacks.
    pub carried: Carried,
}

/// Gathers facts and holds them against preflight's table; everything that must be mended is told at once.
pub async fn look(opened: &Opened, fleet: &Fleet, events: &dyn EventSink) -> Result<Seen, Failure> {
    let (seen, findings) = examine(opened, fleet, events).await?;
    if findings.failures().next().is_some() {
        return Err(not_fit(opened, &findings));
    }
    for warning in findings.warnings() {
        events::warning(events, warning.to_string());
    }
    Ok(seen)
}

/// What is seen on the hosts, and what preflight says of that and of the ways between them. Changes nothing.
pub async fn examine(opened: &Opened, fleet: &Fleet, events: &dyn EventSink) -> Result<(Seen, Findings), Failure> {
    let facts = fleet.facts(events).await?;
    events::phase(events, "preflight");
    let carried = Carried::read(opened, &facts).await?;
    let cx = opened.plan_cx(&facts, &carried.packages);
    let mut found = kubexm_recipes::preflight(&cx);
    let dialed = mesh::dial(&kubexm_recipes::mesh(&cx), &fleet.links(), events).await?;
    found.extend(kubexm_recipes::preflight::mesh::findings(&cx, &dialed));
    let hosts = opened.cluster.hosts.iter().map(|host| host.name.clone()).collect();
    Ok((Seen { facts, carried }, Findings::new(hosts, found, dialed)))
}

/// The end of a verb whose hosts are not fit.
pub fn not_fit(opened: &Opened, findings: &Findings) -> Failure {
    let text = format!("the hosts are not fit yet, and nothing was changed:\n{}", findings.table());
    Failure::new(ExitCode::Preflight, text).with_data(findings.document(&opened.cluster.name))
}

/// The plan that makes the cluster, checked.
pub fn create(opened: &Opened, mut seen: Seen, home: &Home, events: &dyn EventSink) -> Result<CheckedPlan, Failure> {
    events::phase(events, "plan");
    let cx = seen.plan_cx(opened, home)?;
    checked(kubexm_recipes::create(&cx).map_err(failures::recipe)?, events)
}

/// The plan that adds hosts, checked; all that are not in the cluster yet when none is named.
pub fn add_nodes(
    opened: &Opened,
    mut seen: Seen,
    named: &[String],
    home: &Home,
    events: &dyn EventSink,
) -> Result<CheckedPlan, Failure> {
    events::phase(events, "plan");
    let cx = seen.plan_cx(opened, home)?;
    let new = match named {
        [] => kubexm_recipes::absent(&cx).map_err(failures::recipe)?,
        named => named.to_vec(),
    };
    checked(kubexm_recipes::add_node(&cx, &new).map_err(failures::recipe)?, events)
}

impl Seen {
    /// What planning starts from, with the repositories that hosts get packages from.
    fn plan_cx<'a>(&'a mut self, opened: &'a Opened, home: &Home) -> Result<PlanCx<'a>, Failure> {
        self.carried.publish(opened, &home.cluster(&opened.cluster.name))?;
        Ok(opened.plan_cx(&self.facts, &self.carried.packages))
    }
}

fn checked(plan: Plan, events: &dyn EventSink) -> Result<CheckedPlan, Failure> {
    let (plan, warnings) = lint::check(plan).map_err(refused)?;
    for warning in warnings {
        events::warning(events, text(&warning));
    }
    Ok(plan)
}

/// A plan from a file, checked again.
pub fn check(plan: Plan) -> Result<CheckedPlan, Failure> {
    lint::check(plan).map(|(plan, _)| plan).map_err(refused)
}

/// The plan in short, for the one who is about to say yes.
pub fn show(plan: &Plan, display: &Display) {
    let text = summary::short(plan);
    match display.mode() {
        Mode::Terminal => {
            display.clear();
            text.lines().for_each(|line| note(display, line));
        }
        Mode::Plain => text.lines().for_each(|line| note(display, line)),
        Mode::Json => note(display, text.trim_end()),
    }
}

fn note(display: &Display, text: &str) {
    events::note(&events::Shown(display), text);
}

/// The end of a verb whose plan is refused.
pub fn refused(problems: Vec<Problem>) -> Failure {
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    let lines: Vec<String> = errors.map(|problem| format!("\n- {}", text(problem))).collect();
    let data = serde_json::to_value(&problems).unwrap_or_default();
    Failure::new(ExitCode::PlanLint, format!("the plan does not pass its lint:{}", lines.concat())).with_data(data)
}

fn text(problem: &Problem) -> String {
    match &problem.step {
        Some(step) => format!("{} ({}): {}", problem.rule, step, problem.text),
        None => format!("{}: {}", problem.rule, problem.text),
    }
}
