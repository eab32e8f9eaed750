//! The steps that an undo covers, and those that are kept. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_plan::{Plan, Step, StepId, Undo, Wave};
use petgraph::graph::NodeIndex;
use petgraph::visit::{Dfs, Reversed};

use crate::journal::{Scope, UndoEnd};
use crate::replay::Replay;
use crate::schedule::Dag;

/// The steps to roll back, by position.
pub(crate) struct UndoScope {
    steps: BTreeSet<usize>,
    /// Steps that are rolled back differently than in the plan.
    instead: BTreeMap<usize, Step>,
    /// Changed steps that cannot be rolled back.
    irreversible: Vec<usize>,
    /// Steps that those depend on, which are therefore kept.
    kept: BTreeSet<usize>,
}

impl UndoScope {
    /// Every step in the scope that the run has changed, except those that cannot be rolled back and their
    /// dependencies. A step whose parent is not rolled back here (this run did not change it) is restored like any
    /// other step.
    pub(crate) fn of(plan: &Plan, dag: &Dag, replay: &Replay, scope: &Scope) -> Self {
        let begun = match scope {
            Scope::Run => replay.undo.as_ref(),
            Scope::Host { .. } => None,
        };
        let changed = |step: &Step| {
            let begun = begun.is_some_and(|undo| undo.steps.contains(&step.id));
            let story = replay.steps.get(&step.id);
            let of_scope = match scope {
                Scope::Run => true,
                Scope::Host { host } => step.domain() == host,
            };
            of_scope && (begun || story.is_some_and(crate::replay::StepStory::changed))
        };
        let mut steps: BTreeSet<usize> = (0..plan.steps.len()).filter(|&i| changed(&plan.steps[i])).collect();
        let irreversible: Vec<usize> =
            steps.iter().copied().filter(|&i| matches!(plan.steps[i].undo, Undo::Irreversible { .. })).collect();
        let mut kept = BTreeSet::new();
        for &index in &irreversible {
            let mut walk = Dfs::new(Reversed(dag), NodeIndex::new(index));
            while let Some(earlier) = walk.next(Reversed(dag)) {
                if steps.remove(&earlier.index()) && !irreversible.contains(&earlier.index()) {
                    kept.insert(earlier.index());
                }
            }
        }
        let taken: BTreeSet<&StepId> = steps.iter().map(|&i| &plan.steps[i].id).collect();
        let orphan = |step: &Step| matches!(&step.undo, Undo::WithParent { step } if !taken.contains(step));
        let instead = steps.iter().filter(|&&i| orphan(&plan.steps[i])).map(|&i| {
            let step = Step { undo: Undo::RestoreBefore, ..plan.steps[i].clone() };
            (i, step)
        });
        let instead = instead.collect();
        Self { steps, instead, irreversible, kept }
    }

    /// Ids in the order of the plan.
    pub(crate) fn ids(&self, plan: &Plan) -> Vec<StepId> {
        self.steps.iter().map(|&i| plan.steps[i].id.clone()).collect()
    }

    /// The step, in the form in which it is rolled back.
    pub(crate) fn step<'s>(&'s self, index: usize, plan: &'s Plan) -> &'s Step {
        self.instead.get(&index).unwrap_or(&plan.steps[index])
    }

    /// The steps that are still to be rolled back in a wave. A step with nothing of its own to restore is processed
    /// only in the last wave, so that its node's ledger records it as rolled back.
    pub(crate) fn open_in(&self, wave: Wave, plan: &Plan, replay: &Replay) -> Vec<usize> {
        let acts = |index: usize| match self.step(index, plan).undo {
            Undo::RestoreBefore | Undo::Act { .. } => true,
            Undo::WithParent { .. } | Undo::Nothing | Undo::Irreversible { .. } => wave == Wave::Start,
        };
        let open = |index: usize| replay.step(&plan.steps[index].id).wave < Some(wave);
        self.steps.iter().copied().filter(|&index| acts(index) && open(index)).collect()
    }

    /// The result of an undo without failures.
    pub(crate) fn end(&self, plan: &Plan) -> UndoEnd {
        let Some(step) = self.irreversible.first().map(|&index| &plan.steps[index]) else { return UndoEnd::RolledBack };
        let Undo::Irreversible { why } = &step.undo else { return UndoEnd::RolledBack };
        let kept = match self.kept.len() {
            0 => String::new(),
            1 => "; the step before it stays, too".to_owned(),
            kept => format!("; {kept} steps before it stay, too"),
        };
        UndoEnd::Stuck { why: format!("{} cannot be rolled back: {why}{kept}", step.id) }
    }
}
