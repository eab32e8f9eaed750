//! What makes and renews locks: origins are asked for what a resolution needs, and its charts are rendered.

use kubexm_manifests::requirements::PackageNeed;
use kubexm_spec::Lock;
use kubexm_spec::event::EventKind;

use super::{Needed, Session};
use crate::lock::{Sizes, check_local, lock};
use crate::origins::Origins;
use crate::resolve::resolve;
use crate::{BuildError, Resolution, charts, image_signatures, packages, runtime_package};

/// What is locked, and how.
pub struct Locking<'a> {
    /// Items.
    pub resolution: &'a Resolution,
    /// Packages.
    pub packages: &'a [PackageNeed],
    /// Source of sizes that the catalogue does not have.
    pub sizes: Sizes,
    /// How many items at once.
    pub jobs: usize,
}

impl Session {
    /// Locks everything that is needed.
    pub async fn lock(&self, needed: &Needed, origins: &Origins, jobs: usize) -> Result<Lock, BuildError> {
        let resolution = resolve(&needed.requirements, &needed.zone);
        let packages = &needed.requirements.packages;
        let locking = Locking { resolution: &resolution, packages, sizes: Sizes::Reported, jobs };
        let lock = self.lock_part(needed, origins, &locking, |lock| lock).await?;
        runtime_package::check(&needed.cluster, &lock)?;
        Ok(lock)
    }

    /// Locks a part of what is needed; `whole` makes a whole lock of it, whose charts are rendered then. Images of charts that are
    /// in it stay.
    pub async fn lock_part(
        &self,
        needed: &Needed,
        origins: &Origins,
        locking: &Locking<'_>,
        whole: impl FnOnce(Lock) -> Lock,
    ) -> Result<Lock, BuildError> {
        let Locking { resolution, packages: needs, sizes, jobs } = *locking;
        check_local(resolution, origins)?;
        self.report(EventKind::Phase { name: "lock".to_owned() });
        let report = &*self.events;
        let work = needed.work();
        let new = lock(resolution, origins, sizes, jobs, report).await?;
        let solved = packages::Work { requirements: work.requirements, zone: work.zone };
        let new = packages::complete(&solved, needs, new, origins, report).await?;
        let new = charts::complete(&work, whole(new), origins, sizes, jobs, report).await?;
        image_signatures::complete(&work, new, origins, jobs).await
    }
}
