//! A run from its folder to its end: forward, or back.

use std::path::Path;

use kubexm_engine::execute::take_back;
use kubexm_engine::{ClusterPki, EngineError, EventSink, ExecuteOptions, Outcome, Run, Status, execute, status};
use kubexm_plan::CheckedPlan;
use kubexm_spec::ExitCode;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::again::{Again, program, shell_word};
use super::{agents, kubeconfig, told};
use crate::site::blobs::BundleBlobs;
use crate::site::fleet::Fleet;
use crate::site::opened::Opened;
use crate::support::events::{self, Shown};
use crate::support::home::ClusterHome;
use crate::support::{failures, start};

/// What a run is carried out with.
pub struct Site<'a> {
    /// Bundle and cluster.
    pub opened: &'a Opened,
    /// Hosts.
    pub fleet: &'a Fleet,
    /// Where the run's folder lies.
    pub home: &'a ClusterHome,
    /// How the program was called.
    pub again: Again<'a>,
    /// Cancelled by Ctrl-C.
    pub cancel: &'a CancellationToken,
    /// Who reads.
    pub display: &'a Display,
}

impl Site<'_> {
    /// Carries the plan out, or on. The last event of the stream is told here when all went well.
    pub async fn carry_out(&self, mut run: Run, plan: &CheckedPlan) -> Result<(), Failure> {
        let shown = Shown(self.display);
        events::note(&shown, format!("run {} in {}", run.id(), run.dir().display()));
        agents::remember(run.dir(), self.fleet, &shown);
        let pki = ClusterPki::open(&self.home.pki()).map_err(failures::engine)?;
        let blobs = BundleBlobs(self.opened.bundle.clone());
        let options = self.options(&run);
        let outcome = execute(plan, &self.fleet.links(), &mut run, &pki, &blobs, &shown, options).await;
        let outcome = outcome.map_err(|error| self.broken(error, &self.again.resume(run.id().as_str())))?;
        let (status, report) = (status::of(run.id().as_str(), plan.plan(), run.replay()), run.dir().join("report.md"));
        match outcome {
            Outcome::Succeeded => self.succeeded(&status, &report, &shown).await,
            Outcome::Partial => {
                self.fetch_kubeconfig().await?;
                Err(told::unwell(outcome, &status, &report))
            }
            Outcome::RolledBack => {
                agents::take_away(&run, plan.plan(), self.fleet, &shown).await;
                Err(told::unwell(outcome, &status, &report))
            }
            // A run that was going back when it was resumed has come to the end that was wanted.
            _ => Err(told::unwell(outcome, &status, &report)),
        }
    }

    /// Takes back what a run has changed, or goes on with that; also without hosts that are not reached, where these may be
    /// skipped.
    pub async fn take_back(&self, mut run: Run, plan: &CheckedPlan, skip_unreachable: bool) -> Result<(), Failure> {
        let shown = Shown(self.display);
        events::note(&shown, format!("taking back run {} in {}", run.id(), run.dir().display()));
        let options = ExecuteOptions { skip_unreachable, ..self.options(&run) };
        let outcome = take_back(plan, &self.fleet.links(), &mut run, &shown, options).await;
        let outcome = outcome.map_err(|error| self.broken(error, &self.again.rollback(run.id().as_str())))?;
        let (status, report) = (status::of(run.id().as_str(), plan.plan(), run.replay()), run.dir().join("report.md"));
        agents::take_away(&run, plan.plan(), self.fleet, &shown).await;
        if outcome != Outcome::RolledBack {
            return Err(told::unwell(outcome, &status, &report));
        }
        self.display.emit(EventKind::Result {
            ok: true,
            exit_code: ExitCode::Ok.code(),
            summary: format!(
                "run {} was taken back: {} steps, the hosts are as they were before it",
                status.run, status.counts.undone
            ),
            data: Some(told::data(&status, &report)),
        });
        Ok(())
    }

    fn options(&self, run: &Run) -> ExecuteOptions {
        let id = run.id().as_str();
        ExecuteOptions {
            rollback_command: self.again.rollback(id),
            on_failure: self.again.failure.on_failure.into(),
            max_failed_hosts: self.again.failure.max_failed_workers,
            drill: self.again.failure.drill.clone(),
            cancel: self.cancel.clone(),
            remembered: Some(self.home.network()),
            ..ExecuteOptions::new(start::TOOL, self.again.resume(id))
        }
    }

    /// The run itself could not go on.
    fn broken(&self, error: EngineError, command: &str) -> Failure {
        if let EngineError::Stopped { record } = &error
            && self.again.failure.drill.is_some()
        {
            events::note(&Shown(self.display), format!("drill: dying at record {record}; to go on: {command}"));
            // As a power cut would: nothing is tidied up, no agent is told.
            std::process::abort();
        }
        let failure = failures::engine(error);
        Failure { text: format!("{}\nto go on: {command}", failure.text), ..failure }
    }

    async fn fetch_kubeconfig(&self) -> Result<(), Failure> {
        kubeconfig::fetch(self.fleet, &self.opened.cluster, self.home).await.map_err(|failure| {
            let text = format!(
                "the cluster is there, its kubeconfig could not be fetched: {}\nit lies on the first control plane as \
                 /etc/kubernetes/admin.conf",
                failure.text
            );
            Failure { text, ..failure }
        })
    }

    async fn succeeded(&self, status: &Status, report: &Path, shown: &dyn EventSink) -> Result<(), Failure> {
        let kubeconfig = self.home.kubeconfig();
        self.fetch_kubeconfig().await?;
        events::note(shown, format!("report: {}", report.display()));
        let counts = &status.counts;
        self.display.emit(EventKind::Result {
            ok: true,
            exit_code: ExitCode::Ok.code(),
            summary: format!(
                "cluster {} is ready: {} steps changed something, {} held already\n\nNext:\n  kubectl --kubeconfig {} \
                 get nodes,pods -A\n  {} report {}",
                status.cluster,
                counts.done,
                counts.satisfied,
                shell_word(&kubeconfig.to_string_lossy()),
                program(),
                status.run,
            ),
            data: Some(json!({ "run": status, "kubeconfig": kubeconfig, "report": report })),
        });
        Ok(())
    }
}
