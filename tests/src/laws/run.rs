//! One run of a case's plan: its folder, and the ways it is started, ended and resumed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use kubexm_engine::execute::Hook;
use kubexm_engine::journal::{Journal, Record};
use kubexm_engine::slots::SlotSource;
use kubexm_engine::{
    Belongs, ClusterPki, Drill, EngineError, EventSink, ExecuteOptions, OnFailure, Outcome, Run, RunId, Status,
};
use kubexm_engine::{execute, resume, rollback, run};
use kubexm_plan::{CheckedPlan, Plan, SlotName, SlotProvider};

use super::{Fleet, scratch};
use crate::synthetic::SyntheticBundle;

/// What every run of a case has in common.
#[derive(Clone)]
pub struct Setting {
    /// Every run has this name, in a folder of its own: hosts remember it, and their ends are compared.
    pub name: String,
    pub plan: CheckedPlan,
    pub bundle: Arc<SyntheticBundle>,
    pub pki: Arc<tempfile::TempDir>,
}

/// How a run is executed, beside its plan.
#[derive(Clone)]
pub struct How {
    /// What happens when a step fails.
    pub on_failure: OnFailure,
    /// How many workers may be left out.
    pub max_failed_hosts: usize,
    /// A step that fails on purpose.
    pub drill: Option<Drill>,
    /// Where the program dies.
    pub hook: Option<Arc<dyn Hook>>,
}

impl How {
    /// A failure keeps what was done.
    pub const KEEP: Self = Self { on_failure: OnFailure::Keep, max_failed_hosts: 0, drill: None, hook: None };
    /// A failure rolls back.
    pub const ROLLBACK: Self = Self { on_failure: OnFailure::Rollback, ..Self::KEEP };

    /// The same, with a place to die.
    pub fn hooked(self, hook: Arc<dyn Hook>) -> Self {
        Self { hook: Some(hook), ..self }
    }

    fn options(self) -> ExecuteOptions {
        let mut options = ExecuteOptions::new("laws", "resume");
        options.on_failure = self.on_failure;
        options.max_failed_hosts = self.max_failed_hosts;
        options.drill = self.drill;
        options.poll = Duration::from_millis(1);
        options.backoff = Duration::from_millis(1);
        options.hook = self.hook;
        options
    }
}

/// A run in a folder of its own.
pub struct Carried<'s> {
    setting: &'s Setting,
    folder: tempfile::TempDir,
    /// As it was made, until it is started.
    made: Mutex<Option<Run>>,
}

impl<'s> Carried<'s> {
    /// Its folder with the plan; nothing was done.
    pub fn new(setting: &'s Setting) -> Result<Self, String> {
        let folder = scratch();
        let made = Run::create(folder.path(), RunId::named(&setting.name), &setting.plan).map_err(said)?;
        Ok(Self { setting, folder, made: Mutex::new(Some(made)) })
    }

    /// A run that lies in a folder of runs already; this one works on a copy.
    pub fn of_folder(setting: &'s Setting, runs: &Path) -> Result<Self, String> {
        let carried = Self { setting, folder: scratch(), made: Mutex::default() };
        copy_tree(&runs.join(&setting.name), &carried.dir()).map_err(|e| e.to_string())?;
        Ok(carried)
    }

    fn id(&self) -> RunId {
        RunId::named(&self.setting.name)
    }

    /// Its folder.
    pub fn dir(&self) -> PathBuf {
        self.folder.path().join(&self.setting.name)
    }

    fn belongs(&self) -> Belongs {
        let plan = self.setting.plan.plan();
        Belongs { cluster: plan.cluster, bundle: plan.bundle }
    }

    fn pki(&self) -> Result<OperatorSlots, String> {
        let pki = ClusterPki::open(&self.setting.pki.path().join("pki")).map_err(said)?;
        Ok(OperatorSlots(pki, std::fs::read(self.setting.pki.path().join(BACKUP_KEY)).unwrap_or_default()))
    }

