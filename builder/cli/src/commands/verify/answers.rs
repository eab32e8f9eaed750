//! The three answers of `verify`, for people and for machines.

use std::path::Path;

use kubexm_archive::{Damage, Incomplete};
use kubexm_builder::complete;
use kubexm_spec::ExitCode;
use kubexm_terminal::Failure;
use serde_json::{Value, json};

use super::subject::Subject;
use crate::commands::trust;

/// The schema of the answer to `--json`.
const SCHEMA: &str = "kubexm.io/verify/v1";

/// Whether everything is there.
pub enum Completeness {
    /// Damage was found, or only the file was looked at.
    NotAsked,
    /// A delta without its base.
    Unknown,
    /// What the bundle names and does not hold, and what its cluster needs and it does not list.
    Asked(Vec<String>),
    /// The texts that it is read from cannot be used.
    Unreadable(Failure),
}

impl Completeness {
    /// Asks; for people, what cannot be read is the failure itself.
    pub fn of(subject: &Subject, people: bool) -> Result<Self, Failure> {
        if subject.lacks_its_base() {
            return Ok(Self::Unknown);
        }
        match missing(subject) {
            Ok(missing) => Ok(Self::Asked(missing)),
            Err(failure) if people => Err(failure),
            Err(failure) => Ok(Self::Unreadable(failure)),
        }
    }

    fn code(&self) -> ExitCode {
        match self {
            Self::NotAsked => ExitCode::Ok,
            Self::Asked(missing) if missing.is_empty() => ExitCode::Ok,
            Self::Asked(_) | Self::Unknown => ExitCode::BundleIncomplete,
            Self::Unreadable(failure) => failure.code,
        }
    }

    fn document(&self) -> Value {
        let (ok, checked, missing) = match self {
            Self::NotAsked => (Value::Null, false, Vec::new()),
            Self::Unknown => (Value::Bool(false), false, Vec::new()),
            Self::Asked(missing) => (Value::Bool(missing.is_empty()), true, missing.clone()),
            Self::Unreadable(failure) => (Value::Bool(false), true, vec![failure.text.clone()]),
        };
        json!({ "ok": ok, "checked": checked, "missing": missing })
    }
}

fn missing(subject: &Subject) -> Result<Vec<String>, Failure> {
    let bundle = subject.documents();
    let mut all = Vec::new();
    match kubexm_archive::check_references(bundle) {
        Ok(()) => {}
        Err(Incomplete::Missing { missing, .. }) => all.extend(missing.iter().map(ToString::to_string)),
        Err(error) => return Err(Failure::from_error(error.exit_code(), &error)),
    }
    let carried = complete::carried(bundle).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    let needed = complete::missing(&carried, bundle.manifest())
        .map_err(|e| Failure::from_error(ExitCode::BundleIncomplete, &e))?;
    all.extend(needed.iter().map(|r| format!("{} {} ({})", r.key, r.version, r.because)));
    Ok(all)
}

/// What `verify` found.
pub struct Answers<'a> {
    pub name: &'a Path,
    pub quick: bool,
    pub subject: &'a Subject,
    pub damage: Vec<Damage>,
    pub trust: trust::Answer,
    pub complete: Completeness,
}

impl Answers<'_> {
    /// The most severe of the three.
    pub fn code(&self) -> ExitCode {
        let bytes = if self.damage.is_empty() { ExitCode::Ok } else { ExitCode::BundleDamaged };
        if self.damage.is_empty() {
            self.trust.code().worst(self.complete.code())
        } else {
            bytes.worst(self.trust.code())
        }
    }

    /// All is well, in words.
    pub fn good(&self) -> String {
        let manifest = self.subject.documents().manifest();
        let found = match self.quick {
            true => "every frame is the one that was written (content and completeness were not looked at)".to_owned(),
            false => format!(
                "every byte is right, nothing is missing ({} artifacts, {} members)",
                manifest.artifacts.len(),
                manifest.members.len()
            ),
        };
        let volumes = match self.subject.files().len() {
            0 | 1 => String::new(),
            count => format!(", {count} volumes"),
        };
        let (name, digest) = (self.name.display(), self.subject.manifest_digest());
        format!("{name}{volumes}: {found}; {}\nmanifest {digest}", self.trust.text())
    }

    /// What is not, line by line.
    pub fn bad(&self) -> String {
        let name = self.name.display();
        let mut text = match (&self.complete, self.damage.is_empty()) {
            (Completeness::Unknown, true) => format!(
                "{name} is a delta: every byte of it is right, and whether it is complete cannot be told without its base; \
                 give that with --base\n- left out: {} blobs{}",
                self.subject.layout().left_out.len(),
                self.subject
                    .layout()
                    .base
                    .map(|base| format!(" that the bundle with manifest {base} has"))
                    .unwrap_or_default(),
            ),
            (Completeness::Asked(missing), true) if missing.is_empty() => {
                format!("{name}: every byte is right, nothing is missing, and it is not to be trusted")
            }
            (Completeness::NotAsked, true) => format!("{name} is not to be trusted"),
            _ => format!("{name} is not whole; copy or build it again"),
        };
        if self.trust.code() != ExitCode::Ok {
            text.push_str(&format!("\n- signature: {}", self.trust.text()));
        }
        for damage in &self.damage {
            text.push_str(&format!("\n- {damage}"));
        }
        if let Completeness::Asked(missing) = &self.complete {
            text.extend(missing.iter().map(|missing| format!("\n- missing: {missing}")));
        }
        text
    }

    /// For `--json`. `complete.ok` is null when it was not asked.
    pub fn document(&self) -> Value {
        let damage: Vec<String> = self.damage.iter().map(ToString::to_string).collect();
        let places: Vec<Value> = self
            .damage
            .iter()
            .map(|d| {
                json!({ "file": d.file, "part": d.part, "offset": d.offset, "length": d.length, "problem": d.problem })
            })
            .collect();
        json!({
            "schema": SCHEMA,
            "file": self.name,
            "files": self.subject.files(),
            "quick": self.quick,
            "manifest": self.subject.manifest_digest(),
            "bundleId": self.subject.bundle_id(),
            "bytes": { "ok": self.damage.is_empty(), "damage": damage, "places": places },
            "signature": self.trust.document(),
            "complete": self.complete.document(),
            "delta": self.subject.layout().is_delta().then(|| json!({
                "base": self.subject.layout().base, "leftOut": self.subject.layout().left_out.len(),
            })),
            "exitCode": self.code().code(),
        })
    }
}

/// The document of what cannot be opened.
pub fn unopened(name: &Path, failure: &Failure) -> Value {
    json!({
        "schema": SCHEMA,
        "file": name,
        "manifest": null,
        "bundleId": null,
        "bytes": { "ok": false, "damage": [failure.text], "places": [] },
        "signature": null,
        "complete": { "ok": null, "checked": false, "missing": [] },
        "exitCode": failure.code.code(),
    })
}
