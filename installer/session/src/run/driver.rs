//! The driver of every pipeline: executes a run to its end, forward or as a rollback.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kubexm_engine::execute::roll_back;
use kubexm_engine::link::BlobSource;
use kubexm_engine::{
    ClusterPki, EngineError, ExecuteOptions, Links, OperatorIdentity, Outcome, Run, controller_link, execute,
    lock_hosts, status,
};
use kubexm_plan::op::Effect;
use kubexm_plan::pipeline::AfterSuccess;
use kubexm_plan::{CONTROLLER, CheckedPlan, Op};
use kubexm_recipes::network;
use kubexm_spec::Cluster;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::ended::{Direction, Ended, EndedRun};
use super::secrets::ControllerSlots;
use super::{agents, kubeconfig};
use crate::bundle::installed;
use crate::bundle::opened::Opened;
use crate::error::SessionError;
use crate::events;
use crate::fleet::Fleet;
use crate::home::ClusterHome;
use crate::options::RunOptions;
use crate::session::Session;

/// The environment of a run.
pub(super) struct RunDriver<'a> {
    pub session: &'a Session<'a>,
    pub cluster: &'a Cluster,
    /// The bundle to install, if there is one.
    pub bundle: Option<&'a Opened>,
    pub fleet: &'a Fleet,
    pub home: &'a ClusterHome,
    pub plan: &'a CheckedPlan,
    pub options: &'a RunOptions<'a>,
    /// What opens the archive of a backup, if one is restored.
    pub backup_key: Option<Zeroizing<Vec<u8>>>,
    /// Files of that archive that hosts get, by their path there.
    pub backup_files: BTreeMap<String, Zeroizing<Vec<u8>>>,
    /// In whose name the cluster's authorities are sealed, if that was read for this run.
    pub operator: Option<Arc<OperatorIdentity>>,
}

