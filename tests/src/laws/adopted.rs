//! A cluster that others have made, and that was adopted: its certificates, and its upgrade.

use std::sync::Arc;

use kubexm_engine::Outcome;
use kubexm_engine::events::Silent;
use kubexm_plan::Pipeline;

use super::case::Case;
use super::fleet::Fleet;
use super::plans::{FORCED, adopt_plan, renew_plan, running_adopted};
use super::run::{Carried, How, Setting, said};
use crate::samples::Sample;

impl<F: Fleet> Case<F> {
    /// Its adopted hosts, and the renewal of all of their certificates.
    pub async fn of_adopted(sample: &Sample) -> Result<Self, String> {
        let adoption = Self::of(sample, Pipeline::Adopt).await?;
        let start = adoption.carried_out().await?.fork();
        let plan = renew_plan(&adoption.sample, &start, &adoption.setting, FORCED).await?;
        let setting = Setting { name: Pipeline::CertsRenew.name().to_owned(), plan, ..adoption.setting.clone() };
        let name = format!("renewal of an adopted {}", sample.name);
        Ok(Self { name, pipeline: Pipeline::CertsRenew, setting, start, ..adoption })
    }

    /// Its adopted hosts, and their upgrade.
    pub async fn of_adopted_upgrade(sample: &Sample) -> Result<Self, String> {
        // Of the version from which it is upgraded.
        let made = Self::of(sample, Pipeline::Upgrade).await?;
        let start = made.start.fork();
        start.forget_kubexm();
        let plan = adopt_plan(&made.sample, &start).await?;
        let adoption = Setting { name: Pipeline::Adopt.name().to_owned(), plan, ..made.setting.clone() };
        let run = Carried::new(&adoption)?;
        let outcome = run.begin(&start, &Silent, How::KEEP).await?.map_err(said)?;
        if outcome != Outcome::Succeeded {
            return Err(format!("the cluster is not adopted: {outcome:?}\n{}", run.report()));
        }
        let start = start.fork();
        start.deliver_nothing();
        let (bundle, plan) = made.sample.plan_upgrade_of_adopted(&running_adopted(&made.sample, &start).await?);
        start.serve(&plan);
        let setting = Setting { plan, bundle: Arc::new(bundle), ..made.setting.clone() };
        let name = format!("upgrade of an adopted {}", sample.name);
        Ok(Self { name, setting, start, ..made })
    }
}
