//! Decides which step may be rolled back next: the DAG of a plan in reverse, limited to steps that changed something.
//! Pure.

use kubexm_plan::Plan;
use petgraph::Direction;
use petgraph::graph::NodeIndex;

use crate::schedule::{Dag, Room};

/// One wave of an undo.
pub(crate) struct UndoOrder<'a> {
    plan: &'a Plan,
    dag: &'a Dag,
    /// Whether a step still has to be rolled back in this wave and was not taken yet.
    member: Vec<bool>,
    /// How many later steps are still unfinished.
    later: Vec<usize>,
    /// Steps that may be rolled back now, by position.
    ready: Vec<usize>,
    room: Room<'a>,
    open: usize,
}

impl<'a> UndoOrder<'a> {
    /// A wave over these steps. The other steps only keep the order: steps that depend on them are rolled back before
    /// the steps that they depend on.
    pub(crate) fn over(plan: &'a Plan, dag: &'a Dag, members: &[usize]) -> Self {
        let mut member = vec![false; plan.steps.len()];
        members.iter().for_each(|&index| member[index] = true);
        let later: Vec<usize> = (0..plan.steps.len()).map(|i| dag.edges(NodeIndex::new(i)).count()).collect();
        let ends: Vec<usize> = (0..later.len()).filter(|&index| later[index] == 0).collect();
        let mut all = Self { plan, dag, member, later, ready: Vec::new(), room: Room::default(), open: members.len() };
        all.reach(ends);
        all
    }

    /// Marks steps without unfinished later steps.
    fn reach(&mut self, mut reached: Vec<usize>) {
        while let Some(index) = reached.pop() {
            if self.member[index] {
                self.ready.push(index);
                continue;
            }
            reached.extend(self.pass(index));
        }
        self.ready.sort_unstable();
    }

    fn pass(&mut self, index: usize) -> Vec<usize> {
        let earlier = self.dag.edges_directed(NodeIndex::new(index), Direction::Incoming);
        let earlier: Vec<usize> = earlier.map(|edge| petgraph::visit::EdgeRef::source(&edge).index()).collect();
        earlier
            .into_iter()
            .filter(|&before| {
                self.later[before] -= 1;
                self.later[before] == 0
            })
            .collect()
    }

    /// Takes the next step, the last of the plan first, on a host that `may` be used.
    pub(crate) fn take(&mut self, may: impl Fn(&str) -> bool) -> Option<usize> {
        let fits = |&index: &usize| {
            let step = &self.plan.steps[index];
            may(&step.host) && self.room.has(self.plan, step)
        };
        let at = self.ready.iter().rposition(fits)?;
        let index = self.ready.remove(at);
        self.member[index] = false;
        self.room.enter(&self.plan.steps[index]);
        Some(index)
    }

    /// A step was rolled back in this wave.
    pub(crate) fn done(&mut self, index: usize) {
        self.room.leave(&self.plan.steps[index]);
        self.open -= 1;
        let earlier = self.pass(index);
        self.reach(earlier);
    }

    /// A step could not be rolled back: the steps that it depends on are left.
    pub(crate) fn failed(&mut self, index: usize) {
        self.room.leave(&self.plan.steps[index]);
    }

    /// A step could not be rolled back and its host is given up: nothing more is done there in this wave, and its steps
    /// block nothing.
    pub(crate) fn give_up(&mut self, index: usize) {
        let host = &self.plan.steps[index].host;
        self.room.leave(&self.plan.steps[index]);
        self.open -= 1;
        for (member, step) in self.member.iter_mut().zip(&self.plan.steps) {
            if *member && step.host == *host {
                *member = false;
                self.open -= 1;
            }
        }
        let (mut passed, ready) = std::mem::take(&mut self.ready)
            .into_iter()
            .partition::<Vec<usize>, _>(|&ready| self.plan.steps[ready].host == *host);
        self.ready = ready;
        passed.push(index);
        for index in passed {
            let earlier = self.pass(index);
            self.reach(earlier);
        }
    }

    /// Number of steps that are not rolled back in this wave.
    pub(crate) fn open(&self) -> usize {
        self.open
    }
}
