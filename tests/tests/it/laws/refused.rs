//! The checkers can refuse: one broken plan or fleet for each law, and the words it is refused with.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kubexm_engine::Links;
use kubexm_engine::sim::{Invariant, Snapshot};
use kubexm_plan::op::{Content, File, Unit};
use kubexm_plan::{CheckedPlan, Op, Pipeline, Plan, Reset, Step, StepId, Undo};
use kubexm_tests::laws::{Case, Fleet, Points, Simulated};
use kubexm_tests::samples::{FLEETS, SAMPLES, Sample, named};

use super::check;
use super::table::Law;

const FEW: Points = Points::Drawn { count: 3, seed: 1 };

async fn case(sample: &Sample, pipeline: Pipeline) -> Case<Simulated> {
    Case::of(sample, pipeline).await.expect("a case")
}

fn step<'p>(plan: &'p mut Plan, id: &str) -> &'p mut Step {
    plan.steps.iter_mut().find(|step| step.id.0 == id).unwrap_or_else(|| panic!("no step {id}"))
}

async fn refuses<F: Fleet>(law: Law, case: &Case<F>, points: Points, words: &str) {
    match check(law, case, points).await {
        Ok(_) => panic!("{law:?} let {} pass", case.name),
        Err(why) => {
            assert!(why.contains(words), "{law:?} refuses {} for another reason than {words:?}: {why}", case.name)
        }
    }
}

/// Hosts on which every link adds something: nothing that is connected to twice ends as what is connected to once.
#[derive(Clone)]
struct Adding {
    fleet: Simulated,
    links: Arc<AtomicUsize>,
}

impl Adding {
    fn over(fleet: Simulated) -> Self {
        Self { fleet, links: Arc::default() }
    }
}

impl Fleet for Adding {
    fn fresh(sample: &Sample, plan: &CheckedPlan) -> Self {
        Self::over(Simulated::fresh(sample, plan))
    }

    fn serve(&self, plan: &CheckedPlan) {
        self.fleet.serve(plan);
    }

    fn fork(&self) -> Self {
        Self { fleet: self.fleet.fork(), links: Arc::new(AtomicUsize::new(self.links.load(Ordering::SeqCst))) }
    }

    fn crashed_copy(&self) -> Option<Self> {
        let fleet = self.fleet.crashed_copy()?;
        Some(Self { fleet, links: Arc::new(AtomicUsize::new(self.links.load(Ordering::SeqCst))) })
    }

    fn links(&self) -> Links {
        let nth = self.links.fetch_add(1, Ordering::SeqCst) + 1;
        self.fleet.0.set_state("node1", "path:/root/links", &format!("{nth} lines"));
        self.fleet.links()
    }

    fn snapshot(&self) -> Snapshot {
        self.fleet.snapshot()
    }

    fn converges(&self) -> u64 {
        self.fleet.converges()
    }

    fn fail_at(&mut self, before: bool, nth: u64) {
        self.fleet.fail_at(before, nth);
    }

    fn fail_undo_at(&mut self, before: bool, nth: u64) -> bool {
        self.fleet.fail_undo_at(before, nth)
    }

    fn certificates(&self, host: &str) -> Vec<kubexm_plan::cluster_facts::Certificate> {
        self.fleet.certificates(host)
    }

    fn forget_kubexm(&self) {
        self.fleet.forget_kubexm();
    }

    fn live(&self) {}

    fn look(&self) {}

    fn broken(&self) -> BTreeSet<(Invariant, String)> {
        self.fleet.broken()
    }
}

#[tokio::test]
async fn law_1_refuses_a_step_that_is_not_rolled_back() {
    let case = case(&SAMPLES[0], Pipeline::Create).await;
    let bent = case.bent(|plan| step(plan, "node1/os.swap").undo = Undo::Nothing).expect("a plan");
    let late = Points::Drawn { count: 40, seed: 1 };
    refuses(Law::Unwinds, &bent, late, "swap is Some(\"off\"), and was to be Some(\"on\")").await;
}

#[tokio::test]
async fn law_2_refuses_hosts_that_remember_how_often_they_were_resumed() {
    let case = case(&SAMPLES[0], Pipeline::Create).await.on(Adding::over);
    refuses(Law::CrashResumes, &case, FEW, "path:/root/links is").await;
    refuses(Law::FailureResumes, &case, FEW, "path:/root/links is").await;
}

#[tokio::test]
async fn law_3_refuses_a_rollback_that_adds_something_each_time() {
    let case = case(&SAMPLES[0], Pipeline::Reset).await.on(Adding::over);
    refuses(Law::RollbackResumes, &case, FEW, "path:/root/links is").await;
    refuses(Law::UndoFails, &case, FEW, "path:/root/links is").await;
}

#[tokio::test]
async fn law_4_refuses_two_steps_that_write_one_file_differently() {
    let case = case(&SAMPLES[0], Pipeline::Create).await;
    let bent = case.bent(|plan| {
        let other = Content::Text { digest: plan.text("[Service]\nExecStart=/usr/local/bin/kubelet\n") };
        let unit = "/etc/systemd/system/kubelet.service";
        let after = StepId("node1/check.network".to_owned());
        let fight = Step::on("node1", "test.fight", "Write it again")
            .ensure(File { path: unit.to_owned(), content: other, mode: 0o644 })
            .after(&after)
            .undo(Undo::RestoreBefore)
            .build();
        plan.steps.push(fight);
    });
    // The simulated fleet does not let the first writer write after the last one.
    refuses(Law::SecondRun, &bent.expect("a plan"), FEW, "was written by node1/test.fight").await;
    refuses(Law::SecondRun, &case.on(Adding::over), FEW, "after a second run:\n  node1: path:/root/links is").await;
}

