//! Copies blobs to a node: from other hosts of the run and the cluster's depots if they have them, else from the bundle.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kubexm_plan::op::Blobs;
use kubexm_plan::{Op, Step};
use kubexm_spec::Digest;
use kubexm_spec::event::EventKind;
use tokio::time::Instant;

use crate::link::{DeliverProgress, Link, ObservedState};
use crate::spread::Fill;
use crate::step_runner::{StepRunner, Trouble};

/// Blobs that a host needs and has only in part.
struct Wanting<'p> {
    op: &'p Blobs,
    missing: BTreeMap<Digest, u64>,
}

/// What the host says is missing of them; all of it if its state is of another form. Who asks for more than is missing gets no byte twice.
fn missing(blobs: &Blobs, found: &ObservedState) -> BTreeMap<Digest, u64> {
    let mut missing = blobs.blobs.clone();
    if let Ok(state) = found.state::<Blobs>() {
        missing.retain(|digest, _| state.missing.contains(digest));
    }
    missing
}

impl StepRunner<'_, '_> {
    /// Copies the blobs of those `Blobs` ops that are not satisfied. Complete blobs are kept if the delivery is
    /// interrupted. The time of the step is over at `ends`.
    pub(crate) async fn deliver(
        &self,
        step: &Step,
        link: &dyn Link,
        found: &[ObservedState],
        ends: Instant,
    ) -> Result<(), Trouble> {
        let wanting: Vec<Wanting<'_>> = step
            .ops
            .iter()
            .zip(found)
            .filter_map(|(op, found)| match op {
                Op::Blobs(blobs) if !found.satisfied => Some(Wanting { op: blobs, missing: missing(blobs, found) }),
                _ => None,
            })
            .collect();
        let sizes: BTreeMap<Digest, u64> =
            wanting.iter().flat_map(|wanting| wanting.op.blobs.iter().map(|(digest, size)| (*digest, *size))).collect();
        if sizes.is_empty() {
            return Ok(());
        }
        let total = sizes.values().sum();
        let arrived = Mutex::new(BTreeMap::new());
        let report = |done| {
            self.attempt.emit(EventKind::Progress {
                what: step.id.to_string(),
                done,
                total: Some(total),
                unit: "bytes".to_owned(),
            });
        };
        let progress = |digest, done, _| {
            let mut arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
            arrived.insert(digest, done);
            report(arrived.values().sum());
        };
        tokio::select! {
            brought = self.bring((step, ends), wanting, link, &progress) => brought?,
            () = self.attempt.options.cancel.cancelled() => return Err(Trouble::Interrupted),
        }
        report(total);
        Ok(())
    }

    async fn bring(
        &self,
        (step, ends): (&Step, Instant),
        wanting: Vec<Wanting<'_>>,
        link: &dyn Link,
        progress: DeliverProgress<'_>,
    ) -> Result<(), Trouble> {
        let mut missing: BTreeMap<Digest, u64> = BTreeMap::new();
        // Of what a host gets as if there were no others, though there are.
        let mut alone = 0;
        let warn = |text| self.attempt.emit(EventKind::Warning { text });
        for Wanting { op, missing: lacking } in wanting {
            let rest = match op.shared_at {
                Some(at) => {
                    let blobs = self.blobs;
                    let fill = Fill { step, op, at, link, ends, missing: lacking, blobs, progress, warn: &warn };
                    self.spread.fill(fill).await?
                }
                None => op.blobs.clone(),
            };
            if rest.is_empty() {
                continue;
            }
            let all: Vec<(Digest, u64)> = rest.into_iter().collect();
            match &op.depots {
                Some(depots) => {
                    let fetched = link.fetch(&step.id, &all, depots, progress).await?;
                    if op.shared_at.is_some() {
                        let left = bytes(&fetched.missing);
                        self.spread.brought_by_others(bytes(&all).saturating_sub(left), 0);
                        alone += left;
                    }
                    for reason in fetched.reasons {
                        warn(format!("{}: {reason}; blobs that no depot serves are sent from this machine", step.id));
                    }
                    missing.extend(fetched.missing);
                }
                None => {
                    alone += op.shared_at.map_or(0, |_| bytes(&all));
                    missing.extend(all);
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<(Digest, u64)> = missing.into_iter().collect();
        link.deliver(&missing, self.blobs, progress).await?;
        self.spread.brought_by_others(0, alone);
        Ok(())
    }
}

fn bytes(blobs: &[(Digest, u64)]) -> u64 {
    blobs.iter().map(|(_, size)| *size).sum()
}
