//! Slots: values that exist only while a run goes on. They are made for the step that reads them, sent with its
//! requests, and forgotten; they are never journalled, logged or shown.

use std::collections::BTreeSet;

use async_trait::async_trait;
use kubexm_plan::op::{Content, File};
use kubexm_plan::{Act, Op, Plan, SlotName, SlotProvider, Step};

use crate::EngineError;
use crate::link::SlotValues;

/// Makes the values of slots. The same slot gives the same value in every run, as long as it is good: otherwise a
/// second run would change something.
#[async_trait]
pub trait SlotSource: Send + Sync {
    /// The value of a slot; `plan` has the providers of all others.
    async fn value(&self, name: &SlotName, provider: &SlotProvider, plan: &Plan) -> Result<Vec<u8>, EngineError>;
}

/// The slots that a step's ops read.
pub fn reads(step: &Step) -> BTreeSet<&SlotName> {
    step.ops
        .iter()
        .flat_map(|op| match op {
            Op::File(File { content: Content::Slot { slot }, .. }) => std::slice::from_ref(slot),
            Op::Act(Act::KubeadmJoin { slots, .. }) => slots,
            _ => &[],
        })
        .collect()
}

/// The values that a step reads.
pub(crate) async fn values(plan: &Plan, step: &Step, source: &dyn SlotSource) -> Result<SlotValues, EngineError> {
    let mut values = SlotValues::new();
    for name in reads(step) {
        let provider = plan.slots.get(name).ok_or_else(|| EngineError::Slot {
            slot: name.0.clone(),
            reason: "the plan names no provider; this is a fault of the recipe".to_owned(),
        })?;
        values.insert(name.clone(), source.value(name, provider, plan).await?);
    }
    Ok(values)
}