    /// Begins it.
    pub async fn begin(
        &self,
        fleet: &impl Fleet,
        events: &dyn EventSink,
        how: How,
    ) -> Result<Result<Outcome, EngineError>, String> {
        let made = self.made.lock().map_or(None, |mut made| made.take());
        let (mut run, plan) = match made {
            Some(run) => (run, self.setting.plan.clone()),
            None => Run::load(self.folder.path(), &self.id(), self.belongs()).map_err(said)?,
        };
        let (links, pki) = (fleet.links(), self.pki()?);
        Ok(execute(&plan, &links, &mut run, &pki, &*self.setting.bundle, events, how.options()).await)
    }

    /// Continues with it in its own direction.
    pub async fn resume(&self, fleet: &impl Fleet, how: How) -> Result<Outcome, String> {
        let (links, pki) = (fleet.links(), self.pki()?);
        let (bundle, silent) = (&*self.setting.bundle, &kubexm_engine::events::Silent);
        let (id, belongs) = (self.id(), self.belongs());
        let resumed = resume(self.folder.path(), &id, belongs, &links, &pki, bundle, silent, how.options()).await;
        resumed.map(|(outcome, _)| outcome).map_err(|e| format!("it cannot be resumed: {e}"))
    }

    /// Rolls it back.
    pub async fn roll_back(&self, fleet: &impl Fleet, how: How) -> Result<Outcome, EngineError> {
        let (links, silent) = (fleet.links(), &kubexm_engine::events::Silent);
        let (id, belongs) = (self.id(), self.belongs());
        rollback(self.folder.path(), &id, belongs, &links, silent, how.options()).await.map(|(outcome, _)| outcome)
    }

    /// Another run of the same story: its first so many records.
    pub fn copy(&self, records: usize) -> Result<Self, String> {
        let folder = scratch();
        let copy = Self { setting: self.setting, folder, made: Mutex::default() };
        copy_tree(&self.dir(), &copy.dir()).map_err(|e| e.to_string())?;
        let path = copy.dir().join("journal.jsonl");
        let text = match std::fs::read_to_string(&path) {
            // A run that was not begun has none.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(copy),
            other => other.map_err(|e| e.to_string())?,
        };
        let kept: String = text.split_inclusive('\n').take(records).collect();
        std::fs::write(&path, kept).map_err(|e| e.to_string())?;
        Ok(copy)
    }

    /// What its journal says.
    pub fn records(&self) -> Result<Vec<Record>, String> {
        let entries = Journal::read(&self.dir().join("journal.jsonl")).map_err(said)?;
        Ok(entries.into_iter().map(|entry| entry.record).collect())
    }

    pub fn status(&self) -> Result<Status, String> {
        run::read_status(self.folder.path(), &self.id()).map_err(said)
    }

    /// The report, for messages.
    pub fn report(&self) -> String {
        run::read_report(self.folder.path(), &self.id()).unwrap_or_else(|e| e.to_string())
    }

    /// Refuses a run folder with a secret in any of its files.
    pub fn shows_no_secret(&self) -> Result<(), String> {
        let mut open = vec![self.dir()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).map_err(|e| e.to_string())?.flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                    continue;
                }
                let text = String::from_utf8_lossy(&std::fs::read(&path).map_err(|e| e.to_string())?).into_owned();
                // The simulated control plane's values, and what a key in PEM has.
                for secret in ["secret-joinToken", "secret-certificateKey", "PRIVATE KEY-----\n", "AGE-SECRET-KEY-"] {
                    if text.contains(secret) {
                        return Err(format!("{} shows a secret ({secret:?})", path.display()));
                    }
                }
            }
        }
        Ok(())
    }
}

