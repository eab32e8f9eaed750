//! The cluster of a backup, on hosts that have none.

use std::sync::Arc;

use kubexm_engine::backup::BackupKey;
use kubexm_plan::Pipeline;
use kubexm_plan::backup::Archive;
use kubexm_recipes::FromBackup;
use kubexm_spec::Digest;

use super::Fleet;
use super::case::{Case, archive};
use super::run::{BACKUP_KEY, Setting, said};
use crate::samples::Sample;

impl<F: Fleet> Case<F> {
    /// A `create` from a backup of the cluster that `sample` makes, whose hosts are gone; `now` has the hosts in their place.
    pub async fn of_backup(sample: &Sample, now: &Sample) -> Result<Self, String> {
        let now = now.occupied();
        let made = Self::of(sample, Pipeline::Create).await?;
        let lost = made.carried_out().await?;
        lost.live();
        let (links, key) = (lost.links(), BackupKey::generate());
        let first = sample.cluster().role_groups.control_plane.first().cloned().unwrap_or_default();
        let link = links.get(&first).ok_or("no control plane")?;
        let archive = archive(&**link, &key).await?;
        std::fs::write(made.setting.pki.path().join(BACKUP_KEY), &*key.secret()).map_err(said)?;
        let described = Archive { sha256: Digest::of(&archive), size: archive.len() as u64 };
        let backup = FromBackup {
            archive: described,
            snapshot: 1,
            cluster: "demo",
            id: kubexm_recipes::sample::CLUSTER_ID,
            kubernetes: None,
            nodes: &[],
        };
        let (mut bundle, plan) = now.plan_from(&backup);
        bundle.blobs.insert(described.sha256, archive);
        let start = F::fresh(&now, &plan);
        let fresh = start.snapshot();
        let setting = Setting { plan, bundle: Arc::new(bundle), ..made.setting };
        let name = format!("create from a backup, {}", now.name);
        Ok(Self { name, pipeline: Pipeline::Create, setting, start, sample: now, fresh })
    }
}
