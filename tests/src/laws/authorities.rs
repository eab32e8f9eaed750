//! Authorities of kubeadm's that are renewed under their own keys.

use kubexm_plan::Pipeline;
use kubexm_recipes::Renew;

use super::case::Case;
use super::plans::renew_plan;
use super::run::Setting;
use super::{Fleet as _, Rooted};
use crate::samples::Sample;

/// When the fakes' authorities end is later than this, in seconds of Unix time: 2036.
const BEFORE: i64 = 0;
/// And earlier than this: 2039.
const AFTER: i64 = 2_200_000_000;

impl Case<Rooted> {
    /// Its hosts, and the renewal of all authorities and certificates; of authorities that have ended already, if said so.
    pub async fn of_authorities(sample: &Sample, ended: bool) -> Result<Self, String> {
        let made = Self::of(sample, Pipeline::Create).await?;
        let start = made.carried_out().await?.fork();
        let now = if ended { AFTER } else { BEFORE };
        let wanted = Renew { within_s: 0, force: true, authorities: true };
        let plan = renew_plan(sample, &start, &made.setting, (now, wanted)).await?;
        let setting = Setting { name: Pipeline::CertsRenew.name().to_owned(), plan, ..made.setting.clone() };
        let name = format!("renewal of the authorities of {}", sample.name);
        Ok(Self { name, pipeline: Pipeline::CertsRenew, setting, start, ..made })
    }
}
