//! A sample, a pipeline, and hosts as they are before it: what a law is compared with.

use std::collections::BTreeSet;
use std::sync::Arc;

use kubexm_engine::Outcome;
use kubexm_engine::events::Silent;
use kubexm_engine::journal::Record;
use kubexm_engine::sim::Snapshot;
use kubexm_plan::backup::Archive;
use kubexm_plan::lint::{self, Order};
use kubexm_plan::op::Op;
use kubexm_plan::{CONTROLLER, Invariant, Pipeline, Plan, Step, StepId, Undo};

use super::compare::{differences, refuse};
use super::plans::{
    FORCED, adopt_plan, backup_of, delete_plan, prune_plan, renew_plan, reset_again, reset_plan, restore_plan, running,
    running_adopted, upgraded,
};
use super::run::{Camera, Carried, How, Setting, said};
use super::{Fleet, scratch};
use crate::samples::Sample;

/// What stands for the cluster where a host is named.
pub(super) const CLUSTER: &str = "(cluster)";
const AGENT: &str = "/usr/local/bin/kubexm-install";

/// A pipeline of a sample on one kind of fleet.
pub struct Case<F> {
    /// For messages.
    pub name: String,
    pub pipeline: Pipeline,
    pub(super) setting: Setting,
    /// The hosts before it.
    pub(super) start: F,
    /// The hosts before anything.
    pub(super) fresh: Snapshot,
    pub(super) sample: Sample,
}

/// How a plan that nothing disturbs ends.
pub(super) struct End<F> {
    pub fleet: F,
    pub snapshot: Snapshot,
    /// Changes that it made.
    pub converges: usize,
}

impl<F: Fleet> Case<F> {
    /// The hosts of a sample just before a pipeline, and its plan.
    pub async fn of(sample: &Sample, pipeline: Pipeline) -> Result<Self, String> {
        let sample = &sample.occupied();
        let (bundle, plan) = match pipeline {
            Pipeline::Create
            | Pipeline::CreateFromBackup
            | Pipeline::AddonsApply
            | Pipeline::DeleteNode
            | Pipeline::CertsRenew
            | Pipeline::Restore
            | Pipeline::Adopt
            | Pipeline::Reset => sample.plan_create(),
            Pipeline::AddNode => sample.plan_before_add_node(),
            Pipeline::Upgrade | Pipeline::RegistryPrune => sample.plan_before_upgrade(),
        };
        let whole = match pipeline {
            Pipeline::Upgrade | Pipeline::RegistryPrune => plan.clone(),
            _ => sample.plan_create().1,
        };
        let pki = Arc::new(scratch());
        let setting = Setting { name: "create".to_owned(), plan, bundle: Arc::new(bundle), pki };
        let fresh = F::fresh(sample, &whole);
        let name = format!("{pipeline} of {}", sample.name);
        let before = fresh.snapshot();
        if pipeline == Pipeline::Create {
            return Ok(Self { name, pipeline, setting, start: fresh, fresh: before, sample: *sample });
        }
        let made = Carried::new(&setting)?;
        let outcome = made.begin(&fresh, &Silent, How::KEEP).await?.map_err(said)?;
        if outcome != Outcome::Succeeded {
            return Err(format!("the cluster before it cannot be made: {outcome:?}\n{}", made.report()));
        }
        fresh.live();
        let start = fresh.fork();
        let start = match pipeline {
            Pipeline::RegistryPrune => upgraded(sample, &start, &setting).await?,
            // As kubeadm has made it for somebody else: the hosts do not know of kubexm.
            Pipeline::Adopt => {
                start.forget_kubexm();
                start
            }
            _ => start,
        };
        let name_of_run = pipeline.name().to_owned();
        let setting = match pipeline {
            Pipeline::Create => setting,
            Pipeline::CreateFromBackup => {
                let archive = backup_of(sample, &start, &setting).await?;
                let described = Archive { sha256: kubexm_spec::Digest::of(&archive), size: archive.len() as u64 };
                let (mut bundle, plan) = sample.plan_create_from_backup(described);
                bundle.blobs.insert(described.sha256, archive);
                let start = F::fresh(sample, &plan);
                let fresh = start.snapshot();
                let setting = Setting { name: name_of_run, plan, bundle: Arc::new(bundle), ..setting };
                return Ok(Self { name, pipeline, setting, start, fresh, sample: *sample });
            }
            Pipeline::AddNode => {
                let (bundle, plan) = sample.plan_add_node();
                Setting { name: name_of_run, plan, bundle: Arc::new(bundle), ..setting }
            }
            Pipeline::DeleteNode => {
                let plan = delete_plan(sample, &start).await?;
                Setting { name: name_of_run, plan, ..setting }
            }
            Pipeline::AddonsApply => {
                let (bundle, plan) = sample.plan_addons_apply();
                start.serve(&plan);
                Setting { name: name_of_run, plan, bundle: Arc::new(bundle), ..setting }
            }
            Pipeline::Upgrade => {
                let (bundle, plan) = sample.plan_upgrade(&running(sample, &start).await?);
                start.serve(&plan);
                Setting { name: name_of_run, plan, bundle: Arc::new(bundle), ..setting }
            }
            Pipeline::CertsRenew => {
                let plan = renew_plan(sample, &start, &setting, FORCED).await?;
                Setting { name: name_of_run, plan, ..setting }
            }
            Pipeline::RegistryPrune => {
                let plan = prune_plan(sample, &start).await?;
                Setting { name: name_of_run, plan, ..setting }
            }
            Pipeline::Adopt => {
                let plan = adopt_plan(sample, &start).await?;
                Setting { name: name_of_run, plan, ..setting }
            }
            Pipeline::Restore => {
                let (plan, bundle) = restore_plan(sample, &start, &setting).await?;
                Setting { name: name_of_run, plan, bundle: Arc::new(bundle), ..setting }
            }
            Pipeline::Reset => {
                let plan = reset_plan(sample, &start).await?;
                Setting { name: name_of_run, plan, ..setting }
            }
        };
        Ok(Self { name, pipeline, setting, start, fresh: before, sample: *sample })
    }

