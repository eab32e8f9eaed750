//! A run that was started earlier: the input of resume and rollback.

use std::collections::BTreeMap;

use kubexm_engine::{Belongs, ClusterLock, Run, RunId};
use kubexm_plan::op::Op;
use kubexm_plan::{CheckedPlan, Pipeline};

use super::driver::RunDriver;
use super::ended::Ended;
use super::{adopted, select};
use crate::access::Access;
use crate::bundle::cluster_source::ClusterSource;
use crate::bundle::opened::{Opened, Verified};
use crate::confirm::{Change, Question};
use crate::error::SessionError;
use crate::fleet::{Fleet, Reach, Unreachable};
use crate::from_backup::FromBackup;
use crate::home::ClusterHome;
use crate::observe::subject::Subject;
use crate::options::{HostOptions, RunOptions};
use crate::registry::not_pruned_since;
use crate::restore::RestoreSource;
use crate::session::Session;

/// A run, with the cluster's lock and with its plan, which belongs to exactly this bundle and cluster.yaml.
#[must_use]
pub struct Loaded<'s, S> {
    pub(super) session: &'s Session<'s>,
    pub(super) subject: S,
    pub(super) access: Access,
    pub(super) home: ClusterHome,
    pub(super) lock: ClusterLock,
    pub(super) run: Run,
    pub(super) plan: CheckedPlan,
}

impl Session<'_> {
    /// Finds the run to resume: the named one, or the cluster's last.
    ///
    /// # Errors
    /// No run can be resumed, it belongs to another bundle or cluster.yaml, or its bundle may not replace one that
    /// another run has installed since.
    pub fn run_to_resume(&self, opened: Opened, named: Option<&str>) -> Result<Loaded<'_, Opened>, SessionError> {
        let home = self.home.cluster(&opened.cluster().name);
        let id = select::to_resume(self.home, &home, named)?;
        let lock = ClusterLock::take(&home.folder, &home.name, &self.holder("resume", &home.name))?;
        let (run, plan, access) = Access::of_run(&opened, self.home, &home.runs(), &id)?;
        opened.check_remembered(self)?;
        Ok(Loaded { session: self, subject: opened, access, home, lock, run, plan })
    }

    /// Finds the run to roll back: the named one, or the cluster's last unless it succeeded.
    ///
    /// # Errors
    /// No run can be rolled back, or it belongs to another bundle or cluster.yaml.
    pub fn run_to_roll_back(&self, opened: Opened, named: Option<&str>) -> Result<Loaded<'_, Opened>, SessionError> {
        let home = self.home.cluster(&opened.cluster().name);
        let id = select::to_roll_back(&home, named, None)?;
        let lock = ClusterLock::take(&home.folder, &home.name, &self.holder("rollback", &home.name))?;
        let (run, plan, access) = Access::of_run(&opened, self.home, &home.runs(), &id)?;
        Ok(Loaded { session: self, subject: opened, access, home, lock, run, plan })
    }

    /// Finds the run of a pipeline without a bundle (`reset`, `delete-node`) to roll back: the named one, or the cluster's
    /// last run.
    ///
    /// # Errors
    /// No run of this pipeline can be rolled back, or it belongs to another cluster.yaml.
    pub fn ledger_run_to_roll_back(
        &self,
        pipeline: Pipeline,
        source: ClusterSource,
        access: Access,
        named: Option<&str>,
    ) -> Result<Loaded<'_, ClusterSource>, SessionError> {
        let home = self.home.cluster(&source.cluster().name);
        let lock = ClusterLock::take(&home.folder, &home.name, &self.holder(pipeline.name(), &home.name))?;
        let id = select::to_roll_back(&home, named, Some(pipeline))?;
        let belongs = Belongs { cluster: source.cluster().digest(), bundle: None };
        let (run, plan) = Run::load(&home.runs(), &id, belongs)?;
        Ok(Loaded { session: self, subject: source, access, home, lock, run, plan })
    }
}

/// A restore that is wanted.
pub enum Restore<'s> {
    /// It begins.
    New(Box<RestoreSource>, Box<Access>),
    /// It was begun and has not ended: some members of etcd may have the data of the backup, and others not.
    Begun(Box<Loaded<'s, RestoreSource>>),
}

