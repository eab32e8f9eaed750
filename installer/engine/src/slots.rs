//! Slots: values that exist only during a run. They are made for the step that reads them, sent with its requests, and
//! not stored; they are never journalled, logged or shown.
//!
//! Values that the controller keeps (certificates) are sent with every observation. A value that a host makes (a join
//! token) is made only when a step that reads it is not satisfied, for all steps that read it at the same time; it is
//! made again when it is old, or when an attempt with it failed, since it may have expired.

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

/// Provides the values of slots. As long as a value is valid, the slot has the same one in every run: otherwise a
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

/// The values for one attempt of a step; wiped after the attempt.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) values: SlotValues,
}

impl Drop for Given {
    fn drop(&mut self) {
        self.values.values_mut().for_each(Zeroize::zeroize);
    }
}

/// The serial number of each slot's value in the last attempt of a step.
pub(crate) type Used = BTreeMap<SlotName, u64>;

/// A value that was made on a host.
struct Made {
    value: Zeroizing<Vec<u8>>,
    at: Instant,
    /// Number of values that were made for this slot.
    serial: u64,
}

/// The values of one attempt at a run.
pub(crate) struct Slots<'a> {
    plan: &'a Plan,
    links: &'a Links,
    source: &'a dyn SlotSource,
    /// The entry is locked while a value is made, so that only one is made at a time.
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

    /// Values that the controller keeps, for an observation, and lasting values of hosts that can be read already.
    pub(crate) async fn kept(&self, step: &Step) -> Result<Given, EngineError> {
        let mut given = Given::default();
        for name in reads(step) {
            let provider = self.provider(name)?;
            if provider.made_on().is_none() {
                given.values.insert(name.clone(), self.source.value(name, provider, self.plan).await?);
            } else if let Some(host) = provider.made_on().filter(|_| provider.lasts()) {
                // Without it the step is observed as not satisfied; the error is reported when the step runs.
                if let Ok((value, _)) = self.made(name, provider, host, None).await {
                    given.values.insert(name.clone(), value.to_vec());
                }
            }
        }
        Ok(given)
    }

    /// Adds the values that hosts make, for a change. `used` are those of earlier attempts of the step, which are not
    /// used again.
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
        // What lasts is read anew each time: the run itself may have changed it (renewed certificates).
        let good = |made: &&Made| !provider.lasts() && made.at.elapsed() < GOOD_FOR && Some(made.serial) != dead;
        if let Some(made) = cell.as_ref().filter(good) {
            return Ok((made.value.clone(), made.serial));
        }
        let value = match provider {
            // A file from a host must be verified before it is used; the controller's source does that.
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
