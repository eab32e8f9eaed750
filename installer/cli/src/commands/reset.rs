//! `kubexm-install reset`.

use std::collections::BTreeMap;

use kubexm_engine::execute::take_back;
use kubexm_engine::link::LinkError;
use kubexm_engine::{ClusterLock, ClusterPki, EventSink, ExecuteOptions, Outcome, Run, RunId, execute, status};
use kubexm_plan::{CheckedPlan, lint};
use kubexm_recipes::{ResetCx, ResetHost};
use kubexm_spec::ExitCode;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::{HostArgs, OnFailure, Unreachable};
use crate::run::again::on_cluster;
use crate::run::consent::Consent;
use crate::run::{chosen, told};
use crate::site::access::Access;
use crate::site::blobs::NoBlobs;
use crate::site::fleet::Fleet;
use crate::site::named::{NameArgs, Named};
use crate::site::{planning, summary};
use crate::support::events::{self, Shown};
use crate::support::home::{ClusterHome, Home};
use crate::support::{failures, interrupt, start};

/// Take a cluster away: every host as it was before `create`
///
/// Works from what the hosts wrote down themselves, so any machine that reaches them can do it. Until the last steps,
/// which delete, everything can be taken back and the cluster runs again. What create moved aside (--set-aside) comes back.
/// Pods' volumes are unmounted and keep their data. Any other mount below the cluster's folders, or one that is in use, is
/// named before anything is stopped (exit 53), and left as it is. Packages that came with the cluster go, on Debian with their
/// configuration and data; which ones is said of each host before anything is done.
///
/// Examples:
///   kubexm-install reset -f cluster.yaml
///   kubexm-install reset --bundle site.tar.zst -y                # its cluster.yaml names the hosts
///   kubexm-install reset -f cluster.yaml --unreachable skip -y   # without a host that is gone
///   kubexm-install reset -f cluster.yaml --take-back             # of a reset that failed half-way
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    cluster: NameArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// Say yes without being asked
    #[arg(short = 'y', long)]
    yes: bool,
    /// What becomes of hosts that cannot be reached; a reset without some ends with exit code 72
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    unreachable: Unreachable,
    /// When a step fails
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    on_failure: OnFailure,
    /// Take back a reset that has not deleted yet [default run: the cluster's last one]
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    take_back: Option<String>,
    /// One JSON event a line
    #[arg(long)]
    pub json: bool,
}

/// What a reset is carried out with.
struct Site<'a> {
    args: &'a Args,
    named: Named,
    home: ClusterHome,
    cancel: CancellationToken,
    display: &'a Display,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let consent = Consent::from_args(args.yes, display)?;
    let home = Home::from_environment()?;
    let shown = Shown(display);
    let named = Named::read(&args.cluster, &home, &shown)?;
    let access = Access::obtain(named.cluster(), &args.cluster.trust, &args.hosts, &home, display, &shown)?;
    let cluster = home.cluster(&named.cluster().name);
    let holder = start::holder("reset", &cluster.name);
    let _lock = ClusterLock::take(&cluster.folder, &cluster.name, &holder).map_err(failures::engine)?;
    let site = Site { args, named, home: cluster, cancel: CancellationToken::new(), display };
    let work = async {
        let (mut fleet, missing) =
            Fleet::reach(&access, site.named.opened(), &home, &args.hosts, &holder, &shown).await;
        if let Some(failure) = site.refusal(&missing) {
            fleet.withdraw(&shown).await;
            return Err(failure);
        }
        let ended = match &args.take_back {
            Some(run) => site.take_back(&fleet, run, consent).await,
            None => site.forward(&mut fleet, &missing, consent).await,
        };
        fleet.close().await;
        ended
    };
    start::runtime()?.block_on(interrupt::watched(&shown, &site.cancel, work))
}