    /// The reset of a cluster that another program made. `fresh` is what the hosts were before it.
    pub(super) async fn to_reset(sample: &Sample, fleet: &F, fresh: Snapshot, made: &Setting) -> Result<Self, String> {
        let plan = reset_plan(sample, fleet).await?;
        let setting = Setting { name: "reset".to_owned(), plan, ..made.clone() };
        let name = format!("reset of a recorded {}", sample.name);
        Ok(Self { name, pipeline: Pipeline::Reset, setting, start: fleet.fork(), fresh, sample: *sample })
    }

    /// The same hosts with another plan, to be refused.
    pub fn bent(&self, bend: impl FnOnce(&mut Plan)) -> Result<Self, String> {
        let mut plan = self.setting.plan.plan().clone();
        bend(&mut plan);
        let (plan, _) = lint::check(plan).map_err(|problems| format!("{problems:?}"))?;
        let setting = Setting { plan, ..self.setting.clone() };
        let (start, fresh) = (self.start.fork(), self.fresh.clone());
        let (pipeline, sample) = (self.pipeline, self.sample);
        Ok(Self { name: format!("{}, bent", self.name), pipeline, setting, start, fresh, sample })
    }

    /// A second `create` of the cluster that this one makes, of a cluster.yaml that was changed since.
    pub async fn again(&self, change: impl FnOnce(&mut Plan)) -> Result<Self, String> {
        let start = self.carried_out().await?.fork();
        let bent = self.bent(change)?;
        let setting = Setting { name: "again".to_owned(), ..bent.setting };
        Ok(Self { name: format!("{}, again and changed", self.name), setting, start, ..bent })
    }

    /// The hosts after it.
    pub async fn carried_out(&self) -> Result<F, String> {
        Ok(self.undisturbed().await?.0.fleet)
    }

    /// The same plan on other hosts, to be refused.
    pub fn on<G: Fleet>(&self, change: impl FnOnce(F) -> G) -> Case<G> {
        let start = change(self.start.fork());
        let (setting, fresh) = (self.setting.clone(), self.fresh.clone());
        let (pipeline, sample) = (self.pipeline, self.sample);
        Case { name: self.name.clone(), pipeline, setting, start, fresh, sample }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.setting.plan.plan()
    }

