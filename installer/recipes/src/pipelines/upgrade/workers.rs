//! The workers, so many at a time.

use kubexm_plan::StepId;

use super::options::PauseAfter;
use super::turn::Turns;
use crate::context::Node;
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::phases::Site;

/// A worker starts when the one `batch` places before it has ended: it does not wait for its success, since a worker that
/// fails is a failure domain of its own.
pub(super) fn run<'a>(
    draft: &mut Draft<'a>,
    site: &Site<'a>,
    turns: &mut Turns<'_, 'a>,
    after: &[StepId],
) -> Result<(), RecipeError> {
    let batch = turns.options.batch.max(1);
    let mut workers: Vec<&Node<'a>> = site.workers().filter(|node| turns.has_turn(node)).collect();
    if turns.options.pause_after == Some(PauseAfter::FirstBatch) {
        workers.truncate(batch);
    }
    let mut ends: Vec<(bool, StepId)> = Vec::new();
    for node in workers {
        let Some(mut chain) = turns.worker(draft, node, after)? else { continue };
        if let Some((optional, end)) = ends.len().checked_sub(batch).and_then(|at| ends.get(at)) {
            match optional {
                true => chain.starts_settled(end),
                false => chain.starts_after(end),
            }
        }
        ends.extend(draft.add(chain).into_iter().map(|end| (node.optional(), end)));
    }
    Ok(())
}
