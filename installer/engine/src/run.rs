//! The run folder: `runs/<id>/{sequence, plan.json, texts/<hex>, journal.jsonl, logs/, evidence/, report.md}`.
//!
//! It is created under another name and renamed when it is complete, so a run exists with its plan or not at all.
//! plan.json and texts never change. `sequence` is the run's number in its cluster, from 1: run ids have the clock's
//! time, and the clock may be set back.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use kubexm_plan::schema::{OLDEST_SCHEMA, ReadError, SCHEMA};
use kubexm_plan::{CheckedPlan, Plan, StepId, Texts, lint};
use kubexm_spec::{Digest, printable};
use time::OffsetDateTime;

use crate::files::{make_dir, plain_name, sync_dir, write_whole};
use crate::journal::{Entry, Journal, Record};
use crate::lost_host::LostHost;
use crate::replay::Replay;
use crate::{EngineError, Status, report, status};

/// File with the run's number.
const SEQUENCE: &str = "sequence";

/// Id of a run: UTC time and four hex digits. The order of runs is that of [`list`], not that of their ids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// A new id with the current time.
    pub fn new() -> Self {
        Self::at(SystemTime::now())
    }

    /// A new id with a given time.
    pub fn at(now: SystemTime) -> Self {
        let now = OffsetDateTime::from(now);
        let (date, time) = (now.date(), now.time());
        let unique = Digest::of(format!("{} {}", now.unix_timestamp_nanos(), std::process::id())).hex();
        Self(format!(
            "{:04}{:02}{:02}T{:02}{:02}{:02}Z-{}",
            date.year(),
            u8::from(date.month()),
            date.day(),
            time.hour(),
            time.minute(),
            time.second(),
            &unique[..4]
        ))
    }

    /// An id from the operator's text; anything except letters, digits, `.`, `-` and `_` is replaced.
    pub fn named(name: &str) -> Self {
        Self(plain_name(name))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for RunId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a resumed run must belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belongs {
    /// Digest of the bytes of cluster.yaml.
    pub cluster: Digest,
    /// Digest of the bundle's manifest.json; none for a run without a bundle.
    pub bundle: Option<Digest>,
}

/// A run folder that is open for writing. The caller holds the lock of the cluster's folder.
#[derive(Debug)]
pub struct Run {
    id: RunId,
    dir: PathBuf,
    plan: Digest,
    journal: Journal,
    replay: Replay,
    /// Of the last attempt of this process.
    lost: Vec<LostHost>,
}

impl Run {
    /// Creates the folder of a new run below `runs`. Nothing is journalled yet.
    pub fn create(runs: &Path, id: RunId, plan: &CheckedPlan) -> Result<Self, EngineError> {
        let plan = plan.plan();
        make_dir(runs)?;
        // The caller holds the cluster's lock, so nobody else creates a run.
        let last = list(runs)?.iter().map(|id| sequence(runs, id)).max().unwrap_or_default();
        let dir = runs.join(id.as_str());
        let making = runs.join(format!(".{id}.new"));
        make_dir(&making.join("texts"))?;
        write_whole(&making.join(SEQUENCE), format!("{}\n", last.saturating_add(1)).as_bytes(), 0o600)?;
        let written = plan.to_bytes().map_err(|source| EngineError::Serialise { what: "the plan", source })?;
        write_whole(&making.join("plan.json"), &written, 0o600)?;
        for (digest, text) in &plan.texts {
            write_whole(&making.join("texts").join(digest.hex()), text.as_bytes(), 0o600)?;
        }
        sync_dir(&making)?;
        fs::rename(&making, &dir).map_err(EngineError::file("create", &dir))?;
        sync_dir(runs)?;
        Self::open(dir, id, plan)
    }

    /// Opens a run to continue it: schema, cluster, bundle, texts and journal are checked.
    pub fn load(runs: &Path, id: &RunId, belongs: Belongs) -> Result<(Self, CheckedPlan), EngineError> {
        let dir = runs.join(id.as_str());
        let plan = read_plan(&dir, id)?;
        for (what, planned, given, hint) in [
            (
                "cluster.yaml",
                Some(plan.cluster),
                Some(belongs.cluster),
                "give the cluster.yaml the run was planned with",
            ),
            ("bundle", plan.bundle, belongs.bundle, "give the bundle the run was planned with"),
        ] {
            if planned != given {
                let shown = |digest: Option<Digest>| digest.map_or_else(|| "none".to_owned(), |d| d.to_string());
                let (planned, given) = (shown(planned), shown(given));
                return Err(EngineError::PlanMismatch { run: id.to_string(), what, planned, given, hint });
            }
        }
        let run = Self::open(dir, id.clone(), &plan)?;
        let (plan, _) =
            lint::check(plan).map_err(|problems| EngineError::PlanLint { run: id.to_string(), problems })?;
        Ok((run, plan))
    }

    fn open(dir: PathBuf, id: RunId, plan: &Plan) -> Result<Self, EngineError> {
        let (journal, entries) = Journal::open(&dir.join("journal.jsonl"))?;
        let replay = replay(journal.path(), &entries, &id, plan)?;
        let plan = digest(plan)?;
        Ok(Self { id, dir, plan, journal, replay, lost: Vec::new() })
    }

    /// Its name.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Digest of its plan.
    pub fn plan_digest(&self) -> Digest {
        self.plan
    }

    pub fn replay(&self) -> &Replay {
        &self.replay
    }

    /// The hosts that were out of reach when the last attempt of this process failed, if that is why the run was kept
    /// and not rolled back.
    pub fn lost(&self) -> &[LostHost] {
        &self.lost
    }

    pub(crate) fn set_lost(&mut self, lost: Vec<LostHost>) {
        self.lost = lost;
    }

    /// Appends a record: checked against the table of transitions first, on disk when this returns.
    pub(crate) fn record(&mut self, record: Record) -> Result<(), EngineError> {
        let entry = Entry::now(record);
        self.replay.apply(&entry).map_err(|e| EngineError::Illegal {
            path: self.journal.path().to_owned(),
            line: self.replay.records + 1,
            reason: e.to_string(),
        })?;
        self.journal.append(&entry)
    }

    /// Writes report.md from plan and journal.
    pub fn write_report(&self, plan: &Plan) -> Result<PathBuf, EngineError> {
        let path = self.dir.join("report.md");
        let status = status::of(self.id.as_str(), plan, &self.replay);
        write_whole(&path, report::render(&status, &kept_texts(&self.dir)).as_bytes(), 0o600)?;
        Ok(path)
    }

    /// Writes a host's text below `logs/` or `evidence/`.
    pub(crate) fn keep_text(&self, folder: &str, host: &str, name: &str, text: &str) -> Result<(), EngineError> {
        let dir = self.dir.join(folder).join(plain_name(host));
        make_dir(&dir)?;
        write_whole(&dir.join(plain_name(name)), printable(text).as_bytes(), 0o600)
    }
}

/// Reads a run without opening it for writing; it may be active.
pub fn read_status(runs: &Path, id: &RunId) -> Result<Status, EngineError> {
    let dir = runs.join(id.as_str());
    let plan = read_plan(&dir, id)?;
    let path = dir.join("journal.jsonl");
    let replay = replay(&path, &Journal::read(&path)?, id, &plan)?;
    Ok(status::of(id.as_str(), &plan, &replay))
}

/// Reads a run and renders its report.
pub fn read_report(runs: &Path, id: &RunId) -> Result<String, EngineError> {
    Ok(report::render(&read_status(runs, id)?, &kept_texts(&runs.join(id.as_str()))))
}

/// A run's number; 0 if it was created before runs had numbers, or has lost it.
fn sequence(runs: &Path, id: &RunId) -> u64 {
    let text = fs::read_to_string(runs.join(id.as_str()).join(SEQUENCE)).unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

/// The runs below a folder in the order of their numbers, whatever the clock was; those without a number first, by id.
/// Empty if the folder does not exist.
pub fn list(runs: &Path) -> Result<Vec<RunId>, EngineError> {
    let entries = match fs::read_dir(runs) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(EngineError::file("list", runs))?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        let entry = entry.map_err(EngineError::file("list", runs))?;
        let (name, path) = (entry.file_name(), entry.path());
        // Ids with a dot are runs whose creation was interrupted. A run that has lost its plan is reported as damaged;
        // other files and folders must not be taken for the last run.
        let is_run = |name: &&str| {
            let dated = name.starts_with(|first: char| first.is_ascii_digit());
            !name.starts_with('.') && path.is_dir() && (dated || path.join("plan.json").is_file())
        };
        if let Some(name) = name.to_str().filter(is_run) {
            ids.push(RunId(name.to_owned()));
        }
    }
    ids.sort_by_cached_key(|id| (sequence(runs, id), id.clone()));
    Ok(ids)
}

fn read_plan(dir: &Path, id: &RunId) -> Result<Plan, EngineError> {
    let path = dir.join("plan.json");
    let bytes = match fs::read(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && dir.is_dir() => {
            return Err(EngineError::RunDamaged { path, reason: "it is missing".to_owned() });
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(EngineError::NoRun { path: dir.to_owned() }),
        other => other.map_err(EngineError::file("read", &path))?,
    };
    let damaged = |e: serde_json::Error| EngineError::RunDamaged { path: path.clone(), reason: e.to_string() };
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(damaged)?;
    let mut plan = Plan::from_json(value).map_err(|error| match error {
        ReadError::Schema { found } => EngineError::PlanMismatch {
            run: id.to_string(),
            what: "plan schema",
            planned: found,
            given: format!("{OLDEST_SCHEMA} to {SCHEMA}"),
            hint: "use the version of kubexm-install that made the plan",
        },
        ReadError::Damaged(error) => damaged(error),
    })?;
    plan.texts = read_texts(&dir.join("texts"))?;
    Ok(plan)
}

fn read_texts(dir: &Path) -> Result<Texts, EngineError> {
    let mut texts = Texts::new();
    for entry in fs::read_dir(dir).map_err(EngineError::file("list", dir))? {
        let path = entry.map_err(EngineError::file("list", dir))?.path();
        let text = fs::read_to_string(&path).map_err(EngineError::file("read", &path))?;
        let digest = Digest::of(&text);
        if path.file_name().and_then(|n| n.to_str()) != Some(digest.hex().as_str()) {
            return Err(EngineError::RunDamaged { path, reason: format!("its content is {digest}") });
        }
        texts.insert(digest, text);
    }
    Ok(texts)
}

fn replay(path: &Path, entries: &[Entry], id: &RunId, plan: &Plan) -> Result<Replay, EngineError> {
    let illegal = |line, reason| EngineError::Illegal { path: path.to_owned(), line, reason };
    let replay = Replay::of(entries).map_err(|(line, e)| illegal(line, e.to_string()))?;
    let unknown: Option<&StepId> = replay.steps.keys().find(|id| plan.step(id).is_none());
    if let Some(step) = unknown {
        return Err(illegal(entries.len(), format!("the plan has no step {step}")));
    }
    let found = digest(plan)?;
    match replay.plan {
        Some(planned) if planned != found => Err(EngineError::PlanMismatch {
            run: id.to_string(),
            what: "plan",
            planned: planned.to_string(),
            given: found.to_string(),
            hint: "plan.json was changed after the run began: start a new run",
        }),
        _ => Ok(replay),
    }
}

/// Files below the evidence folder, as paths relative to the run's folder.
fn kept_texts(run: &Path) -> report::Kept {
    report::Kept { logs: listing(run, "logs"), evidence: listing(run, "evidence") }
}

/// `FOLDER/HOST/NAME` of every text below a folder of a run, sorted.
fn listing(run: &Path, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for host in fs::read_dir(run.join(folder)).into_iter().flatten().flatten() {
        for file in fs::read_dir(host.path()).into_iter().flatten().flatten() {
            found.push(format!(
                "{folder}/{}/{}",
                host.file_name().to_string_lossy(),
                file.file_name().to_string_lossy()
            ));
        }
    }
    found.sort();
    found
}

fn digest(plan: &Plan) -> Result<Digest, EngineError> {
    plan.digest().map_err(|source| EngineError::Serialise { what: "the plan", source })
}
