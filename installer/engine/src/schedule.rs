//! Decides which step may run next: the DAG of a plan, limits of hosts and steps that run in parallel, and hosts that
//! were left out. Pure.

use std::collections::BTreeMap;

use kubexm_plan::{Plan, Step, StepId};
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

use crate::EngineError;
use crate::failure_domain::{Domains, Judged};

/// Why one step comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// It must have succeeded.
    After,
    /// It must have finished: succeeded, or its host was left out.
    End,
}

/// The edges of a plan over the positions of its steps.
pub(crate) type Dag = DiGraph<(), Edge>;

/// Builds the DAG; refuses an unknown dependency and a cycle.
pub(crate) fn dag(plan: &Plan) -> Result<Dag, EngineError> {
    let mut graph = Dag::new();
    let positions: BTreeMap<&StepId, NodeIndex> = plan.steps.iter().map(|s| (&s.id, graph.add_node(()))).collect();
    for step in &plan.steps {
        let after = step.after.iter().map(|id| (id, Edge::After));
        for (before, edge) in after.chain(step.after_end.iter().map(|id| (id, Edge::End))) {
            let from = positions.get(before).ok_or_else(|| EngineError::Order {
                step: step.id.clone(),
                reason: format!("it comes after {before}, which does not exist"),
            })?;
            graph.add_edge(*from, positions[&step.id], edge);
        }
    }
    match petgraph::algo::toposort(&graph, None) {
        Ok(_) => Ok(graph),
        Err(cycle) => Err(EngineError::Order {
            step: plan.steps[cycle.node_id().index()].id.clone(),
            reason: "it waits for itself through others".to_owned(),
        }),
    }
}

/// How many steps of a host that install into the cluster run at once, beside its others: they wait for pods most of the time. A helm with
/// a small chart needs some 25 MB of memory.
const INTO_CLUSTER: usize = 10;

/// What runs on a host.
#[derive(Debug, Default)]
struct Running {
    /// Steps that use the host.
    own: usize,
    /// Steps that install into the cluster.
    into_cluster: usize,
}

impl Running {
    fn of(&mut self, step: &Step) -> &mut usize {
        if step.is_into_cluster() { &mut self.into_cluster } else { &mut self.own }
    }

    fn is_none(&self) -> bool {
        self.own == 0 && self.into_cluster == 0
    }
}

/// How many steps of each host run, and whether another one may.
#[derive(Debug, Default)]
pub(crate) struct Room<'a>(BTreeMap<&'a str, Running>);

impl<'a> Room<'a> {
    pub(crate) fn enter(&mut self, step: &'a Step) {
        *self.0.entry(&step.host).or_default().of(step) += 1;
    }

    pub(crate) fn leave(&mut self, step: &Step) {
        if let Some(running) = self.0.get_mut(step.host.as_str()) {
            *running.of(step) -= 1;
        }
        self.0.retain(|_, running| !running.is_none());
    }

    pub(crate) fn has(&self, plan: &Plan, step: &Step) -> bool {
        match self.0.get(step.host.as_str()) {
            Some(running) if step.is_into_cluster() => running.into_cluster < INTO_CLUSTER,
            Some(running) => running.own < plan.host_concurrency.max(1),
            None => self.0.len() < plan.fleet_concurrency.max(1),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Holds,
    Failed,
    Blocked,
}

/// The steps of a plan by their position, and the state of each.
#[derive(Debug)]
pub(crate) struct Schedule<'a> {
    plan: &'a Plan,
    graph: Dag,
    states: Vec<State>,
    room: Room<'a>,
    domains: Domains<'a>,
}

impl<'a> Schedule<'a> {
    /// All steps are waiting. `max_failed_hosts` hosts may be left out.
    pub(crate) fn of(plan: &'a Plan, max_failed_hosts: usize) -> Result<Self, EngineError> {
        let graph = dag(plan)?;
        let states = vec![State::Waiting; plan.steps.len()];
        Ok(Self { plan, graph, states, room: Room::default(), domains: Domains::of(plan, max_failed_hosts) })
    }

    /// Takes the next step that may run now, in the order of the plan.
    pub(crate) fn take(&mut self) -> Option<usize> {
        let next = (0..self.states.len()).find(|&index| {
            self.states[index] == State::Waiting
                && self.room.has(self.plan, &self.plan.steps[index])
                && self.is_free(index)
        })?;
        self.states[next] = State::Running;
        self.room.enter(&self.plan.steps[next]);
        Some(next)
    }

    fn is_free(&self, index: usize) -> bool {
        self.graph.edges_directed(NodeIndex::new(index), Direction::Incoming).all(|edge| {
            let before = edge.source().index();
            self.states[before] == State::Holds
                || (*edge.weight() == Edge::End && self.domains.is_rolled_back(self.plan.steps[before].domain()))
        })
    }

    fn ended(&mut self, index: usize, state: State) {
        self.states[index] = state;
        self.room.leave(&self.plan.steps[index]);
    }