impl Site<'_> {
    /// A host that answers and refuses us is no host that is gone.
    fn refusal(&self, missing: &BTreeMap<String, LinkError>) -> Option<Failure> {
        let gone = |error: &LinkError| matches!(error, LinkError::Unreachable { .. });
        let skip = self.args.unreachable == Unreachable::Skip;
        if missing.is_empty() || (skip && missing.values().all(gone)) {
            return None;
        }
        let failure = failures::links(missing.values());
        let hint = match missing.values().all(gone) {
            true => "\nnothing was changed; --unreachable skip resets the others and leaves these as they are",
            false => "\nnothing was changed",
        };
        Some(Failure { text: failure.text.clone() + hint, ..failure })
    }

    async fn forward(
        &self,
        fleet: &mut Fleet,
        missing: &BTreeMap<String, LinkError>,
        consent: Consent,
    ) -> Result<(), Failure> {
        let shown = Shown(self.display);
        fleet.tell_of_agents(&shown);
        let decided = async {
            let (plan, clean) = self.plan(fleet, &shown).await?;
            if plan.plan().steps.is_empty() {
                return Ok((plan, clean, None));
            }
            planning::show(plan.plan(), self.display);
            self.say_what_goes(&plan, missing, &shown);
            let provenance = self.named.provenance();
            consent.have("Take the cluster away and delete its data?", provenance, self.display).await?;
            interrupt::check(&self.cancel)?;
            let run = Run::create(&self.home.runs(), RunId::new(), &plan).map_err(failures::engine)?;
            Ok((plan, clean, Some(run)))
        };
        let (plan, clean, run) = fleet.unless_refused(decided, &shown).await?;
        fleet.leave(&clean, &shown).await;
        let Some(run) = run else {
            return self.end(missing, "nothing of it is on any host".to_owned(), json!({}));
        };
        self.carry_out(fleet, run, &plan, missing).await
    }

    async fn plan(&self, fleet: &Fleet, events: &dyn EventSink) -> Result<(CheckedPlan, Vec<String>), Failure> {
        interrupt::check(&self.cancel)?;
        let facts = fleet.facts(events).await?;
        let ledgers = fleet.ledgers().await?;
        let cluster = self.named.cluster();
        let registry = cluster.registry_host().map(|host| &host.name);
        let hosts: Vec<ResetHost<'_>> = cluster
            .hosts
            .iter()
            .filter_map(|host| {
                Some(ResetHost {
                    name: &host.name,
                    control_plane: cluster.role_groups.control_plane.contains(&host.name),
                    worker: cluster.role_groups.worker.contains(&host.name),
                    registry: registry == Some(&host.name),
                    facts: facts.get(&host.name)?,
                    ledger: ledgers.get(&host.name)?,
                })
            })
            .collect();
        let clean: Vec<String> = hosts.iter().filter(|host| host.is_clean()).map(|host| host.name.to_owned()).collect();
        for host in &clean {
            events::note(events, format!("{host}: nothing of ours is there, and nothing is done"));
        }
        events::phase(events, "plan");
        let cx = ResetCx { cluster: &cluster.name, cluster_digest: cluster.digest(), hosts };
        let plan = kubexm_recipes::reset(&cx).map_err(failures::recipe)?;
        // Its warnings say of each host that deleting cannot be taken back: the question does.
        let (plan, _) = lint::check(plan).map_err(planning::refused)?;
        Ok((plan, clean))
    }

    fn say_what_goes(&self, plan: &CheckedPlan, missing: &BTreeMap<String, LinkError>, events: &dyn EventSink) {
        let mut hosts: Vec<&str> = plan.plan().steps.iter().map(|step| step.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        events::note(
            events,
            format!(
                "Deleted at the end, for good: cluster {}, its etcd and all that containers wrote, on {}. Kept: volumes on \
                 other disks and NFS exports, which are unmounted and not touched.",
                self.named.cluster().name,
                hosts.join(", ")
            ),
        );
        for told in summary::packages_that_go(plan.plan()) {
            events::warning(events, told);
        }
        for host in missing.keys() {
            events::warning(events, format!("{host} cannot be reached and stays as it is"));
        }
    }

    async fn carry_out(
        &self,
        fleet: &Fleet,
        mut run: Run,
        plan: &CheckedPlan,
        missing: &BTreeMap<String, LinkError>,
    ) -> Result<(), Failure> {
        let shown = Shown(self.display);
        events::note(&shown, format!("run {} in {}", run.id(), run.dir().display()));
        let pki = ClusterPki::open(&self.home.pki()).map_err(failures::engine)?;
        let options = self.options(&run);
        let outcome = execute(plan, &fleet.links(), &mut run, &pki, &NoBlobs, &shown, options).await;
        let outcome = outcome.map_err(failures::engine)?;
        let (status, report) = (status::of(run.id().as_str(), plan.plan(), run.replay()), run.dir().join("report.md"));
        if outcome != Outcome::Succeeded {
            return Err(told::unwell(outcome, &status, &report));
        }
        let kubeconfig = self.home.kubeconfig();
        if let Err(error) = std::fs::remove_file(&kubeconfig)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            events::warning(&shown, format!("{} is of no use any more and stays: {error}", kubeconfig.display()));
        }
        events::note(&shown, format!("report: {}", report.display()));
        let done = format!("the hosts are as they were ({} steps changed something)", status.counts.done);
        self.end(missing, done, told::data(&status, &report))
    }

    /// The end of a reset that went well, on the hosts that were reached.
    fn end(&self, missing: &BTreeMap<String, LinkError>, what: String, data: serde_json::Value) -> Result<(), Failure> {
        let summary = format!("cluster {} is gone: {what}", self.named.cluster().name);
        if missing.is_empty() {
            self.display.emit(EventKind::Result {
                ok: true,
                exit_code: ExitCode::Ok.code(),
                summary,
                data: Some(data),
            });
            return Ok(());
        }
        let debt: Vec<&str> = missing.keys().map(String::as_str).collect();
        let text = format!(
            "{summary}\nstill to be done: {} could not be reached and carry all that the cluster put there; when they are \
             back: {}",
            debt.join(", "),
            self.command()
        );
        Err(Failure::new(ExitCode::RunPartial, text).with_data(data))
    }

    async fn take_back(&self, fleet: &Fleet, named: &str, consent: Consent) -> Result<(), Failure> {
        let shown = Shown(self.display);
        let named = Some(named).filter(|name| !name.is_empty());
        let id = chosen::to_take_back(&self.home, named, true)?;
        let (mut run, plan) = Run::load(&self.home.runs(), &id, self.named.belongs()).map_err(failures::engine)?;
        let provenance = self.named.provenance();
        consent.have("Take the reset back, so that the cluster runs again?", provenance, self.display).await?;
        fleet.keep(&shown).await;
        let options = self.options(&run);
        let outcome = take_back(&plan, &fleet.links(), &mut run, &shown, options).await.map_err(failures::engine)?;
        let (status, report) = (status::of(run.id().as_str(), plan.plan(), run.replay()), run.dir().join("report.md"));
        if outcome != Outcome::RolledBack {
            return Err(told::unwell(outcome, &status, &report));
        }
        self.display.emit(EventKind::Result {
            ok: true,
            exit_code: ExitCode::Ok.code(),
            summary: format!("reset {} was taken back: cluster {} runs again", status.run, status.cluster),
            data: Some(told::data(&status, &report)),
        });
        Ok(())
    }

    fn options(&self, run: &Run) -> ExecuteOptions {
        ExecuteOptions {
            rollback_command: format!("{} --take-back {}", self.command(), run.id()),
            on_failure: self.args.on_failure.into(),
            cancel: self.cancel.clone(),
            // A reset that begins anew looks at what is left, and does the rest.
            ..ExecuteOptions::new(start::TOOL, self.command())
        }
    }

    fn command(&self) -> String {
        on_cluster("reset", &self.args.cluster, &self.args.hosts)
    }
}
