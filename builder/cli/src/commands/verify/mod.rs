//! `kubexm-bundle verify`.

mod answers;
mod subject;

use std::path::PathBuf;

use kubexm_builder::session::Session;
use kubexm_spec::event::EventKind;
use kubexm_spec::{Digest, ExitCode};
use kubexm_terminal::{Display, Failure, Mode};

use answers::{Answers, Completeness};
use subject::Subject;

use super::trust::TrustArgs;

/// Check every byte of a bundle, and that nothing it needs is missing
///
/// Three questions, three answers: is every byte what the manifest says (exit 30, 31, 32 or 35), is it signed by a key
/// that is trusted (exit 34), and is it complete (exit 33): every reference inside, every artifact of the lock, every
/// requirement of its cluster.yaml. Without --key a signature is reported and not checked.
///
/// A split bundle is named by one of its volumes, by its folder, or volume by volume. `-` reads standard input, once.
///
/// Examples:
///   kubexm-bundle verify site.tar.zst
///   kubexm-bundle verify --key release.pub site.tar.zst
///   kubexm-bundle verify /media/stick1 /media/stick2          # volumes on two sticks
///   kubexm-bundle verify --base january.tar.zst february.tar.zst
///   kubexm-bundle verify --quick https://files.example.org/site.tar.zst
///   ssh build-host cat site.tar.zst | kubexm-bundle verify --json -
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle: a file, volumes, folders with volumes, an address, or - for standard input
    #[arg(required = true, value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// Of a delta: a bundle that has what it leaves out; may be given several times
    #[arg(long = "base", value_name = "BUNDLE")]
    bases: Vec<PathBuf>,
    /// Only hold the file as it is against its trailer, and check manifest and signature: finds what a bad stick or a cut
    /// copy did, in half the time, and says nothing about completeness
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    trust: TrustArgs,
    /// Threads that hash [default: all cores]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let people = display.mode() != Mode::Json;
    let threads = args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), usize::from);
    let progress = |done, total| {
        if people {
            let (what, total) = ("verify".to_owned(), Some(total).filter(|total| *total > 0));
            display.emit(EventKind::Progress { what, done, total, unit: "bytes".into() });
        }
    };
    let opened = args.trust.read().and_then(|given| {
        Ok((given, Subject::open(session, &args.bundles, &args.bases, args.quick, threads, &progress)?))
    });
    let (given, subject) = match opened {
        Ok(opened) => opened,
        // What cannot even be opened gets the same document as what can, so that a script reads one form.
        Err(failure) if !people && failure.code != ExitCode::Usage => {
            display.answer(&answers::unopened(args.name(), args.quick, &failure).to_string());
            return Err(Failure::silent(failure.code));
        }
        Err(failure) => return Err(failure),
    };
    let damage = subject.check(args.quick, threads, &progress).err();
    // Bytes that did not come are the network's fault, not the bundle's.
    if let Some((code, text)) = session.broken_off() {
        let failure = Failure::new(code, text);
        if people {
            return Err(failure);
        }
        display.answer(&answers::unopened(args.name(), args.quick, &failure).to_string());
        return Err(Failure::silent(code));
    }
    let sources = match subject.documents().sources_json() {
        Ok(sources) => sources.map(|content| Digest::of(&content)),
        // That is reported already; what the signatures say of the manifest holds or does not.
        Err(_) if damage.is_some() => None,
        Err(error) => return Err(Failure::from_error(error.exit_code(), &error)),
    };
    let about = kubexm_signing::Subject { manifest_json: subject.manifest_json(), sources };
    let trust = given.answer(args.name(), subject.signatures(), &about);
    // Completeness is read from the content, so it is asked only of content that is right.
    let complete = match damage.is_none() && !args.quick {
        true => Completeness::of(&subject),
        false => Completeness::NotAsked,
    };
    let answers = Answers { name: args.name(), quick: args.quick, subject: &subject, damage, trust, complete };
    let code = answers.code();
    if !people {
        display.answer(&answers.document().to_string());
        return if code == ExitCode::Ok { Ok(()) } else { Err(Failure::silent(code)) };
    }
    match code {
        ExitCode::Ok => {
            display.answer(&answers.good());
            Ok(())
        }
        code => Err(Failure::new(code, answers.bad())),
    }
}

impl Args {
    /// What messages call the bundle.
    fn name(&self) -> &std::path::Path {
        self.bundles.first().map_or(std::path::Path::new("-"), PathBuf::as_path)
    }
}
