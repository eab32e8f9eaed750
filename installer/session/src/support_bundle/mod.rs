//! The content of a support bundle: selected files of a cluster's runs, each without secrets.
//!
//! Only the files listed here are packed. Keys, kubeconfigs and everything else in the cluster's folder are not.

pub(crate) mod redact;

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use kubexm_engine::run;
use kubexm_engine::{ClusterPki, RunId};
use kubexm_plan::SlotProvider;

use self::redact::Known;
use crate::error::SessionError;
use crate::home::ClusterHome;

/// The most bytes that are packed from the end of a file: the end of a long log has the error.
const TAIL: u64 = 16 << 20;
/// Files of a run's folder.
const FILES: [&str; 3] = ["plan.json", "journal.jsonl", "report.md"];
/// Folders of a run's folder, with all files below.
const FOLDERS: [&str; 3] = ["texts", "logs", "evidence"];
/// The README in the archive.
const README: &str = "README.txt";

/// The files to pack.
pub struct Collection {
    cluster: ClusterHome,
    runs: Vec<RunId>,
    known: Known,
}

impl Collection {
    /// The last runs of a cluster.
    pub fn of(cluster: &ClusterHome, runs: usize) -> Result<Self, SessionError> {
        let mut all = cluster.run_ids()?;
        let runs = all.split_off(all.len().saturating_sub(runs));
        let mut known = Known::default();
        // Also earlier versions of secret files that a run has replaced.
        let replaced = files_below(&cluster.folder.join("ledger/content"));
        for path in files_below(&cluster.pki()).into_iter().chain([cluster.kubeconfig()]).chain(replaced) {
            // A secret that cannot be read was not copied from this machine either.
            if let Ok(secret) = fs::read_to_string(&path)
                && path.extension().is_none_or(|extension| extension != "crt")
            {
                known.learn(&secret);
            }
        }
        for run in &runs {
            learn_derived(cluster, run, &mut known);
        }
        Ok(Self { cluster: cluster.clone(), runs, known })
    }

    /// Names of the runs, oldest first.
    pub fn runs(&self) -> Vec<String> {
        self.runs.iter().map(ToString::to_string).collect()
    }

    /// Writes the archive (tar, gzip), and returns the number of files in it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, file: &mut dyn Write) -> std::io::Result<usize> {
        let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
        let mut files = 0;
        let mut add = |name: &str, text: &str| {
            let text = self.known.redact(text);
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o600);
            files += 1;
            archive.append_data(&mut header, format!("{}/{name}", self.top()), text.as_bytes())
        };
        add(README, &self.readme())?;
        for id in &self.runs {
            let folder = self.cluster.runs().join(id.as_str());
            match run::read_status(&self.cluster.runs(), id) {
                Ok(status) => add(&format!("{id}/status.json"), &serde_json::to_string_pretty(&status)?)?,
                Err(error) => add(&format!("{id}/status.txt"), &format!("this run cannot be read: {error}\n"))?,
            }
            let named = FILES.iter().map(|name| folder.join(name));
            let below = FOLDERS.iter().flat_map(|name| files_below(&folder.join(name)));
            for path in named.chain(below) {
                let Some(name) = path.strip_prefix(&folder).ok().and_then(Path::to_str) else { continue };
                match end_of(&path) {
                    Ok(text) => add(&format!("{id}/{name}"), &text)?,
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => add(&format!("{id}/{name}.missing"), &format!("it could not be read: {error}\n"))?,
                }
            }
        }
        archive.into_inner()?.finish()?.flush()?;
        Ok(files)
    }

    fn top(&self) -> String {
        format!("kubexm-support-{}", self.cluster.name)
    }

    fn readme(&self) -> String {
        format!(
            "The last {} runs of cluster {}, packed by kubexm-install {}.\n\n\
             Each run: status.json (where it is), report.md (for people), plan.json and texts/ (what was to be done),\n\
             journal.jsonl (what was done, and when), logs/ (of actions on hosts), evidence/ (of hosts where a step failed).\n\
             Left out: keys, certificates, kubeconfigs. Removed from every text: whatever looks like a secret, marked \
             {}.\n",
            self.runs.len(),
            self.cluster.name,
            env!("CARGO_PKG_VERSION"),
            redact::MARK,
        )
    }
}

/// Passwords that follow from a key of the cluster are in no file: those that the run's plan names.
fn learn_derived(cluster: &ClusterHome, run: &RunId, known: &mut Known) {
    let plan = fs::read(cluster.runs().join(run.as_str()).join("plan.json")).unwrap_or_default();
    // Read as a document, since plans of earlier programs are packed too.
    let plan: serde_json::Value = serde_json::from_slice(&plan).unwrap_or_default();
    let pki = ClusterPki::view(&cluster.pki(), false);
    for slot in plan["slots"].as_object().into_iter().flat_map(|slots| slots.values()) {
        if let Ok(SlotProvider::DerivedPassword { purpose, username }) = serde_json::from_value(slot.clone()) {
            for username in [None, username.as_deref()] {
                // Without the key there was no password either.
                if let Ok(password) = pki.derived_password(&purpose, username) {
                    known.learn(&password);
                }
            }
        }
    }
}

/// Regular files below a folder, sorted; links are not followed. Empty if the folder does not exist.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let walk = walkdir::WalkDir::new(folder).sort_by_file_name();
    walk.into_iter().flatten().filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path).collect()
}

/// The end of a file as text.
fn end_of(path: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first, incomplete line is dropped: the name of a secret field may have been cut off.
    let cut = if length > TAIL { text.find('\n').map_or(text.len(), |end| end + 1) } else { 0 };
    Ok(text[cut..].to_owned())
}
