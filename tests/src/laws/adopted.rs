//! The certificates of a cluster that others have made, and that was adopted.

use kubexm_plan::Pipeline;

use super::case::Case;
use super::fleet::Fleet;
use super::plans::renew_plan;
use super::run::Setting;
use crate::samples::Sample;

impl<F: Fleet> Case<F> {
    /// Its adopted hosts, and the renewal of all of their certificates.
    pub async fn of_adopted(sample: &Sample) -> Result<Self, String> {
        let adoption = Self::of(sample, Pipeline::Adopt).await?;
        let start = adoption.carried_out().await?.fork();
        let plan = renew_plan(&adoption.sample, &start).await?;
        let setting = Setting { name: Pipeline::CertsRenew.name().to_owned(), plan, ..adoption.setting.clone() };
        let name = format!("renewal of an adopted {}", sample.name);
        Ok(Self { name, pipeline: Pipeline::CertsRenew, setting, start, ..adoption })
    }
}
