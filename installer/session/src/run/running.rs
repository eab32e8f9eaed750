//! The stage after confirmation: a run whose folder exists, or nothing to do.

use std::sync::Arc;

use kubexm_engine::options::Drill;
use kubexm_engine::{OperatorIdentity, Run, RunId, lock_hosts};
use kubexm_plan::pipeline::NothingToDo;
use kubexm_plan::{CheckedPlan, Pipeline, Plan};
use kubexm_spec::Digest;

use super::driver::RunDriver;
use super::ended::{Direction, Ended};
use super::loaded::Loaded;
use super::{adopted, secrets, select};
use crate::addons::Ahead;
use crate::authorities::Authorities;
use crate::bundle::opened::{Opened, Verified};
use crate::confirm::{Change, Question};
use crate::connected_cluster::ConnectedCluster;
use crate::drift;
use crate::error::SessionError;
use crate::events;
use crate::fleet::{Fleet, Reach, Unreachable};
use crate::from_backup::{FromBackup, note_continued};
use crate::observe::subject::Startable;
use crate::options::{HostOptions, RunOptions};
use crate::plan::Checked;
use crate::registry::not_pruned_since;
use crate::restore::RestoreSource;
use crate::snapshot;

/// A run that may change hosts. Only [`Checked::start`] and [`Loaded::resume`] create one.
#[must_use]
pub struct Running<'s, S> {
    site: ConnectedCluster<'s, S>,
    plan: CheckedPlan,
    /// None if there is nothing to do.
    run: Option<Run>,
    options: RunOptions<'s>,
    /// In whose name the cluster's authorities are sealed, if that was read for this run.
    operator: Option<Arc<OperatorIdentity>>,
}

impl<'s, S: Startable> Checked<'s, S> {
    /// Asks for confirmation and creates the run's folder; nothing is changed on hosts yet. A reset or a
    /// deletion with nothing to do does not ask.
    ///
    /// # Errors
    /// The answer was no, or it was interrupted; agents that connecting has installed are removed.
    pub async fn start(self, options: RunOptions<'s>) -> Result<Running<'s, S>, SessionError> {
        let Self { mut site, plan, file, clean, created, authorities } = self;
        let decided = decide(&site, (&plan, file, created), &authorities, &options).await;
        let run = site.unless_refused(decided).await?;
        site.fleet.keep(site.session.events).await;
        site.fleet.disconnect(&clean, site.session.events).await;
        Ok(Running { site, plan, run, options, operator: authorities.operator })
    }
}

impl<'s> Loaded<'s, Verified> {
    /// Connects to the hosts to execute the rest of the run. It was confirmed when it was started, so nothing is asked.
    ///
    /// # Errors
    /// A host that the run needs cannot be used.
    pub async fn resume(
        self,
        hosts: &HostOptions,
        options: RunOptions<'s>,
    ) -> Result<Running<'s, Verified>, SessionError> {
        self.go_on(hosts, options).await
    }
}

impl<'s> Loaded<'s, RestoreSource> {
    /// Connects to the hosts to execute the rest of a restore. It was confirmed when it was started.
    ///
    /// # Errors
    /// A host that the run needs cannot be used.
    pub async fn continue_restore(
        self,
        hosts: &HostOptions,
        options: RunOptions<'s>,
    ) -> Result<Running<'s, RestoreSource>, SessionError> {
        note_continued(self.session, self.run.id().as_str());
        self.go_on(hosts, options).await
    }
}

impl<'s> Loaded<'s, FromBackup> {
    /// Connects to the hosts to execute the rest of a `create --from-backup`. It was confirmed when it was started.
    ///
    /// # Errors
    /// A host that the run needs cannot be used.
    pub async fn continue_create(
        self,
        hosts: &HostOptions,
        options: RunOptions<'s>,
    ) -> Result<Running<'s, FromBackup>, SessionError> {
        note_continued(self.session, self.run.id().as_str());
        self.go_on(hosts, options).await
    }
}

