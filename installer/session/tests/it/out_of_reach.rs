//! A host that is lost during a run: the run is kept, or the others are rolled back, as the operator decides.

use kubexm_engine::events::Recorder;
use kubexm_engine::link::ssh::AGENT_PATH;
use kubexm_engine::sim::{SimFleet, Snapshot};
use kubexm_engine::{EventSink, Outcome};
use kubexm_session::{Answer, BundleOptions, HostOptions, Session, WithoutThem};
use kubexm_spec::ExitCode;
use kubexm_spec::event::{Event, EventKind};

use crate::sessions::{Answers, RUN, Site, create};

/// Hosts of which the first is the control plane; it is lost when this step begins.
const HOSTS: [&str; 2] = ["red1", "red2"];
const STEP: &str = "red1/control-plane.init";

struct LosesControlPlane {
    fleet: SimFleet,
    shown: Recorder,
}

impl EventSink for LosesControlPlane {
    fn emit(&self, event: Event) {
        if matches!(&event.kind, EventKind::StepStarted { step, .. } if step == STEP) {
            self.fleet.disconnect("red1");
        }
        self.shown.emit(event);
    }
}

/// But for the agent, which stays for the next command.
fn of(site: &Site, host: &str) -> Snapshot {
    let mut all = site.hosts.fleet.snapshot();
    all.retain(|name, _| name == host);
    all.values_mut().for_each(|host| host.retain(|key, _| !key.ends_with(AGENT_PATH)));
    all
}

fn bundle(site: &Site) -> BundleOptions {
    BundleOptions { bundle: vec![site.bundle.clone()], ..BundleOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn a_lost_control_plane_is_kept_or_the_others_are_rolled_back_as_the_operator_decides() {
    for without_them in [WithoutThem::Keep, WithoutThem::RollBack] {
        let site = Site::new("red", &HOSTS, Answer::Yes);
        let site = Site { answers: Answers { without_them, ..Answers::of(Answer::Yes) }, ..site };
        let before = HOSTS.map(|host| of(&site, host));
        let events = LosesControlPlane { fleet: site.hosts.fleet.clone(), shown: Recorder::default() };
        let session = Session { events: &events, ..site.session() };

        let ended = create(&session, &bundle(&site), RUN).await.unwrap();

        let asked = site.answers.asked.lock().unwrap().last().cloned();
        assert_eq!(asked.as_deref(), Some("without red1: red2"), "what would be rolled back is named");
        let (run, kept) = (ended.run.as_ref().unwrap(), without_them == WithoutThem::Keep);
        let (outcome, code) = match kept {
            true => (Outcome::Failed, ExitCode::RunFailed),
            false => (Outcome::Stuck, ExitCode::RunStuck),
        };
        assert_eq!((run.outcome, ended.exit_code()), (outcome, code), "{:#?}", run.status);
        assert_eq!(of(&site, "red2") == before[1], !kept, "only a rollback changes red2");
        assert_ne!(of(&site, "red1"), before[0], "nothing reaches it");

        site.hosts.fleet.reconnect("red1");
        let session = site.session();
        if kept {
            let loaded = session.run_to_resume(session.open(&bundle(&site)).unwrap(), None).unwrap();
            let verified = loaded.verify().unwrap();
            let ended = verified.resume(&HostOptions::default(), RUN).await.unwrap().finish().await.unwrap();
            assert!(ended.is_success(), "{:#?}", ended.run);
        } else {
            let loaded = session.run_to_roll_back(session.open(&bundle(&site)).unwrap(), None).unwrap();
            let ended = loaded.roll_back(&HostOptions::default(), &RUN, false).await.unwrap();
            assert!(ended.is_success(), "{:#?}", ended.run);
            assert_eq!(HOSTS.map(|host| of(&site, host)), before);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_a_host_refuses_is_rolled_back_without_a_question() {
    let site = Site::new("red", &HOSTS, Answer::Yes);
    let step = kubexm_plan::StepId("red2/kubernetes.join".to_owned());
    let plan = site.plan(None).await;
    let step =
        plan.steps.iter().map(|step| &step.id).find(|id| **id == step).or(plan.steps.last().map(|step| &step.id));
    let drill = step.cloned().map(kubexm_engine::Drill::FailStep);
    let ended = create(&site.session(), &bundle(&site), kubexm_session::RunOptions { drill, ..RUN }).await.unwrap();
    assert_eq!(ended.run.unwrap().outcome, Outcome::RolledBack);
    let asked = site.answers.asked.lock().unwrap().clone();
    assert!(!asked.iter().any(|asked| asked.starts_with("without")), "{asked:?}");
}
