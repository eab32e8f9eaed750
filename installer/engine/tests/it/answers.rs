//! A hostile agent answers for other hosts: nothing of it is used, and nothing is changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kubexm_engine::events::Silent;
use kubexm_engine::execute;
use kubexm_engine::link::{BlobSource, Change, DeliverProgress, Fetched, Link, LinkError, SlotValues, Survey};
use kubexm_plan::op::Depots;
use kubexm_plan::{
    ClusterFacts, Facts, ObservedState, Plan, Probe, ProbeAnswer, SlotProvider, Step, StepDrift, StepId, Wave, ledger,
    mesh,
};
use kubexm_spec::{Digest, ExitCode};

use crate::common::fleet::plan;
use crate::common::{OneBlob, Site, checked};

/// How a hostile agent answers; all else is as its host has it.
enum Hostile {
    /// Says of these steps that they hold, whatever it is asked.
    Vouches(Vec<StepId>),
    /// Writes to the terminal of whoever reads.
    Shouts,
}

const SHOUT: &str = "cannot\u{1b}[2J\u{202e}\rgood";

struct Liar {
    link: Arc<dyn Link>,
    how: Hostile,
}

#[async_trait]
impl Link for Liar {
    fn lost_for(&self) -> Option<Duration> {
        None
    }

    async fn answers(&self, _: Duration) -> bool {
        true
    }

    async fn survey(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Survey, LinkError> {
        let mut survey = self.link.survey(plan, steps, slots).await?;
        if let Hostile::Vouches(steps) = &self.how {
            survey.holding.extend(steps.iter().cloned());
        }
        Ok(survey)
    }

    async fn drift(&self, plan: &Plan, steps: &[&Step], slots: &SlotValues) -> Result<Vec<StepDrift>, LinkError> {
        self.link.drift(plan, steps, slots).await
    }

    async fn facts(&self) -> Result<Facts, LinkError> {
        self.link.facts().await
    }

    async fn cluster_facts(&self) -> Result<ClusterFacts, LinkError> {
        self.link.cluster_facts().await
    }

    async fn hold(&self) -> Result<(), LinkError> {
        self.link.hold().await
    }

    async fn observe(&self, plan: &Plan, step: &Step, slots: &SlotValues) -> Result<Vec<ObservedState>, LinkError> {
        self.link.observe(plan, step, slots).await
    }

    async fn converge(
        &self,
        plan: &Plan,
        step: &Step,
        slots: &SlotValues,
        change: Change<'_>,
    ) -> Result<(), LinkError> {
        if matches!(self.how, Hostile::Shouts) {
            return Err(LinkError::Op { host: "cp".to_owned(), text: SHOUT.to_owned() });
        }
        self.link.converge(plan, step, slots, change).await
    }

    async fn undo(&self, plan: &Plan, step: &Step, change: Change<'_>, wave: Wave) -> Result<(), LinkError> {
        self.link.undo(plan, step, change, wave).await
    }

    async fn provide(&self, provider: &SlotProvider) -> Result<Vec<u8>, LinkError> {
        self.link.provide(provider).await
    }

    async fn ledger(&self) -> Result<Vec<ledger::Record>, LinkError> {
        self.link.ledger().await
    }

    async fn fetch(
        &self,
        step: &StepId,
        blobs: &[(Digest, u64)],
        depots: &Depots,
        progress: DeliverProgress<'_>,
    ) -> Result<Fetched, LinkError> {
        self.link.fetch(step, blobs, depots, progress).await
    }

    async fn listen(&self, ports: &[mesh::Port]) -> Result<(), LinkError> {
        self.link.listen(ports).await
    }

    async fn dial(&self, dials: &[mesh::ConnectionCheck]) -> Result<Vec<mesh::ConnectionResult>, LinkError> {
        self.link.dial(dials).await
    }

    async fn probe(&self, probe: &Probe) -> Result<ProbeAnswer, LinkError> {
        self.link.probe(probe).await
    }

    async fn deliver(
        &self,
        blobs: &[(Digest, u64)],
        source: &dyn BlobSource,
        progress: DeliverProgress<'_>,
    ) -> Result<(), LinkError> {
        self.link.deliver(blobs, source, progress).await
    }

    async fn evidence(&self) -> Result<Vec<(String, String)>, LinkError> {
        match self.how {
            Hostile::Vouches(_) => self.link.evidence().await,
            Hostile::Shouts => Ok(vec![(SHOUT.to_owned(), SHOUT.to_owned())]),
        }
    }

    async fn step_log(&self, run: &str, step: &Step) -> Result<String, LinkError> {
        match self.how {
            Hostile::Vouches(_) => self.link.step_log(run, step).await,
            Hostile::Shouts => Ok(SHOUT.to_owned()),
        }
    }
}

/// Runs with a worker whose agent says that these steps hold.
async fn with_liar(says: &[&str]) -> (Site, Result<kubexm_engine::Outcome, kubexm_engine::EngineError>) {
    let (site, plan) = (Site::with(["cp", "w1"]), checked(plan(&["w1"])));
    let mut links: BTreeMap<_, _> = site.fleet.links();
    let steps = says.iter().map(|id| StepId((*id).to_owned())).collect();
    let liar = Liar { link: links["w1"].clone(), how: Hostile::Vouches(steps) };
    links.insert("w1".to_owned(), Arc::new(liar));
    let mut run = site.create(&plan);
    let outcome = execute(&plan, &links, &mut run, &site.pki, &OneBlob, &Silent, site.options.clone()).await;
    (site, outcome)
}

#[tokio::test]
async fn a_worker_that_reports_steps_of_other_hosts_ends_the_run_before_any_change() {
    for lie in [&["cp/kubernetes.init"][..], &["cp/os.runtime", "w1/os.runtime"], &["w1/no.such"], &["x/y"]] {
        let (site, outcome) = with_liar(lie).await;
        let error = outcome.expect_err("a lie");
        assert_eq!(error.exit_code(), ExitCode::HostUntrusted, "{error}");
        assert!(error.to_string().starts_with("w1: "), "{error}");
        assert_eq!(site.fleet.converges(), 0, "{lie:?}");
    }
}

#[tokio::test]
async fn a_worker_that_lies_about_itself_alone_changes_no_other_host() {
    let (_, outcome) = with_liar(&["w1/os.runtime"]).await;
    // Its own steps are looked at in their turn once anything was changed.
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[tokio::test]
async fn messages_of_hosts_are_escaped_in_the_report() {
    let (site, plan) = (Site::with(["cp", "w1"]), checked(plan(&["w1"])));
    let mut links: BTreeMap<_, _> = site.fleet.links();
    let link = links["cp"].clone();
    links.insert("cp".to_owned(), Arc::new(Liar { link, how: Hostile::Shouts }));
    let mut run = site.create(&plan);
    let outcome = execute(&plan, &links, &mut run, &site.pki, &OneBlob, &Silent, site.options.clone()).await;
    assert_eq!(outcome.expect("a run"), kubexm_engine::Outcome::Failed);
    let report = site.report();
    assert!(report.contains("cannot\u{fffd}[2J"), "{report}");
    let mut files = vec![report];
    for folder in ["evidence/cp", "logs/cp"] {
        for entry in std::fs::read_dir(run.dir().join(folder)).expect(folder) {
            files.push(std::fs::read_to_string(entry.expect("an entry").path()).expect("a text"));
        }
    }
    assert!(files.len() > 2);
    assert!(files.iter().all(|text| !text.contains(['\u{1b}', '\u{202e}', '\r'])), "{files:?}");
}
