//! `kubexm-bundle verify`.

use std::path::PathBuf;

use kubexm_archive::{Bundle, Incomplete};
use kubexm_builder::complete;
use kubexm_spec::ExitCode;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

use super::input;

/// Check every byte of a bundle, and that nothing it needs is missing
///
/// Three questions, three answers: is every byte what the manifest says (exit 30, 31, 32 or 35), is it signed, and is
/// it complete (exit 33): every reference inside, every artifact of the lock, every requirement of its cluster.yaml.
///
/// Examples:
///   kubexm-bundle verify site.tar.zst
///   kubexm-bundle verify --json site.tar.zst
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle
    bundle: PathBuf,
    /// Threads that hash [default: all cores]
    #[arg(short = 'j', long, value_name = "N")]
    jobs: Option<usize>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

/// What `verify` found.
struct Answers {
    damage: Vec<String>,
    missing: Vec<String>,
}

impl Answers {
    fn code(&self) -> ExitCode {
        match (self.damage.is_empty(), self.missing.is_empty()) {
            (false, _) => ExitCode::BundleDamaged,
            (true, false) => ExitCode::BundleIncomplete,
            (true, true) => ExitCode::Ok,
        }
    }
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let bundle = input::bundle(&args.bundle)?;
    let threads = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
    let people = display.mode() != Mode::Json;
    let progress = |done, total| {
        if people {
            display.emit(EventKind::Progress { what: "verify".into(), done, total: Some(total), unit: "bytes".into() });
        }
    };
    let mut answers = Answers { damage: Vec::new(), missing: Vec::new() };
    match kubexm_archive::verify(&bundle, threads, &progress) {
        // Completeness is read from the content, so it is asked only of content that is right.
        Ok(_) => answers.missing = missing(&bundle)?,
        Err(report) => answers.damage = report.damages.iter().map(ToString::to_string).collect(),
    }
    let code = answers.code();
    if !people {
        display.answer(&document(args, &bundle, &answers).to_string());
        return if code == ExitCode::Ok { Ok(()) } else { Err(Failure::silent(code)) };
    }
    if code == ExitCode::Ok {
        let manifest = bundle.manifest();
        display.answer(&format!(
            "{}: every byte is right, nothing is missing ({} artifacts, {} members); {}\nmanifest {}",
            args.bundle.display(),
            manifest.artifacts.len(),
            manifest.members.len(),
            bundle.check_signatures(),
            bundle.manifest_digest(),
        ));
        return Ok(());
    }
    let mut text = format!("{} is not whole; copy or build it again", args.bundle.display());
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

fn document(args: &Args, bundle: &Bundle, answers: &Answers) -> serde_json::Value {
    let whole = answers.damage.is_empty();
    json!({
        "schema": "kubexm.io/verify/v1",
        "file": args.bundle,
        "manifest": bundle.manifest_digest(),
        "bundleId": bundle.bundle_id(),
        "bytes": { "ok": whole, "damage": answers.damage },
        "signature": { "state": bundle.check_signatures().to_string(), "count": bundle.signatures().len() },
        "complete": { "ok": whole && answers.missing.is_empty(), "checked": whole, "missing": answers.missing },
        "exitCode": answers.code().code(),
    })
}