impl<'s> Session<'s> {
    /// Finds out whether this restore was begun already.
    ///
    /// # Errors
    /// Another restore has not ended, or it belongs to another cluster.yaml.
    pub fn restore_to_start(&'s self, wanted: RestoreSource, access: Access) -> Result<Restore<'s>, SessionError> {
        let cluster = wanted.cluster();
        let home = self.home.cluster(&cluster.name);
        let lock = ClusterLock::take(&home.folder, &home.name, &self.holder("restore", &home.name))?;
        let Some(id) = select::to_continue(&home, Pipeline::Restore)? else {
            return Ok(Restore::New(Box::new(wanted), Box::new(access)));
        };
        let belongs = Belongs { cluster: cluster.digest(), bundle: None };
        let (run, plan) = Run::load(&home.runs(), &id, belongs)?;
        let is_of_wanted =
            |op: &Op| matches!(op, Op::Blobs(blobs) if blobs.blobs.contains_key(&wanted.archive().sha256));
        if !plan.plan().steps.iter().any(|step| step.ops.iter().any(is_of_wanted)) {
            return Err(of_another(&id, &home));
        }
        Ok(Restore::Begun(Box::new(Loaded { session: self, subject: wanted, access, home, lock, run, plan })))
    }
}

/// Of a restore of something else that has not ended.
pub(crate) fn of_another(id: &RunId, home: &ClusterHome) -> SessionError {
    SessionError::Run(format!(
        "run {id} of cluster {} restores another backup and has not ended: continue with that one, or roll it back first, with --roll-back \
         {id}",
        home.name
    ))
}

/// A `create --from-backup` that is wanted.
pub enum CreateFromBackup<'s> {
    /// It begins, or an earlier one is completed.
    New(Box<FromBackup>, Box<Access>),
    /// It was begun and has not ended.
    Begun(Box<Loaded<'s, FromBackup>>),
}

impl<'s> Session<'s> {
    /// Finds out whether this `create --from-backup` was begun already.
    ///
    /// # Errors
    /// Another one has not ended, or it belongs to another bundle or cluster.yaml.
    pub fn create_from_backup_to_start(
        &'s self,
        wanted: FromBackup,
        access: Access,
    ) -> Result<CreateFromBackup<'s>, SessionError> {
        let home = self.home.cluster(&wanted.cluster().name);
        let lock = ClusterLock::take(&home.folder, &home.name, &self.holder("create", &home.name))?;
        let Some(id) = select::to_continue(&home, Pipeline::CreateFromBackup)? else {
            return Ok(CreateFromBackup::New(Box::new(wanted), Box::new(access)));
        };
        let (run, plan) = Run::load(&home.runs(), &id, wanted.opened().belongs())?;
        let archive = wanted.source().archive.sha256;
        let is_of_wanted = |op: &Op| matches!(op, Op::Blobs(blobs) if blobs.blobs.contains_key(&archive));
        if !plan.plan().steps.iter().any(|step| step.ops.iter().any(is_of_wanted)) {
            return Err(SessionError::Run(format!(
                "run {id} of cluster {} makes it from another backup and has not ended: continue with that one, or roll it back first, \
                 with `kubexm-install rollback {id}`",
                home.name
            )));
        }
        Ok(CreateFromBackup::Begun(Box::new(Loaded { session: self, subject: wanted, access, home, lock, run, plan })))
    }
}

impl<'s> Loaded<'s, Opened> {
    /// Verifies the bundle, as resuming requires.
    ///
    /// # Errors
    /// As [`Opened::verify`].
    pub fn verify(self) -> Result<Loaded<'s, Verified>, SessionError> {
        let Self { session, subject, access, home, lock, run, plan } = self;
        let subject = subject.verify(session)?;
        Ok(Loaded { session, subject, access, home, lock, run, plan })
    }
}

impl<S: Subject> Loaded<'_, S> {
    /// Its plan.
    pub const fn plan(&self) -> &CheckedPlan {
        &self.plan
    }

    /// Asks for confirmation, connects, and rolls the run back. With `skip`, hosts that cannot be reached are left as
    /// they are, and the run stays stuck until it is rolled back again with them.
    ///
    /// # Errors
    /// The answer was no, a host cannot be used, or the run could not continue.
    pub async fn roll_back(
        self,
        hosts: &HostOptions,
        options: &RunOptions<'_>,
        skip: bool,
    ) -> Result<Ended, SessionError> {
        let session = self.session;
        let changed = self.run.replay().steps.values().filter(|story| story.changed()).count();
        let change = Change::Rollback { run: self.run.id().as_str(), plan: self.plan.plan(), changed };
        let provenance = self.subject.bundle().map(Opened::provenance);
        let question = Question { cluster: &self.home.name, provenance, plan_file: None, change };
        session.ask(question).await?;
        let unreachable = match skip {
            true => Unreachable::Untouched,
            false => Unreachable::Refused(
                "\nnothing was changed; --unreachable skip rolls the others back and leaves these as they are",
            ),
        };
        let holder = session.holder("rollback", &self.home.name);
        let reach = Reach { access: &self.access, bundle: self.subject.bundle(), hosts, holder: &holder };
        let fleet = Fleet::connect(session, reach, unreachable).await?;
        let of_run = (self.run.id().as_str(), self.plan.plan());
        adopted::check(session, &fleet, self.subject.cluster(), of_run).await?;
        not_pruned_since(session, &fleet, of_run).await?;
        fleet.keep(session.events).await;
        let (cluster, home, plan) = (self.subject.cluster(), &self.home, &self.plan);
        let bundle = self.subject.bundle();
        let (backup_key, backup_files, operator) = (None, BTreeMap::new(), None);
        let fleet_of_run = &fleet;
        let driver = RunDriver {
            session,
            cluster,
            bundle,
            fleet: fleet_of_run,
            home,
            plan,
            options,
            backup_key,
            backup_files,
            operator,
        };
        let ended = driver.back(self.run, skip).await;
        fleet.close().await;
        drop(self.lock);
        ended
    }
}
