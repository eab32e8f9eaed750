//! The workers, so many at a time.

use kubexm_plan::StepId;

use super::options::PauseAfter;
use super::turn::{Turns, WorkersTurn};
use crate::context::PlannedHost;
use crate::draft::{Chain, Draft};
use crate::error::RecipeError;
use crate::phases::ClusterHosts;

/// A worker starts when the one `batch` places before it has ended: it does not wait for its success, since a worker that
/// fails is a failure domain of its own. Returns the steps after which pods can run on all of them.
pub(super) fn run<'a>(
    draft: &mut Draft<'a>,
    site: &ClusterHosts<'a>,
    turns: &mut Turns<'_, 'a>,
    after: &[StepId],
) -> Result<Vec<StepId>, RecipeError> {
    let batch = turns.options.batch.max(1);
    let mut workers: Vec<&PlannedHost<'a>> = site.workers().filter(|node| turns.has_turn(draft.cx, node)).collect();
    if turns.options.pause_after == Some(PauseAfter::FirstBatch) {
        workers.truncate(batch);
    }
    let mut ends: Vec<End> = Vec::new();
    for node in workers {
        let Some(WorkersTurn { mut chain, uncordon, one_way }) = turns.worker(draft, node, after)? else { continue };
        match ends.len().checked_sub(batch).and_then(|at| ends.get(at)) {
            Some(End::Succeeded(step)) => chain.starts_after(step),
            Some(End::Settled(step)) => chain.starts_settled(step),
            None => {}
        }
        let last = draft.add(chain);
        ends.extend(match (uncordon, node.optional()) {
            (Some(uncordon), true) if one_way => {
                let mut chain = Chain::after(last);
                chain.then([uncordon]);
                draft.add(chain).into_iter().map(End::Settled).collect()
            }
            (Some(mut uncordon), true) => {
                uncordon.after_end = last;
                let mut chain = Chain::after(after.iter().cloned());
                chain.then([uncordon]);
                draft.add(chain).into_iter().map(End::Succeeded).collect()
            }
            (Some(uncordon), false) => {
                let mut chain = Chain::after(last);
                chain.then([uncordon]);
                draft.add(chain).into_iter().map(End::Succeeded).collect::<Vec<_>>()
            }
            (None, true) => last.into_iter().map(End::Settled).collect(),
            (None, false) => last.into_iter().map(End::Succeeded).collect(),
        });
    }
    Ok(ends.into_iter().filter_map(|end| if let End::Succeeded(step) = end { Some(step) } else { None }).collect())
}

/// The last step of a worker, and what later steps wait for: that it has succeeded, or that it has ended.
enum End {
    Succeeded(StepId),
    Settled(StepId),
}
