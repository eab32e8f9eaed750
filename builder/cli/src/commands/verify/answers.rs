//! The three answers of `verify`, for people and for machines.

use std::path::Path;

use kubexm_archive::{DamageReport, Incomplete};
use kubexm_builder::complete;
use kubexm_spec::{ExitCode, counted, counted_of};
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
    /// Asks.
    pub fn of(subject: &Subject) -> Self {
        if subject.lacks_its_base() {
            return Self::Unknown;
        }
        missing(subject).map_or_else(Self::Unreadable, Self::Asked)
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
    let packages = complete::packages(&carried, bundle).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
    all.extend(packages);
    Ok(all)
}

/// What `verify` found.
pub struct Answers<'a> {
    pub name: &'a Path,
    pub quick: bool,
    pub subject: &'a Subject,
    pub damage: Option<DamageReport>,
    pub trust: trust::Answer,
    pub complete: Completeness,
}

impl Answers<'_> {
    /// The most severe of the three.
    pub fn code(&self) -> ExitCode {
        let bytes = self.damage.as_ref().map_or(ExitCode::Ok, DamageReport::exit_code);
        bytes.worst(self.trust.code()).worst(self.complete.code())
    }

    /// All is well, in words.
    pub fn good(&self) -> String {
        let manifest = self.subject.documents().manifest();
        let found = match self.quick {
            true => "every frame is the one that was written (content and completeness were not looked at)".to_owned(),
            false => format!(
                "every byte is right, nothing is missing ({}, {})",
                counted_of(&manifest.artifacts, "artifact"),
                counted_of(&manifest.members, "member")
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
        let mut text = match (&self.complete, &self.damage) {
            (Completeness::Unknown, None) => format!(
                "{name} is a delta: every byte of it is right, and whether it is complete cannot be determined without its base; \
                 give that with --base\n- left out: {}{}",
                counted(self.subject.layout().left_out.len() as u64, "blob"),
                self.subject
                    .layout()
                    .base
                    .map(|base| format!(" that the bundle with manifest {base} has"))
                    .unwrap_or_default(),
            ),
            (Completeness::Asked(missing), None) if missing.is_empty() => {
                format!("{name}: every byte is right, nothing is missing, and it is not to be trusted")
            }
            (Completeness::NotAsked, None) => format!("{name} is not to be trusted"),
            (Completeness::Unreadable(_), None) => {
                format!("{name}: every byte is right, and whether it is complete cannot be determined")
            }
            (_, Some(report)) if report.path != self.subject.documents().path() => {
                format!("{}, a base of {name}, is not whole; copy or build it again", report.path.display())
            }
            _ => format!("{name} is not whole; copy or build it again"),
        };
        if self.trust.code() != ExitCode::Ok {
            text.push_str(&format!("\n- signature: {}", self.trust.text()));
        }
        text.extend(self.damages().iter().map(|damage| format!("\n- {damage}")));
        match &self.complete {
            Completeness::Asked(missing) => {
                text.extend(missing.iter().map(|missing| format!("\n- missing: {missing}")))
            }
            Completeness::Unreadable(failure) => text.push_str(&format!("\n- completeness: {}", failure.text)),
            Completeness::NotAsked | Completeness::Unknown => {}
        }
        text
    }

    /// One line for each place.
    fn damages(&self) -> Vec<String> {
        let damages = self.damage.iter().flat_map(|report| &report.damages);
        damages.map(|damage| damage.describe_for(self.name)).collect()
    }

    /// For `--json`. `complete.ok` is null when it was not asked.
    pub fn document(&self) -> Value {
        let places: Vec<Value> = self
            .damage
            .iter()
            .flat_map(|report| &report.damages)
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
            "bytes": { "ok": self.damage.is_none(), "damage": self.damages(), "places": places },
            "signature": self.trust.document(),
            "complete": self.complete.document(),
            "delta": self.subject.layout().is_delta().then(|| json!({
                "base": self.subject.layout().base, "leftOut": self.subject.layout().left_out.len(),
            })),
            "problem": null,
            "exitCode": self.code().code(),
        })
    }
}

/// The document of what cannot be opened, with the keys of one that can. `bytes.ok` is false where the bytes were seen and
/// are to blame, and null where a path, a server or a base is; `problem` says what then. Volumes that are missing or cut are
/// in `complete.missing`.
pub fn unopened(name: &Path, quick: bool, failure: &Failure) -> Value {
    let blamed = matches!(
        failure.code,
        ExitCode::BundleDamaged | ExitCode::BundleTruncated | ExitCode::BundleNewer | ExitCode::NotABundle
    );
    let (ok, damage) = if blamed { (Value::Bool(false), vec![&failure.text]) } else { (Value::Null, Vec::new()) };
    let missing = failure.data.as_ref().and_then(|data| data.get("missing")).cloned();
    json!({
        "schema": SCHEMA,
        "file": name,
        "files": [],
        "quick": quick,
        "manifest": null,
        "bundleId": null,
        "bytes": { "ok": ok, "damage": damage, "places": [] },
        "signature": null,
        "complete": {
            "ok": missing.as_ref().map(|_| false), "checked": false, "missing": missing.unwrap_or_else(|| json!([])),
        },
        "delta": null,
        "problem": (!blamed).then_some(&failure.text),
        "exitCode": failure.code.code(),
    })
}
