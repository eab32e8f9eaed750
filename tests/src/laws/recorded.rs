//! A cluster as an earlier program left it: its run folder, its hosts with their ledgers, and what they were like before.
//!
//! `tests/fixtures/recorded` has the archives; `cargo run -p kubexm-tests --example record -- FOLDER` writes new ones.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use kubexm_engine::events::Silent;
use kubexm_engine::execute::Hook;
use kubexm_engine::journal::Record;
use kubexm_engine::sim::Snapshot;
use kubexm_engine::{Belongs, Run, RunId, Status};
use kubexm_plan::{Pipeline, Plan};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::case::Case;
use super::run::{Carried, How, Setting, said};
use super::{Fleet, Rooted, scratch};
use crate::samples::{FLEETS, SAMPLES, Sample};

const RUN: &str = "create";
const META: &str = "recorded.json";

/// What is beside the folders of an archive.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Meta {
    /// Name of the sample.
    sample: String,
    /// The hosts before the run.
    before: Snapshot,
    /// The hosts as they were left.
    left: Snapshot,
}

/// Ends a run where a step was changed and its record is not yet written.
struct StopBeforeDone(String);

impl Hook for StopBeforeDone {
    fn before_record(&self, _: usize, record: &Record) -> bool {
        !matches!(record, Record::StepDone { step, .. } if step.0 == self.0)
    }

    fn after_record(&self, _: usize, _: &Record) -> bool {
        true
    }
}

/// Makes the cluster of a sample and packs what that left; up to the end, or to the death of the program in a step.
pub async fn record(sample: &Sample, killed_in: Option<&str>, archive: &Path) -> Result<(), String> {
    let case = Case::<Rooted>::of(sample, Pipeline::Create).await?;
    let fleet = case.start().fork();
    let before = fleet.snapshot();
    let run = Carried::new(&case.setting)?;
    let how = match killed_in {
        Some(step) => How::KEEP.hooked(Arc::new(StopBeforeDone(step.to_owned()))),
        None => How::KEEP,
    };
    let ended = run.begin(&fleet, &Silent, how).await?;
    if ended.is_err() != killed_in.is_some() {
        return Err(format!("it ends {ended:?}"));
    }
    // Ops that run finish.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    fleet.live();
    let folder = scratch();
    let meta = Meta { sample: sample.name.to_owned(), before, left: fleet.snapshot() };
    let text = serde_json::to_vec_pretty(&meta).map_err(|e| e.to_string())?;
    let packed = || -> std::io::Result<()> {
        std::fs::write(folder.path().join(META), text)?;
        super::run::copy_tree(&run.dir(), &folder.path().join("runs").join(RUN))?;
        super::run::copy_tree(case.setting.pki.path(), &folder.path().join("pki"))?;
        super::rooted::copy_tree(fleet.folder(), &folder.path().join("hosts"))?;
        pack(folder.path(), archive)
    };
    packed().map_err(|e| e.to_string())
}

/// A recorded cluster.
pub struct Recorded {
    folder: Arc<TempDir>,
    /// Its hosts.
    pub fleet: Rooted,
    /// Its hosts before the run.
    pub before: Snapshot,
    /// Its hosts as they were left.
    pub left: Snapshot,
    sample: Sample,
    setting: Setting,
}

impl Recorded {
    /// Unpacks one.
    pub fn load(archive: &Path) -> Result<Self, String> {
        let folder = scratch();
        let read = |path: &str| std::fs::read(folder.path().join(path)).map_err(|e| format!("{path}: {e}"));
        unpack(archive, folder.path()).map_err(|e| format!("{}: {e}", archive.display()))?;
        let meta: Meta = serde_json::from_slice(&read(META)?).map_err(|e| e.to_string())?;
        let sample = *SAMPLES.iter().chain(&FLEETS).find(|one| one.name == meta.sample).ok_or("no such sample")?;
        let plan = serde_json::from_slice(&read(&format!("runs/{RUN}/plan.json"))?).map_err(|e| e.to_string())?;
        let plan = Plan::from_json(plan).map_err(|e| format!("plan.json: {e}"))?;
        let belongs = Belongs { cluster: plan.cluster, bundle: plan.bundle };
        let (_, plan) = Run::load(&folder.path().join("runs"), &RunId::named(RUN), belongs).map_err(said)?;
        let pki = scratch();
        super::run::copy_tree(&folder.path().join("pki"), pki.path()).map_err(|e| e.to_string())?;
        // By the time it was recorded every blob had been brought.
        let (bundle, _) = sample.plan_create();
        let setting = Setting { name: RUN.to_owned(), plan, bundle: Arc::new(bundle), pki: Arc::new(pki) };
        let fleet = Rooted::from_tree(sample.hosts(), &folder.path().join("hosts"));
        let (mut before, mut left) = (meta.before, meta.left);
        // What is looked at since, and is not there.
        for (host, state) in fleet.snapshot() {
            for (key, value) in state.into_iter().filter(|(_, value)| value.is_empty()) {
                for recorded in [&mut before, &mut left] {
                    recorded.entry(host.clone()).or_default().entry(key.clone()).or_insert(value.clone());
                }
            }
        }
        Ok(Self { folder: Arc::new(folder), fleet, before, left, sample, setting })
    }

    /// The recorded run, in a folder of its own.
    pub fn run(&self) -> Result<Carried<'_>, String> {
        Carried::of_folder(&self.setting, &self.folder.path().join("runs"))
    }

    /// Where the recorded run is.
    pub fn status(&self) -> Result<Status, String> {
        self.run()?.status()
    }

    /// The plan that takes the recorded cluster away.
    pub async fn reset(&self) -> Result<Case<Rooted>, String> {
        Case::to_reset(&self.sample, &self.fleet, self.before.clone(), &self.setting).await
    }
}

/// Packs a folder: sorted, without times and owners, so that the same folder gives the same bytes.
fn pack(folder: &Path, archive: &Path) -> std::io::Result<()> {
    let file = std::fs::File::create(archive)?;
    let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::best()));
    append(&mut tar, folder, &PathBuf::new())?;
    tar.into_inner()?.finish()?.sync_all()
}

fn append<W: std::io::Write>(tar: &mut tar::Builder<W>, folder: &Path, below: &Path) -> std::io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(folder.join(below))?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = below.join(entry.file_name());
        // Where the hosts' cluster lay while it was recorded.
        if name.ends_with("run/kubexm-double/cluster") {
            continue;
        }
        let metadata = entry.path().symlink_metadata()?;
        let mut header = tar::Header::new_gnu();
        header.set_metadata_in_mode(&metadata, tar::HeaderMode::Deterministic);
        header.set_mode(metadata.permissions().mode() & 0o7777);
        if metadata.is_symlink() {
            tar.append_link(&mut header, &name, std::fs::read_link(entry.path())?)?;
        } else if metadata.is_dir() {
            header.set_size(0);
            tar.append_data(&mut header, &name, std::io::empty())?;
            append(tar, folder, &name)?;
        } else {
            tar.append_data(&mut header, &name, std::fs::File::open(entry.path())?)?;
        }
    }
    Ok(())
}

fn unpack(archive: &Path, folder: &Path) -> std::io::Result<()> {
    let mut tar = tar::Archive::new(GzDecoder::new(std::fs::File::open(archive)?));
    tar.set_preserve_permissions(true);
    tar.unpack(folder)
}