impl RunDriver<'_> {
    /// Executes the rest of the plan; if the run was being rolled back when it stopped, continues the rollback.
    pub async fn forward(&self, mut run: Run, blobs: &dyn BlobSource) -> Result<Ended, SessionError> {
        let events = self.session.events;
        events::note(events, format!("run {} in {}", run.id(), run.dir().display()));
        agents::remember(run.dir(), self.fleet, events);
        let slots = ControllerSlots {
            session: self.session,
            cluster: self.cluster,
            fleet: self.fleet,
            pki: ClusterPki::open(&self.home.pki())?,
            backup_key: self.backup_key.clone(),
            backup_files: self.backup_files.clone(),
            operator: self.operator.clone(),
            read: Mutex::default(),
            refused: AtomicBool::new(false),
        };
        let (links, options) = (self.links(), self.execute_options(&run));
        lock_hosts(&links, self.plan.plan().longest_step(), events, &self.session.cancel)
            .await
            .map_err(SessionError::links)?;
        let outcome = execute(self.plan, &links, &mut run, &slots, blobs, events, options.clone()).await;
        let outcome = outcome.map_err(|error| self.stopped(error, self.options.commands.resume(run.id().as_str())))?;
        let outcome = self.keep_or_roll_back(outcome, (&mut run, &links), options).await?;
        let mut kubeconfig = None;
        match (outcome, self.plan.plan().pipeline.row().after_success) {
            // Only some of the hosts were reset: the cluster stays.
            (Outcome::Succeeded, AfterSuccess::ClusterRemoved) if !self.is_of_whole_cluster() => {}
            (Outcome::Succeeded, AfterSuccess::ClusterRemoved) => {
                self.remove_kubeconfig();
                if self.fleet.missing().is_empty() {
                    installed::forget(self.home)?;
                }
            }
            (Outcome::Succeeded | Outcome::Partial, AfterSuccess::ClusterInstalled) => {
                if let Some(opened) = self.bundle {
                    installed::remember(self.home, run.id().as_str(), &opened.bundle_record())?;
                }
                // Of an adopted cluster the plan says itself whether its endpoint is cluster.yaml's.
                let adopted = self.plan.plan().is_of_adopted();
                if !adopted && !self.plan.plan().has_controller_steps() {
                    let fetched = kubeconfig::fetch(self.fleet, self.cluster, self.home).await;
                    fetched.map_err(|error| SessionError::Kubeconfig(Box::new(error)))?;
                }
                kubeconfig = Some(self.home.kubeconfig()).filter(|path| !adopted || path.is_file());
            }
            (Outcome::Succeeded, AfterSuccess::HostsRemoved) => kubeconfig = self.renewed_kubeconfig().await?,
            (Outcome::RolledBack | Outcome::Stuck, _) => {
                agents::delete(&run, self.plan.plan(), self.fleet, events).await
            }
            (Outcome::Succeeded, AfterSuccess::ClusterKept) => {
                kubeconfig = Some(self.home.kubeconfig()).filter(|path| path.is_file());
            }
            (Outcome::Partial, _) | (Outcome::Failed | Outcome::Interrupted, _) => {}
        }
        let host_untrusted = slots.refused.load(Ordering::Relaxed);
        Ok(Ended { kubeconfig, host_untrusted, ..self.ended(Direction::Forward, outcome, &run) })
    }

    /// Rolls back what a run has changed, or continues doing so; with `skip_unreachable`, also without hosts that
    /// cannot be reached.
    pub async fn back(&self, mut run: Run, skip_unreachable: bool) -> Result<Ended, SessionError> {
        let events = self.session.events;
        events::note(events, format!("rolling back run {} in {}", run.id(), run.dir().display()));
        let options = ExecuteOptions { skip_unreachable, ..self.execute_options(&run) };
        let links = self.links();
        lock_hosts(&links, self.plan.plan().longest_step(), events, &self.session.cancel)
            .await
            .map_err(SessionError::links)?;
        let outcome = roll_back(self.plan, &links, &mut run, events, options).await;
        let outcome =
            outcome.map_err(|error| self.stopped(error, self.options.commands.rollback(run.id().as_str())))?;
        agents::delete(&run, self.plan.plan(), self.fleet, events).await;
        if outcome == Outcome::RolledBack {
            installed::rolled_back(self.home, run.id().as_str())?;
        }
        Ok(self.ended(Direction::Back, outcome, &run))
    }

    /// Links to the hosts, and to the controller if the plan has steps for it.
    fn links(&self) -> Links {
        let mut links = self.fleet.links();
        if self.plan.plan().has_controller_steps() {
            links.insert(CONTROLLER.to_owned(), Arc::new(controller_link(&self.home.folder)));
        }
        links
    }

    fn ended(&self, direction: Direction, outcome: Outcome, run: &Run) -> Ended {
        let plan = self.plan.plan();
        let status = status::of(run.id().as_str(), plan, run.replay());
        Ended {
            cluster: plan.cluster_name.clone(),
            pipeline: plan.pipeline,
            direction,
            run: Some(EndedRun { outcome, status, report: run.dir().join("report.md") }),
            kubeconfig: None,
            host_untrusted: false,
            network_of_operator: network::is_left_to_operator(self.cluster),
            missing: self.fleet.missing().to_vec(),
        }
    }

    fn execute_options(&self, run: &Run) -> ExecuteOptions {
        let (id, commands) = (run.id().as_str(), self.options.commands);
        ExecuteOptions {
            rollback_command: commands.rollback(id),
            on_failure: self.options.on_failure,
            max_failed_hosts: self.options.max_failed_workers,
            fan_out: self.options.fan_out,
            drill: self.options.drill.clone(),
            cancel: self.session.cancel.clone(),
            // After a reset there is no pod network whose check could be remembered.
            remembered: (self.plan.plan().pipeline.row().after_success != AfterSuccess::ClusterRemoved)
                .then(|| self.home.network()),
            ..ExecuteOptions::new(self.session.controller.tool.as_str(), commands.resume(id))
        }
    }

    /// The error of a run that the engine could not continue.
    fn stopped(&self, error: EngineError, command: String) -> SessionError {
        if let EngineError::Stopped { record } = &error
            && self.options.drill.is_some()
        {
            let text = format!("drill: stopping at record {record}; to continue: {command}");
            events::note(self.session.events, text);
            self.options.commands.die();
        }
        SessionError::Stopped { error: Box::new(error), command }
    }

    /// The operator's kubeconfig may have the address of a control plane that was deleted: it gets that of one that stays.
    async fn renewed_kubeconfig(&self) -> Result<Option<PathBuf>, SessionError> {
        let path = self.home.kubeconfig();
        let is_removal = |op: &Op| matches!(op, Op::Act(act) if matches!(act.effect(), Effect::RemovesMember { .. }));
        let removed = self.plan.plan().steps.iter().find(|step| step.ops.iter().any(is_removal));
        match removed {
            Some(step) if path.is_file() => kubeconfig::fetch_from(self.fleet, self.cluster, self.home, &step.host)
                .await
                .map_err(|error| SessionError::Kubeconfig(Box::new(error)))?,
            _ => {}
        }
        Ok(Some(path).filter(|path| path.is_file()))
    }

    /// Whether the plan includes every host that was reached.
    fn is_of_whole_cluster(&self) -> bool {
        self.plan.plan().hosts.len() + self.fleet.missing().len() >= self.cluster.hosts.len()
    }

    fn remove_kubeconfig(&self) {
        let kubeconfig = self.home.kubeconfig();
        if let Err(error) = std::fs::remove_file(&kubeconfig)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            let text = format!("{} is not needed any more and could not be removed: {error}", kubeconfig.display());
            events::warning(self.session.events, text);
        }
    }
}
