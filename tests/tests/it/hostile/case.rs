//! One case: a start, what is done, and what must be so afterwards.

use kubexm_spec::ExitCode;

use super::site::{KEEP, ROLLBACK, Site};
use super::verbs::{Ending, dies, fails};

/// The last step of a create.
const LAST: &str = "node1/check.network";
/// A step with several ops that change files.
const MANY_OPS: &str = "node1/runtime.run";

pub struct Case {
    /// What would be lost.
    pub name: &'static str,
    /// node1 with all roles, or with node2 as another worker.
    pub hosts: u8,
    /// What is there before kubexm comes.
    pub start: fn(&mut Site),
    pub act: Act,
    /// What the operator does between the two halves of the act.
    pub meanwhile: fn(&mut Site),
    /// Of that, the paths that must be the same at the end.
    pub later: &'static [&'static str],
    pub ends: (ExitCode, &'static str),
    pub kept: Kept,
}

/// What is compared.
pub enum Kept {
    /// Every file of every host.
    Everything,
    /// These, with all below them.
    These(&'static [&'static str]),
}

/// What is done. `*Aside` gives `--set-aside`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Create,
    /// A create whose last step fails.
    FailedCreate,
    FailedCreateAside,
    /// A create that fails by itself, and rolls back.
    CreateThatFails,
    /// The program dies after a half of the records of a create; the run is resumed, and rolled back by its name.
    CrashResumeRollBack,
    /// The same, and then it is rolled back at once.
    CrashRollBack,
    /// A create of which the rollback dies half-way, and is continued.
    CrashInRollback,
    /// As the last two, with `--set-aside`.
    CrashInRollbackAside,
    /// kubeadm is killed half-way, and the run rolls back.
    KilledInInit,
    /// The agent is killed in the middle of a step, and the run rolls back.
    AgentKilled,
    /// The same, but the next agent does the step; then a reset.
    AgentKilledReset,
    /// A second create.
    CreateTwice,
    /// A create and a reset.
    Reset,
    ResetAside,
    ResetTwice,
    /// A reset alone.
    OnlyReset,
    /// A rollback leaves node2 out, which does not answer; then it does.
    RollBackWithout2,
    /// A reset that dies half-way, and is given again.
    CrashInReset,
    /// A reset that dies half-way and is rolled back; then another one.
    ResetRolledBack,
    /// node2 joins the cluster of node1.
    AddNode,
    /// It fails in its last step.
    FailedAddNode,
}

pub const fn nothing(_: &mut Site) {}

impl Case {
    pub async fn run(&self) {
        let mut site = Site::of(self.hosts);
        (self.start)(&mut site);
        site.remember();
        let ending = self.act(&mut site).await;
        let (code, says) = self.ends;
        assert_eq!(ending.code, code, "{}: {}", self.name, ending.text);
        assert!(ending.text.contains(says), "{}: it does not say {says:?}: {}", self.name, ending.text);
        let lost = match self.kept {
            Kept::Everything => site.lost(None),
            Kept::These(paths) => site.lost(Some(paths)),
        };
        assert!(lost.is_empty(), "{}:\n{}\nafter {}", self.name, lost.join("\n"), ending.text);
    }

    fn meanwhile(&self, site: &mut Site) {
        (self.meanwhile)(site);
        site.remember_also(self.later);
    }

    async fn act(&self, site: &mut Site) -> Ending {
        match self.act {
            Act::Create => {
                let ready = site.preflight(false).await;
                let created = site.create(false, KEEP).await;
                assert_eq!(ready.code, created.code, "preflight says {}", ready.text);
                created
            }
            Act::FailedCreate => site.create(false, fails(LAST)).await,
            Act::FailedCreateAside => site.create(true, fails(LAST)).await,
            Act::CreateThatFails => site.create(false, ROLLBACK).await,
            Act::CrashResumeRollBack => {
                half(site, false).await;
                self.meanwhile(site);
                let resumed = site.resume(KEEP).await;
                assert_eq!(resumed.code, ExitCode::Ok, "{}", resumed.text);
                site.roll_back(ROLLBACK, false).await
            }
            Act::CrashRollBack => {
                half(site, false).await;
                self.meanwhile(site);
                site.roll_back(ROLLBACK, false).await
            }
            Act::CrashInRollback | Act::CrashInRollbackAside => {
                well(site.create(self.act == Act::CrashInRollbackAside, KEEP).await);
                let died = site.roll_back(dies(site.records() + 40), false).await;
                assert!(died.text.contains("to continue"), "{}", died.text);
                self.meanwhile(site);
                site.roll_back(ROLLBACK, false).await
            }
            Act::KilledInInit => {
                site.host("node1").fake("kill-kubeadm-init", "");
                site.create(false, ROLLBACK).await
            }
            Act::AgentKilled => {
                site.kill_agent_in(MANY_OPS, false);
                site.create(false, ROLLBACK).await
            }
            Act::AgentKilledReset => {
                site.kill_agent_in(MANY_OPS, true);
                well(site.create(false, ROLLBACK).await);
                site.reset(KEEP).await
            }
            Act::CreateTwice => {
                well(site.create(false, KEEP).await);
                self.meanwhile(site);
                site.create(false, KEEP).await
            }
            Act::Reset | Act::ResetAside => {
                well(site.create(self.act == Act::ResetAside, KEEP).await);
                self.meanwhile(site);
                site.reset(KEEP).await
            }
            Act::ResetTwice => {
                well(site.create(false, KEEP).await);
                well(site.reset(KEEP).await);
                self.meanwhile(site);
                site.reset(KEEP).await
            }
            Act::OnlyReset => site.reset(KEEP).await,
            Act::RollBackWithout2 => {
                well(site.create(false, KEEP).await);
                site.connector.lost.lock().unwrap().push("node2".to_owned());
                let stuck = site.roll_back(ROLLBACK, true).await;
                assert_eq!(stuck.code, ExitCode::RunStuck, "{}", stuck.text);
                self.meanwhile(site);
                site.connector.lost.lock().unwrap().clear();
                site.roll_back(ROLLBACK, false).await
            }
            Act::CrashInReset => {
                well(site.create(false, KEEP).await);
                let died = site.reset(dies(8)).await;
                assert!(died.text.contains("to continue"), "{}", died.text);
                self.meanwhile(site);
                site.reset(KEEP).await
            }
            Act::ResetRolledBack => {
                well(site.create(false, KEEP).await);
                let died = site.reset(dies(8)).await;
                assert!(died.text.contains("to continue"), "{}", died.text);
                self.meanwhile(site);
                well(site.roll_back_reset().await);
                site.reset(KEEP).await
            }
            Act::AddNode => {
                well(site.create_of(1, false, KEEP).await);
                self.meanwhile(site);
                site.add_node(false, KEEP).await
            }
            Act::FailedAddNode => {
                well(site.create_of(1, false, KEEP).await);
                self.meanwhile(site);
                site.add_node(false, fails("node2/join.node")).await
            }
        }
    }
}

/// A create of which the program dies half-way.
async fn half(site: &Site, set_aside: bool) {
    let died = site.create(set_aside, dies(60)).await;
    assert!(died.text.contains("to continue"), "{}", died.text);
}

fn well(ending: Ending) {
    assert_eq!(ending.code, ExitCode::Ok, "{}", ending.text);
}