    /// The hosts before it.
    pub fn start(&self) -> &F {
        &self.start
    }

    /// Law 5: what must hold at every point does, all the way to the end and back.
    pub async fn its_invariants_hold_at_every_point(&self) -> Result<(), String> {
        let (end, run) = self.undisturbed().await?;
        let how = How::KEEP.hooked(Camera::of(end.fleet.clone(), false));
        let outcome = run.roll_back(&end.fleet, how).await.map_err(said)?;
        self.unwound(&end.fleet, &run, outcome, "a rollback")
    }

    /// Of `reset` and `delete-node`: every host that leaves the cluster is as it was before the cluster was made. The agent
    /// came with the first link, and goes.
    pub async fn every_host_is_as_before_anything(&self) -> Result<(), String> {
        let (end, _) = self.undisturbed().await?;
        let (mut found, mut wanted) = (end.snapshot, self.fresh.clone());
        for host in wanted.values_mut() {
            host.retain(|key, _| key != AGENT && key.strip_prefix("path:") != Some(AGENT));
        }
        for host in found.values_mut().chain(wanted.values_mut()) {
            // The fake keeps containerd's images beside its tree: they went with containerd's folder.
            host.retain(|key, _| key != "(system) images");
        }
        // What is in the cluster was etcd's, whose folder is one of a host.
        // The operator's kubeconfig is removed by the session, when no host is left.
        let mut without = BTreeSet::from([CLUSTER, CONTROLLER].map(str::to_owned));
        if self.pipeline == Pipeline::DeleteNode {
            without
                .extend(self.sample.hosts().into_iter().filter(|host| !self.sample.deleted.contains(&host.as_str())));
        }
        refuse(differences(&found, &wanted, &without), self.pipeline.name())
    }

    /// Carries it out undisturbed.
    pub(super) async fn undisturbed(&self) -> Result<(End<F>, Carried<'_>), String> {
        let fleet = self.start.fork();
        let run = Carried::new(&self.setting)?;
        let outcome =
            run.begin(&fleet, &Silent, How::KEEP.hooked(Camera::of(fleet.clone(), false))).await?.map_err(said)?;
        if outcome != Outcome::Succeeded {
            return Err(format!("undisturbed it ends {outcome:?}:\n{}", run.report()));
        }
        run.shows_no_secret()?;
        self.sound(&fleet, "an undisturbed run")?;
        let converges = usize::try_from(fleet.converges()).map_err(|e| e.to_string())?;
        let end = End { snapshot: fleet.snapshot(), converges, fleet };
        Ok((end, run))
    }

    /// Law 5: what this pipeline may not break did hold at every point, and holds now.
    pub(super) fn sound(&self, fleet: &F, after: &str) -> Result<(), String> {
        self.sound_but_for(fleet, &BTreeSet::new(), after)
    }

    /// The same, but for what waits for the restart that a run makes once it is begun again: `UNIT on HOST ` of steps that failed half-way and
    /// have no way back.
    fn sound_but_for(&self, fleet: &F, waiting: &BTreeSet<String>, after: &str) -> Result<(), String> {
        let wanted = self.pipeline.invariants();
        let waits = |invariant: Invariant, text: &str| {
            invariant == Invariant::LoadedConfig && waiting.iter().any(|unit| text.starts_with(unit.as_str()))
        };
        let broken = fleet.broken().into_iter();
        let broken = broken.filter(|(invariant, text)| wanted.contains(invariant) && !waits(*invariant, text));
        refuse(broken.map(|(invariant, text)| format!("{invariant:?}: {text}")).collect(), after)
    }

    /// Refuses an end that is not this one.
    pub(super) fn ended_so(&self, fleet: &F, end: &Snapshot, after: &str) -> Result<(), String> {
        self.sound(fleet, after)?;
        refuse(differences(&fleet.snapshot(), end, &BTreeSet::new()), after)
    }