    /// A step succeeded.
    pub(crate) fn holds(&mut self, index: usize) {
        self.ended(index, State::Holds);
    }

    /// A step was abandoned; no step that depends on it runs.
    pub(crate) fn gave_up(&mut self, index: usize) {
        self.ended(index, State::Waiting);
    }

    /// A step failed; returns whether the run can continue without its host, and the steps that are blocked, in the
    /// order of the plan: those that depend on it, and all of its host if that is left out.
    pub(crate) fn failed(&mut self, index: usize) -> (Judged, Vec<usize>) {
        self.ended(index, State::Failed);
        let domain = self.plan.steps[index].domain();
        let judged = self.domains.failed(domain);
        let mut open = vec![index];
        if judged == Judged::LeftOut {
            open.extend(
                (0..self.states.len())
                    .filter(|&other| self.plan.steps[other].domain() == domain && self.states[other] == State::Waiting),
            );
        }
        let mut blocked = Vec::new();
        while let Some(next) = open.pop() {
            if self.states[next] == State::Blocked {
                continue;
            }
            if self.states[next] == State::Waiting {
                self.states[next] = State::Blocked;
                blocked.push(next);
            }
            // A step that only waits for the host's end continues without it.
            let settles = self.domains.is_left_out(self.plan.steps[next].domain());
            let later = self.graph.edges(NodeIndex::new(next)).filter(|e| *e.weight() == Edge::After || !settles);
            open.extend(later.map(|e| e.target().index()).filter(|&i| self.states[i] == State::Waiting));
        }
        blocked.sort_unstable();
        (judged, blocked)
    }

    /// The next host that was left out and has no running steps: it can be rolled back now.
    pub(crate) fn take_drained(&mut self) -> Option<&'a str> {
        let busy = |domain: &str| {
            let mut steps = self.plan.steps.iter().zip(&self.states);
            steps.any(|(step, state)| step.domain() == domain && *state == State::Running)
        };
        self.domains.take_drained(busy)
    }

    /// The undo of a host that was left out has finished.
    pub(crate) fn rolled_back(&mut self, host: &'a str) {
        self.domains.rolled_back(host);
    }

    /// Whether every step succeeded.
    pub(crate) fn all_hold(&self) -> bool {
        self.states.iter().all(|s| *s == State::Holds)
    }

    /// Whether every step succeeded, except those of hosts that were left out.
    pub(crate) fn others_hold(&self) -> bool {
        let mut steps = self.plan.steps.iter().zip(&self.states);
        steps.all(|(step, state)| *state == State::Holds || self.domains.is_rolled_back(step.domain()))
    }

    /// Hosts with a failed step that the run cannot continue without, in the order of the plan.
    pub(crate) fn failed_hosts(&self) -> Vec<&'a str> {
        let failed = |host: &str| {
            self.plan.steps.iter().zip(&self.states).any(|(step, s)| {
                step.host == host && *s == State::Failed && !self.domains.is_rolled_back(step.domain())
            })
        };
        self.plan.hosts.iter().map(|h| h.name.as_str()).filter(|h| failed(h)).collect()
    }
}

#[cfg(test)]
mod tests {
    use kubexm_plan::op::{HelmRelease, Hostname};
    use kubexm_plan::{Op, Pipeline, SCHEMA, Undo};
    use kubexm_spec::Digest;

    use super::*;

    fn plan() -> Plan {
        let release = |name: &str| {
            let (chart, input) = (Digest::of(name), Digest::of(""));
            let (name, namespace) = (name.to_owned(), "apps".to_owned());
            Op::from(HelmRelease { name, namespace, chart, input, slots: Vec::new(), wait_s: 1 })
        };
        let step = |number: usize, op: Op| {
            Step::on("node1", &format!("step.{number}"), "x").ensure(op).undo(Undo::RestoreBefore).build()
        };
        let of_host = (0..6).map(|number| step(number, Hostname { name: number.to_string() }.into()));
        let into_cluster = (6..20).map(|number| step(number, release(&number.to_string())));
        Plan {
            schema: SCHEMA,
            pipeline: Pipeline::Create,
            cluster_name: "demo".to_owned(),
            cluster_id: None,
            cluster: Digest::of(""),
            bundle: None,
            hosts: Vec::new(),
            fleet_concurrency: 1,
            host_concurrency: 4,
            slots: Default::default(),
            texts: Default::default(),
            steps: of_host.chain(into_cluster).collect(),
        }
    }

    #[test]
    fn what_waits_for_the_cluster_takes_no_room_from_what_uses_the_host() {
        let plan = plan();
        let mut schedule = Schedule::of(&plan, 0).unwrap();
        let taken: Vec<usize> = std::iter::from_fn(|| schedule.take()).collect();
        assert_eq!(taken, (0..4).chain(6..16).collect::<Vec<_>>());
        schedule.holds(6);
        assert_eq!(schedule.take(), Some(16));
        schedule.holds(0);
        assert_eq!((schedule.take(), schedule.take()), (Some(4), None));
    }
}