impl<'s, S: Startable> Loaded<'s, S> {
    async fn go_on(self, hosts: &HostOptions, options: RunOptions<'s>) -> Result<Running<'s, S>, SessionError> {
        let Self { session, subject, access, home, lock, run, plan } = self;
        secrets::check(session, subject.cluster(), plan.plan())?;
        let holder = session.holder("resume", &home.name);
        let reach = Reach { access: &access, bundle: subject.bundle(), hosts, holder: &holder };
        let unreachable = Unreachable::LeftOut(plan.plan(), options.max_failed_workers);
        let fleet = Fleet::connect(session, reach, unreachable).await?;
        let of_run = (run.id().as_str(), plan.plan());
        adopted::check(session, &fleet, subject.cluster(), of_run).await?;
        not_pruned_since(session, &fleet, of_run).await?;
        fleet.keep(session.events).await;
        let site = ConnectedCluster { session, subject, fleet, home, helm: Ahead::default(), lock: Some(lock) };
        Ok(Running { site, plan, run: Some(run), options, operator: None })
    }
}

impl<S: Startable> Running<'_, S> {
    /// Executes the run to its end, whatever that is; the hosts and the cluster are unlocked afterwards.
    ///
    /// # Errors
    /// The run could not continue, or the kubeconfig of a running cluster could not be fetched.
    pub async fn finish(self) -> Result<Ended, SessionError> {
        let Self { site, plan, run, options, operator } = self;
        let ConnectedCluster { session, subject, fleet, home, lock, .. } = site;
        let driver = RunDriver {
            session,
            cluster: subject.cluster(),
            bundle: subject.bundle(),
            fleet: &fleet,
            home: &home,
            plan: &plan,
            options: &options,
            backup_key: subject.backup_key(),
            backup_files: subject.backup_files(),
            operator,
        };
        let ended = match run {
            Some(run) => driver.forward(run, &*subject.blobs()).await,
            None => Ok(Ended {
                cluster: home.name.clone(),
                pipeline: plan.plan().pipeline,
                direction: Direction::Forward,
                run: None,
                kubeconfig: None,
                host_untrusted: false,
                network_of_operator: false,
                missing: fleet.missing().to_vec(),
            }),
        };
        fleet.close().await;
        if plan.plan().pipeline == Pipeline::Restore && ended.as_ref().is_ok_and(Ended::is_success) {
            snapshot::forget(&home)?;
        }
        drop(lock);
        ended
    }
}

async fn decide<S: Startable>(
    site: &ConnectedCluster<'_, S>,
    (checked, plan_file, created): (&CheckedPlan, Option<Digest>, bool),
    authorities: &Authorities,
    options: &RunOptions<'_>,
) -> Result<Option<Run>, SessionError> {
    let (session, plan) = (site.session, checked.plan());
    options.check(plan)?;
    secrets::check(session, site.subject.cluster(), plan)?;
    let drift = drift::of(site, checked, created, authorities).await?;
    let nothing_to_do = match plan.pipeline.row().nothing_to_do {
        NothingToDo::Never => false,
        NothingToDo::NoSteps => plan.steps.is_empty(),
        NothingToDo::NoDifference => drift.as_ref().is_some_and(|drift| drift.steps.is_empty() && drift.skipped == 0),
    };
    if nothing_to_do {
        return Ok(None);
    }
    let (missing, backup) = (site.fleet.missing(), site.subject.restores());
    let change = Change::Run { plan, drift: drift.as_ref(), missing, backup };
    session.check_interrupt()?;
    if let Some(unreadable) = select::unreadable_last(&site.home)? {
        events::warning(session.events, unreadable);
    }
    let provenance = site.subject.bundle().map(Opened::provenance);
    session.ask(Question { cluster: &site.home.name, provenance, plan_file, change }).await?;
    session.check_interrupt()?;
    // Before there is a run: one that cannot begin has nothing to resume.
    let locked = lock_hosts(&site.fleet.links(), plan.longest_step(), session.events, &session.cancel).await;
    locked.map_err(SessionError::links)?;
    session.check_interrupt()?;
    authorities.stage(&site.home, plan)?.commit(session.clock.now())?;
    Ok(Some(Run::create(&site.home.runs(), RunId::at(session.clock.now()), checked)?))
}

impl RunOptions<'_> {
    /// Refuses a drill for a step that the plan does not have, before anything is asked or changed.
    ///
    /// # Errors
    /// There is no such step.
    pub fn check(&self, plan: &Plan) -> Result<(), SessionError> {
        match &self.drill {
            Some(Drill::FailStep(step)) if plan.step(step).is_none() => {
                Err(SessionError::NoStepToFail(step.to_string()))
            }
            _ => Ok(()),
        }
    }
}