    /// Law 1: everything is as before; where something irreversible was done, all that it and what it builds on did not
    /// touch.
    pub(super) fn unwound(&self, fleet: &F, run: &Carried<'_>, outcome: Outcome, after: &str) -> Result<(), String> {
        let waiting = if outcome == Outcome::Stuck { self.waiting(run)? } else { BTreeSet::new() };
        self.sound_but_for(fleet, &waiting, after)?;
        let start = self.start.snapshot();
        let without = match outcome {
            Outcome::RolledBack => BTreeSet::new(),
            Outcome::Stuck => self.kept(run).map_err(|why| format!("after {after}: {why}"))?,
            other => return Err(format!("after {after}: rolled back, it ends {other:?}:\n{}", run.report())),
        };
        refuse(differences(&fleet.snapshot(), &start, &without), after)
    }

    /// The units that steps without a way back restart, of those that failed last: `kubexm-etcd.service on etcd3 `.
    fn waiting(&self, run: &Carried<'_>) -> Result<BTreeSet<String>, String> {
        let mut failed: BTreeSet<StepId> = BTreeSet::new();
        for record in run.records()? {
            match record {
                Record::StepFailed { step, .. } => drop(failed.insert(step)),
                Record::StepDone { step, .. } => drop(failed.remove(&step)),
                _ => {}
            }
        }
        let no_way_back = |step: &&Step| failed.contains(&step.id) && matches!(step.undo, Undo::Irreversible { .. });
        let units = self.plan().steps.iter().filter(no_way_back).flat_map(|step| {
            let name = |op: &Op| if let Op::Unit(unit) = op { Some(unit.name.clone()) } else { None };
            step.ops.iter().filter_map(name).map(|unit| format!("{unit} on {} ", step.host))
        });
        Ok(units.collect())
    }

    /// Hosts with something that a run could not roll back, by what its plan says is irreversible; refuses a run that is
    /// stuck for another reason. What is in the cluster is on all of them.
    fn kept(&self, run: &Carried<'_>) -> Result<BTreeSet<String>, String> {
        let plan = self.plan();
        let changed: BTreeSet<String> = run
            .records()?
            .iter()
            .filter_map(
                |record| if let Record::StepPrepared { step, .. } = record { Some(step.0.clone()) } else { None },
            )
            .collect();
        let order = Order::of(plan);
        let stuck = run.status()?.undo.and_then(|undo| undo.stuck).unwrap_or_default();
        let mut kept = BTreeSet::new();
        for (at, step) in plan.steps.iter().enumerate() {
            if !matches!(step.undo, Undo::Irreversible { .. }) || !changed.contains(&step.id.0) {
                continue;
            }
            let built_on = plan.steps.iter().enumerate().filter(|(earlier, _)| order.is_earlier(*earlier, at));
            kept.extend(built_on.map(|(_, step)| step.host.clone()));
            kept.extend([step.host.clone(), CLUSTER.to_owned()]);
        }
        let named = plan.steps.iter().any(|step| {
            matches!(step.undo, Undo::Irreversible { .. })
                && stuck.starts_with(&format!("{} cannot be rolled back", step.id))
        });
        if named && !kept.is_empty() { Ok(kept) } else { Err(format!("it is stuck: {stuck}\n{}", run.report())) }
    }

    /// The same pipeline from hosts as they are now: for `reset` a plan of its own, from what the hosts say.
    pub(super) async fn planned_again(&self, fleet: &F) -> Result<Setting, String> {
        let plan = match self.pipeline {
            Pipeline::DeleteNode => delete_plan(&self.sample, fleet).await?,
            Pipeline::Reset => reset_again(self.plan(), fleet).await?,
            Pipeline::Upgrade if self.plan().is_of_adopted() => {
                self.sample.plan_upgrade_of_adopted(&running_adopted(&self.sample, fleet).await?).1
            }
            Pipeline::Upgrade => self.sample.plan_upgrade(&running(&self.sample, fleet).await?).1,
            Pipeline::Create
            | Pipeline::CreateFromBackup
            | Pipeline::AddNode
            | Pipeline::AddonsApply
            | Pipeline::CertsRenew
            | Pipeline::RegistryPrune
            | Pipeline::Adopt
            | Pipeline::Restore => self.setting.plan.clone(),
        };
        Ok(Setting { plan, ..self.setting.clone() })
    }
}
