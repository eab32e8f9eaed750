//! A new run, from the look at the hosts to its end: what `create` and `run` have in common.

use kubexm_engine::{ClusterLock, EventSink, Run, RunId};
use kubexm_plan::CheckedPlan;
use kubexm_terminal::{Display, Failure};
use tokio_util::sync::CancellationToken;

use super::again::Again;
use super::carry_out::Site;
use super::consent::Consent;
use crate::site::access::Access;
use crate::site::fleet::Fleet;
use crate::site::opened::Opened;
use crate::site::planning::{self, Seen};
use crate::support::events::Shown;
use crate::support::home::Home;
use crate::support::{failures, interrupt, start};

/// What a new run begins with.
pub struct Begin<'a> {
    /// `create` or `run`, for whoever finds a host held.
    pub verb: &'static str,
    /// Bundle and cluster, verified.
    pub opened: &'a Opened,
    /// To connect to its hosts.
    pub access: &'a Access,
    /// Folders of this machine.
    pub home: &'a Home,
    /// How the program was called.
    pub again: Again<'a>,
    /// How a yes is had.
    pub consent: Consent,
    /// Who reads.
    pub display: &'a Display,
}

impl Begin<'_> {
    /// Looks at the hosts, takes or makes the plan, asks, and carries it out. Before the yes a failure or a no leaves
    /// nothing on the hosts.
    pub fn run(&self, plan: impl FnOnce(Seen, &dyn EventSink) -> Result<CheckedPlan, Failure>) -> Result<(), Failure> {
        let (opened, display, shown) = (self.opened, self.display, Shown(self.display));
        let cluster = self.home.cluster(&opened.cluster.name);
        let holder = start::holder(self.verb, &cluster.name);
        let _lock = ClusterLock::take(&cluster.folder, &cluster.name, &holder).map_err(failures::engine)?;
        let cancel = CancellationToken::new();
        let work = async {
            let fleet = Fleet::connect((opened, self.access), self.home, self.again.hosts, &holder, &shown).await?;
            let decided = async {
                interrupt::check(&cancel)?;
                let seen = planning::look(opened, &fleet, &shown).await?;
                let plan = plan(seen, &shown)?;
                self.again.failure.check(plan.plan())?;
                interrupt::check(&cancel)?;
                planning::show(plan.plan(), display);
                self.consent.have("Go on?", Some(&opened.provenance), display).await?;
                interrupt::check(&cancel)?;
                Run::create(&cluster.runs(), RunId::new(), &plan).map(|run| (run, plan)).map_err(failures::engine)
            };
            let (run, plan) = fleet.unless_refused(decided, &shown).await?;
            let site = Site { opened, fleet: &fleet, home: &cluster, again: self.again, cancel: &cancel, display };
            let ended = site.carry_out(run, &plan).await;
            fleet.close().await;
            ended
        };
        start::runtime()?.block_on(interrupt::watched(&shown, &cancel, work))
    }
}
