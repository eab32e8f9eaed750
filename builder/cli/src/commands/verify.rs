//! `kubexm-bundle verify`.

use std::path::PathBuf;

use kubexm_archive::{Bundle, Incomplete};
use kubexm_builder::complete;
use kubexm_spec::ExitCode;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use super::input;
use super::trust::{self, TrustArgs};

/// Check every byte of a bundle, and that nothing it needs is missing
///
/// Three questions, three answers: is every byte what the manifest says (exit 30, 31, 32 or 35), is it signed by a key
/// that is trusted (exit 34), and is it complete (exit 33): every reference inside, every artifact of the lock, every
/// requirement of its cluster.yaml. Without --key a signature is told and not checked.
///
/// Examples:
///   kubexm-bundle verify site.tar.zst
///   kubexm-bundle verify --key release.pub site.tar.zst
///   kubexm-bundle verify --json site.tar.zst
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle
    bundle: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
    /// Threads that hash [default: all cores]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

/// The schema of the answer to `--json`.
const SCHEMA: &str = "kubexm.io/verify/v1";

/// What `verify` found.
#[derive(Default)]
struct Answers {
    damage: Vec<String>,
    missing: Vec<String>,
    /// The texts that completeness is read from cannot be used; the code says why.
    unreadable: Option<ExitCode>,
}

impl Answers {
    fn code(&self) -> ExitCode {
        if let Some(code) = self.unreadable {
            return code;
        }
        match (self.damage.is_empty(), self.missing.is_empty()) {
            (false, _) => ExitCode::BundleDamaged,
            (true, false) => ExitCode::BundleIncomplete,
            (true, true) => ExitCode::Ok,
        }
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let bundle = match input::bundle(&args.bundle) {
        Ok(bundle) => bundle,
        Err(failure) => return Err(unopened(args, failure, display)),
    };
    let trust = args.trust.answer(&args.bundle, bundle.signatures(), bundle.manifest_json())?;
    let threads = args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), usize::from);
    let people = display.mode() != Mode::Json;
    let progress = |done, total| {
        if people {
            display.emit(EventKind::Progress { what: "verify".into(), done, total: Some(total), unit: "bytes".into() });
        }
    };
    let mut answers = Answers::default();
    match kubexm_archive::verify(&bundle, threads, &progress) {
        // Completeness is read from the content, so it is asked only of content that is right.
        Ok(_) => match missing(&bundle) {
            Ok(missing) => answers.missing = missing,
            Err(failure) if people => return Err(failure),
            Err(failure) => {
                answers.missing.push(failure.text);
                answers.unreadable = Some(failure.code);
            }
        },
        Err(report) => answers.damage = report.damages.iter().map(ToString::to_string).collect(),
    }
    let code = answers.code().worst(trust.code());
    if !people {
        display.answer(&document(args, &bundle, &answers, &trust).to_string());
        return if code == ExitCode::Ok { Ok(()) } else { Err(Failure::silent(code)) };
    }
    if code == ExitCode::Ok {
        let manifest = bundle.manifest();
        display.answer(&format!(
            "{}: every byte is right, nothing is missing ({} artifacts, {} members); {}\nmanifest {}",
            args.bundle.display(),
            manifest.artifacts.len(),
            manifest.members.len(),
            trust.text(),
            bundle.manifest_digest(),
        ));
        return Ok(());
    }
    let whole = answers.damage.is_empty() && answers.missing.is_empty();
    let mut text = match whole {
        true => {
            format!("{}: every byte is right, nothing is missing, and it is not to be trusted", args.bundle.display())
        }
        false => format!("{} is not whole; copy or build it again", args.bundle.display()),
    };
    if trust.code() != ExitCode::Ok {
        text.push_str(&format!("\n- signature: {}", trust.text()));
    }
    for line in answers.damage.into_iter().chain(answers.missing.into_iter().map(|m| format!("missing: {m}"))) {
        text.push_str("\n- ");
        text.push_str(&line);
    }
    Err(Failure::new(code, text))
}

/// What the bundle names and does not hold, and what its cluster needs and it does not list.
fn missing(bundle: &Bundle) -> Result<Vec<String>, Failure> {
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

/// What cannot even be opened gets the same document as what can, so that a script reads one form.
fn unopened(args: &Args, failure: Failure, display: &Display) -> Failure {
    if display.mode() != Mode::Json {
        return failure;
    }
    let document = json!({
        "schema": SCHEMA,
        "file": args.bundle,
        "manifest": null,
        "bundleId": null,
        "bytes": { "ok": false, "damage": [failure.text] },
        "signature": null,
        "complete": { "ok": false, "checked": false, "missing": [] },
        "exitCode": failure.code.code(),
    });
    display.answer(&document.to_string());
    Failure::silent(failure.code)
}

fn document(args: &Args, bundle: &Bundle, answers: &Answers, trust: &trust::Answer) -> serde_json::Value {
    let whole = answers.damage.is_empty();
    json!({
        "schema": SCHEMA,
        "file": args.bundle,
        "manifest": bundle.manifest_digest(),
        "bundleId": bundle.bundle_id(),
        "bytes": { "ok": whole, "damage": answers.damage },
        "signature": trust.document(),
        "complete": { "ok": whole && answers.missing.is_empty(), "checked": whole, "missing": answers.missing },
        "exitCode": answers.code().worst(trust.code()).code(),
    })
}
