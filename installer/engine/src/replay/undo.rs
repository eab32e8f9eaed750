//! Processes the records of an undo.

use kubexm_plan::{StepId, Wave};

use super::{IllegalTransition, Replay, RunState, StepVerb, UndoStory};
use crate::journal::{Scope, UndoEnd};

impl Replay {
    pub(super) fn begin_undo(&mut self, scope: &Scope, why: &str, steps: &[StepId]) -> Result<(), IllegalTransition> {
        let continues = matches!(scope, Scope::Run) && matches!(self.state, RunState::RollingBack | RunState::Stuck);
        if let Some(id) = steps.iter().find(|id| self.steps.get(*id).is_none_or(|story| story.before.is_none())) {
            return Err(IllegalTransition(format!("{id} has changed nothing that could be rolled back")));
        }
        for id in steps {
            if let Some(story) = self.steps.get_mut(id) {
                story.undo_error = None;
                // An undo of the host alone may be incomplete; the undo of the run starts again.
                story.wave = story.wave.filter(|_| continues);
            }
        }
        let story = UndoStory { why: why.to_owned(), steps: steps.iter().cloned().collect(), end: None };
        match scope {
            Scope::Run => self.undo = Some(story),
            Scope::Host { host } => drop(self.left_out.insert(host.clone(), story)),
        }
        Ok(())
    }

    pub(super) fn wave_done(&mut self, step: &StepId, wave: Wave) -> Result<(), IllegalTransition> {
        self.in_undo(step)?;
        let reached = self.step(step).wave;
        if reached >= Some(wave) {
            return Err(IllegalTransition(format!("{step} was rolled back up to {reached:?}, and now {wave:?}")));
        }
        if wave == Wave::Start {
            self.step_to(step, StepVerb::Undo)?;
        }
        let story = self.steps.entry(step.clone()).or_default();
        story.wave = Some(wave);
        story.undo_error = None;
        Ok(())
    }

    pub(super) fn end_undo(&mut self, scope: &Scope, end: &UndoEnd) -> Result<(), IllegalTransition> {
        let stories = &self.steps;
        let undo = match scope {
            Scope::Run => self.undo.as_mut(),
            Scope::Host { host } => self.left_out.get_mut(host),
        };
        let undo = undo.filter(|undo| undo.end.is_none());
        let undo = undo.ok_or_else(|| IllegalTransition(format!("no undo of {scope:?} was in progress")))?;
        let open = undo.steps.iter().find(|id| stories.get(*id).is_none_or(|story| !story.rolled_back()));
        if let (UndoEnd::RolledBack, Some(id)) = (end, open) {
            return Err(IllegalTransition(format!("{scope:?} is not rolled back while {id} is not")));
        }
        undo.end = Some(end.clone());
        Ok(())
    }

    /// Only steps that the current undo has announced may be rolled back.
    pub(super) fn in_undo(&self, step: &StepId) -> Result<(), IllegalTransition> {
        let mut open = self.undo.iter().chain(self.left_out.values()).filter(|undo| undo.end.is_none());
        match open.any(|undo| undo.steps.contains(step)) {
            true => Ok(()),
            false => Err(IllegalTransition(format!("{step} is rolled back outside an undo"))),
        }
    }
}
