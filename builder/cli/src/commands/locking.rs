//! What `lock` and `update` do alike: ask origins for what a resolution needs, and render its charts.

use kubexm_builder::lock::{Sizes, check_local, lock};
use kubexm_builder::{Resolution, charts, packages};
use kubexm_manifests::requirements::PackageNeed;
use kubexm_spec::Lock;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure};

use super::fetching::{self, Fetching};
use super::lockfile;
use super::what::Needed;

/// Locks a resolution, and packages for `needs`; `whole` makes a whole lock of it, whose charts are rendered then. Images of charts that are in it stay.
pub fn locked(
    needed: &Needed,
    (resolution, sizes): (&Resolution, Sizes),
    needs: &[PackageNeed],
    fetching: &Fetching,
    display: &Display,
    whole: impl FnOnce(Lock) -> Lock,
) -> Result<Lock, Failure> {
    let origins = fetching.origins()?;
    let failed = |e| lockfile::failure(&e);
    check_local(resolution, &origins).map_err(failed)?;
    display.emit(EventKind::Phase { name: "lock".to_owned() });
    let jobs = fetching.jobs.into();
    let report = |kind| display.emit(kind);
    let work = needed.work();
    let asked = async {
        let new = lock(resolution, &origins, sizes, jobs, &report).await?;
        let solved = packages::Work { requirements: work.requirements, zone: work.zone };
        let new = packages::complete(&solved, needs, new, &origins, &report).await?;
        charts::complete(&work, whole(new), &origins, sizes, jobs, &report).await
    };
    fetching::runtime()?.block_on(asked).map_err(failed)
}