/// What is never written again is the same file.
pub fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_tree(&path, &target)?;
        } else if (path.ends_with("plan.json") || from.ends_with("texts")) && std::fs::hard_link(&path, &target).is_ok()
        {
            // Never written again.
        } else {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// An error with what is behind it.
pub fn said(error: impl std::error::Error) -> String {
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Ends a run at a record of this attempt, counted from 1.
pub struct StopAt {
    before: bool,
    nth: usize,
    seen: AtomicUsize,
}

impl StopAt {
    pub fn new(before: bool, nth: usize) -> Arc<Self> {
        Arc::new(Self { before, nth, seen: AtomicUsize::new(0) })
    }
}

impl Hook for StopAt {
    fn before_record(&self, _: usize, _: &Record) -> bool {
        let now = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        !(self.before && now == self.nth)
    }

    fn after_record(&self, _: usize, _: &Record) -> bool {
        self.before || self.seen.load(Ordering::SeqCst) != self.nth
    }
}

/// Looks at the fleet at every record, and keeps what a crash there would leave where that is possible.
pub struct Camera<F> {
    fleet: F,
    keeps: bool,
    pub taken: Mutex<Vec<Moment<F>>>,
}

/// A crash that could have been.
pub struct Moment<F> {
    pub fleet: F,
    /// The record that was being written, of the whole journal.
    pub nth: usize,
    /// That many records were on disk.
    pub records: usize,
    pub what: String,
}

impl<F: Fleet> Camera<F> {
    pub fn of(fleet: F, keeps: bool) -> Arc<Self> {
        Arc::new(Self { fleet, keeps, taken: Mutex::default() })
    }

    fn take(&self, records: usize, what: &str, nth: usize, record: &Record) {
        self.fleet.look();
        let fleet = if self.keeps { self.fleet.crashed_copy() } else { None };
        if let (Some(fleet), Ok(mut taken)) = (fleet, self.taken.lock()) {
            let record = serde_json::to_value(record).unwrap_or_default();
            let what = format!("a crash {what} record {nth} ({} {})", record["record"], record["step"]);
            taken.push(Moment { fleet, nth, records, what });
        }
    }
}

impl<F: Fleet> Hook for Camera<F> {
    fn before_record(&self, nth: usize, record: &Record) -> bool {
        self.take(nth - 1, "before", nth, record);
        true
    }

    fn after_record(&self, nth: usize, record: &Record) -> bool {
        self.take(nth, "after", nth, record);
        true
    }
}

/// Certificates of a controller, and an operator whose every secret is [`SECRET`].
struct OperatorSlots(ClusterPki, Vec<u8>);

/// The file of what opens a backup.
pub const BACKUP_KEY: &str = "backup-key";

/// What is in no plan, journal, ledger or report.
pub const SECRET: &str = "the operator's own secret";

#[async_trait]
impl SlotSource for OperatorSlots {
    async fn value(&self, name: &SlotName, provider: &SlotProvider, plan: &Plan) -> Result<Vec<u8>, EngineError> {
        match provider {
            SlotProvider::Secret { .. }
            | SlotProvider::AdminKubeconfig { .. }
            | SlotProvider::RegistryLogin { .. }
            | SlotProvider::RequestKey { .. }
            | SlotProvider::BackupFile { .. } => Ok(SECRET.as_bytes().to_vec()),
            SlotProvider::BackupKey => Ok(self.1.clone()),
            provider => self.0.value(name, provider, plan).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::SAMPLES;

    #[test]
    fn a_secret_in_any_file_of_a_run_is_found() {
        let (bundle, plan) = SAMPLES[0].plan_create();
        let setting = Setting { name: "run".to_owned(), plan, bundle: Arc::new(bundle), pki: Arc::new(scratch()) };
        let run = Carried::new(&setting).expect("a run");
        assert_eq!(run.shows_no_secret(), Ok(()));
        let log = run.dir().join("logs/node1/join.node.log");
        std::fs::create_dir_all(log.parent().expect("a parent")).expect("folders");
        std::fs::write(&log, "token: secret-joinToken-1\n").expect("a log");
        assert!(run.shows_no_secret().is_err_and(|why| why.contains("join.node.log shows a secret")));
    }
}
