//! Slots: values that exist only while a run continues. They are made for the step that reads them, sent with its
//! requests, and forgotten; they are never journalled, logged or shown.
//!
//! What the controller keeps (certificates) is given with every look. What a host makes (a join token) is made only once
//! a step that reads it was found wanting, for all steps that read it at the same time, and anew when it is old or a try
//! that had it failed: it may be what has run out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use kubexm_plan::{Op, Plan, SlotName, SlotProvider, Step};
use zeroize::{Zeroize, Zeroizing};

use crate::EngineError;
use crate::link::SlotValues;
use crate::run_context::Links;

/// How long a value that was made on a host is given out. kubeadm's uploaded certificates live two hours, its tokens a
/// day; a join takes minutes.
const GOOD_FOR: Duration = Duration::from_secs(20 * 60);

/// Makes the values of slots. The same slot gives the same value in every run, as long as it is good: otherwise a
/// second run would change something.
#[async_trait]
pub trait SlotSource: Send + Sync {
    /// The value of a slot; `plan` has the providers of all others.
    async fn value(&self, name: &SlotName, provider: &SlotProvider, plan: &Plan) -> Result<Vec<u8>, EngineError>;
}

/// The slots that a step's ops read.
pub fn reads(step: &Step) -> BTreeSet<&SlotName> {
    step.ops.iter().flat_map(Op::slots).collect()
}

/// The values that one try of a step was given; wiped when the try is over.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) values: SlotValues,
}

impl Drop for Given {
    fn drop(&mut self) {
        self.values.values_mut().for_each(Zeroize::zeroize);
    }
}

/// Which making of a slot the tries of one step were given last.
pub(crate) type Used = BTreeMap<SlotName, u64>;

/// A value that was made on a host.
struct Made {
    value: Zeroizing<Vec<u8>>,
    at: Instant,
    /// Counts the makings of this slot.
    serial: u64,
}

/// The values of one attempt at a run.
pub(crate) struct Slots<'a> {
    plan: &'a Plan,
    links: &'a Links,
    source: &'a dyn SlotSource,
    /// Held by name while a value is being made, so that nobody makes a second one beside it.
    made: Mutex<BTreeMap<SlotName, Arc<tokio::sync::Mutex<Option<Made>>>>>,
}

impl<'a> Slots<'a> {
    pub(crate) fn new(plan: &'a Plan, links: &'a Links, source: &'a dyn SlotSource) -> Self {
        Self { plan, links, source, made: Mutex::default() }
    }

    fn provider(&self, name: &SlotName) -> Result<&'a SlotProvider, EngineError> {
        self.plan.slots.get(name).ok_or_else(|| EngineError::Slot {
            slot: name.0.clone(),
            reason: "the plan names no provider; this is a fault of the recipe".to_owned(),
        })
    }

    /// The values that the controller keeps, for a look, and those that last where they can be had already.
    pub(crate) async fn kept(&self, step: &Step) -> Result<Given, EngineError> {
        let mut given = Given::default();
        for name in reads(step) {
            let provider = self.provider(name)?;
            if provider.made_on().is_none() {
                given.values.insert(name.clone(), self.source.value(name, provider, self.plan).await?);
            } else if let Some(host) = provider.made_on().filter(|_| provider.lasts()) {
                // Without it the step is looked at all the same, and does not hold. Why it cannot be had is reported then.
                if let Ok((value, _)) = self.made(name, provider, host, None).await {
                    given.values.insert(name.clone(), value.to_vec());
                }
            }
        }
        Ok(given)
    }

    /// Adds the values that hosts make, for a change. `used` are those that earlier tries of the step had; they are
    /// not given again.
    pub(crate) async fn complete(&self, step: &Step, given: &mut Given, used: &mut Used) -> Result<(), EngineError> {
        for name in reads(step) {
            let provider = self.provider(name)?;
            if let Some(host) = provider.made_on() {
                let (value, serial) = self.made(name, provider, host, used.get(name).copied()).await?;
                given.values.insert(name.clone(), value.to_vec());
                used.insert(name.clone(), serial);
            }
        }
        Ok(())
    }

    async fn made(
        &self,
        name: &SlotName,
        provider: &SlotProvider,
        host: &str,
        dead: Option<u64>,
    ) -> Result<(Zeroizing<Vec<u8>>, u64), EngineError> {
        let cell = self.made.lock().unwrap_or_else(PoisonError::into_inner).entry(name.clone()).or_default().clone();
        let mut cell = cell.lock().await;
        let last = cell.as_ref().map_or(0, |made| made.serial);
        if let Some(made) = cell.as_ref().filter(|made| made.at.elapsed() < GOOD_FOR && Some(made.serial) != dead) {
            return Ok((made.value.clone(), made.serial));
        }
        let value = match provider {
            // What lies on a host is checked before it is used, and who gives out values does that.
            SlotProvider::AdminKubeconfig { .. } => self.source.value(name, provider, self.plan).await?,
            _ => {
                let link = self.links.get(host).ok_or_else(|| EngineError::Slot {
                    slot: name.0.clone(),
                    reason: format!("it is made on {host}, to which there is no link; this is a fault of the program"),
                })?;
                link.provide(provider).await?
            }
        };
        let value = Zeroizing::new(value);
        *cell = Some(Made { value: value.clone(), at: Instant::now(), serial: last + 1 });
        Ok((value, last + 1))
    }
}