#[tokio::test]
async fn law_5_refuses_a_plan_that_stops_half_of_etcd() {
    let case = case(&FLEETS[0], Pipeline::Create).await;
    let stopped = || Unit {
        name: "kubelet.service".to_owned(),
        enabled: true,
        running: Some(false),
        loaded: Vec::new(),
        reloaded: Vec::new(),
    };
    let bent = case.bent(|plan| {
        let after = StepId("node1/join.register-node2".to_owned());
        let stop = Step::on("node2", "test.stop", "Stop a control plane")
            .ensure(stopped())
            .ensure(Reset::PodsStopped)
            .after(&after)
            .undo(Undo::RestoreBefore)
            .build();
        plan.steps.push(stop);
    });
    refuses(Law::Invariants, &bent.expect("a plan"), FEW, "Quorum: of etcd's members").await;
}

#[tokio::test]
async fn law_5_refuses_a_proxy_that_leads_to_no_api_server() {
    let sample = named("workers with a proxy");
    let case = case(sample, Pipeline::Create).await;
    let bent = case.bent(|plan| {
        let elsewhere = Content::Text { digest: plan.text("server node4 10.0.0.14:6443\n") };
        for op in &mut step(plan, "node3/balancer.run").ops {
            if let Op::File(File { path, content, .. }) = op
                && path.ends_with("/haproxy.cfg")
            {
                *content = elsewhere.clone();
            }
        }
    });
    let words = "on node3 the control plane's name leads to [\"10.0.0.14\"]";
    refuses(Law::Invariants, &bent.expect("a plan"), FEW, words).await;
}

#[tokio::test]
async fn law_5_refuses_a_load_balancer_that_leads_to_no_api_server() {
    let proxies = [
        ("haproxy", "/haproxy.cfg", "server node4 10.0.0.14:6443\n"),
        ("nginx", "/nginx.conf", "/readyz/node4 10.0.0.14:6443;\n"),
    ];
    for (proxy, config, text) in proxies {
        let name = format!("keepalived and {proxy}");
        let sample = named(&name);
        let case = case(sample, Pipeline::Create).await;
        let bent = case.bent(|plan| {
            let elsewhere = Content::Text { digest: plan.text(text) };
            for host in ["lb1", "node3"] {
                for op in &mut step(plan, &format!("{host}/balancer.serve")).ops {
                    if let Op::File(File { path, content, .. }) = op
                        && path.ends_with(config)
                    {
                        *content = elsewhere.clone();
                    }
                }
            }
        });
        let words = "the control plane's name leads to [\"10.0.0.14\"";
        refuses(Law::Invariants, &bent.expect("a plan"), FEW, words).await;
    }
}

#[tokio::test]
async fn law_5_refuses_a_service_that_runs_with_a_config_it_did_not_load() {
    let case = case(&SAMPLES[0], Pipeline::Create).await;
    let bent = case.bent(|plan| {
        let other = Content::Text { digest: plan.text("version = 3\n# later\n") };
        let after = StepId("node1/runtime.run".to_owned());
        let late = Step::on("node1", "test.late", "Change containerd's config behind its back")
            .ensure(File { path: "/etc/containerd/config.toml".to_owned(), content: other, mode: 0o644 })
            .after(&after)
            .undo(Undo::RestoreBefore)
            .build();
        plan.steps.push(late);
    });
    refuses(Law::Invariants, &bent.expect("a plan"), FEW, "LoadedConfig: containerd.service on node1").await;
}

#[tokio::test]
async fn the_check_for_left_out_hosts_refuses_one_that_was_not_restored() {
    let case = case(&FLEETS[0], Pipeline::AddNode).await;
    let bent = case.bent(|plan| step(plan, "node3/os.swap").undo = Undo::Nothing).expect("a plan");
    let late = Points::Drawn { count: 20, seed: 1 };
    refuses(Law::LeavesOut, &bent, late, "node3: swap is Some(\"off\")").await;
}

#[tokio::test]
async fn the_check_for_restored_hosts_refuses_an_incomplete_reset() {
    let case = case(&SAMPLES[0], Pipeline::Reset).await;
    let bent = case.bent(|plan| {
        let reverted = step(plan, "node1/reset.revert");
        for op in &mut reverted.ops {
            if let kubexm_plan::Op::Reset(Reset::Reverted { ops, before }) = op {
                // The oldest one.
                ops.pop();
                before.pop();
            }
        }
    });
    refuses(Law::AsBefore, &bent.expect("a plan"), FEW, "after reset:\n  node1: path:/etc/").await;
}

#[tokio::test]
async fn the_simulated_fleet_refuses_a_step_that_does_not_wait_for_what_it_needs() {
    let case = case(&SAMPLES[0], Pipeline::Create).await;
    let bent = case.bent(|plan| {
        // kubelet's unit is written in the same second as the programs that it starts.
        let programs = StepId("node1/kubernetes.programs".to_owned());
        let kubelet = step(plan, "node1/kubernetes.kubelet");
        kubelet.after.retain(|id| *id != programs);
        kubelet.after.push(StepId("node1/store.fill".to_owned()));
        step(plan, "node1/control-plane.init").after.retain(|id| id.0 != "node1/kubernetes.kubelet");
    });
    refuses(Law::SecondRun, &bent.expect("a plan"), FEW, "does not wait for that").await;
}
