//! What an operator does with a cluster, and how each command ends.

use std::path::PathBuf;

use kubexm_engine::options::Drill;
use kubexm_plan::StepId;
use kubexm_session::{
    Access, BundleOptions, ClusterOptions, Ended, HostOptions, Recipe, RunOptions, SessionError, Unreachable,
};
use kubexm_spec::{ExitCode, ExitError as _, error_chain};

use super::site::{CLUSTER, KEEP, ROLLBACK, Site};

/// How a command ended: its code, and what it says.
#[derive(Debug)]
pub struct Ending {
    pub code: ExitCode,
    pub text: String,
}

impl Ending {
    fn of(ended: Result<Ended, SessionError>) -> Self {
        match ended {
            Err(error) => Self { code: error.exit_code(), text: error_chain(&error) },
            Ok(ended) => {
                let mut text = format!("{:?} of {}", ended.direction, ended.pipeline);
                if let Some(run) = &ended.run {
                    text += &format!(" ended {:?}", run.outcome);
                    for step in run.status.steps.iter() {
                        for error in [&step.error, &step.undo_error].into_iter().flatten() {
                            text += &format!("\n{}: {error}", step.step);
                        }
                    }
                    if let Some(why) = run.status.undo.as_ref().and_then(|undo| undo.stuck.as_ref()) {
                        text += &format!("\nstuck: {why}");
                    }
                }
                Self { code: ended.exit_code(), text }
            }
        }
    }
}

/// A drill that fails a step after it was done.
pub fn fails(step: &str) -> RunOptions<'static> {
    RunOptions { drill: Some(Drill::FailStep(StepId(step.to_owned()))), ..ROLLBACK }
}

/// A drill that ends the program when so many records are on disk.
pub fn dies(records: usize) -> RunOptions<'static> {
    RunOptions { drill: Some(Drill::DieAtRecord(records)), ..KEEP }
}

impl Site {
    fn bundle_options(&self, hosts: usize) -> BundleOptions {
        BundleOptions { bundle: vec![self.bundle()], file: Some(self.yaml(hosts)), ..BundleOptions::default() }
    }

    fn cluster_options(&self) -> ClusterOptions {
        ClusterOptions { file: Some(self.yaml(self.count())), ..ClusterOptions::default() }
    }

    pub async fn preflight(&self, set_aside: bool) -> Ending {
        let result = async {
            let (session, hosts, bundle) = (self.session(), HostOptions::default(), self.bundle_options(self.count()));
            let opened = session.open(&bundle)?.setting_aside(set_aside);
            let access = Access::obtain(&session, opened.cluster(), &bundle.trust, &hosts)?;
            let observed = session.observe("preflight", opened, &access, &hosts, Unreachable::Refused("")).await?;
            observed.leave().await?.findings().check()
        };
        match result.await {
            Ok(()) => Ending { code: ExitCode::Ok, text: "ready".to_owned() },
            Err(error) => Ending { code: error.exit_code(), text: error_chain(&error) },
        }
    }

    /// `create` of the first so many hosts.
    pub async fn create_of(&self, count: usize, set_aside: bool, run: RunOptions<'_>) -> Ending {
        self.change(count, set_aside, Recipe::Create, run).await
    }

    pub async fn create(&self, set_aside: bool, run: RunOptions<'_>) -> Ending {
        self.create_of(self.count(), set_aside, run).await
    }

    pub async fn add_node(&self, set_aside: bool, run: RunOptions<'_>) -> Ending {
        self.change(self.count(), set_aside, Recipe::AddNode(&[]), run).await
    }

    async fn change(&self, count: usize, set_aside: bool, recipe: Recipe<'_>, run: RunOptions<'_>) -> Ending {
        let result = async {
            let (session, hosts, bundle) = (self.session(), HostOptions::default(), self.bundle_options(count));
            let opened = session.open(&bundle)?.setting_aside(set_aside);
            let access = Access::obtain(&session, opened.cluster(), &bundle.trust, &hosts)?;
            let verified = opened.verify(&session)?;
            let observed = session.observe("create", verified, &access, &hosts, Unreachable::Refused("")).await?;
            let checked = observed.plan(recipe).await?.check().await?;
            self.serve(checked.plan().plan());
            checked.start(run).await?.finish().await
        };
        Ending::of(result.await)
    }

    pub async fn resume(&self, run: RunOptions<'_>) -> Ending {
        let result = async {
            let (session, hosts) = (self.session(), HostOptions::default());
            let opened = session.open(&self.bundle_options(self.count()))?;
            session.run_to_resume(opened, None)?.verify()?.resume(&hosts, run).await?.finish().await
        };
        Ending::of(result.await)
    }

    /// The last run, by its name: one that succeeded is not rolled back without.
    pub async fn roll_back(&self, run: RunOptions<'_>, skip: bool) -> Ending {
        let result = async {
            let (session, hosts) = (self.session(), HostOptions::default());
            let opened = session.open(&self.bundle_options(self.count()))?;
            let last = self.home.cluster(CLUSTER).run_ids()?.into_iter().next_back().map(|id| id.to_string());
            session.run_to_roll_back(opened, last.as_deref())?.roll_back(&hosts, &run, skip).await
        };
        Ending::of(result.await)
    }

    pub async fn reset(&self, run: RunOptions<'_>) -> Ending {
        let result = async {
            let (session, hosts, cluster) = (self.session(), HostOptions::default(), self.cluster_options());
            let source = session.cluster(&cluster)?;
            let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
            let observed = session.observe("reset", source, &access, &hosts, Unreachable::Refused("")).await?;
            observed.plan(&[]).await?.check().await?.start(run).await?.finish().await
        };
        Ending::of(result.await)
    }

    pub async fn roll_back_reset(&self) -> Ending {
        let result = async {
            let (session, hosts, cluster) = (self.session(), HostOptions::default(), self.cluster_options());
            let source = session.cluster(&cluster)?;
            let access = Access::obtain(&session, source.cluster(), &cluster.trust, &hosts)?;
            let loaded = session.ledger_run_to_roll_back(kubexm_plan::Pipeline::Reset, source, access, None)?;
            loaded.roll_back(&hosts, &ROLLBACK, false).await
        };
        Ending::of(result.await)
    }

    /// Number of records in the journal of the last run.
    pub fn records(&self) -> usize {
        let text = std::fs::read_to_string(self.run_folder().join("journal.jsonl")).unwrap_or_default();
        text.lines().count()
    }

    /// The folder of the last run.
    pub fn run_folder(&self) -> PathBuf {
        let cluster = self.home.cluster(CLUSTER);
        let last = cluster.run_ids().unwrap().into_iter().next_back().expect("a run");
        cluster.runs().join(last.as_str())
    }
}
