//! `kubexm-bundle verify`.

use std::path::PathBuf;

use kubexm_builder::verbs::verify::{Answer, Completeness, Request, verify};
use kubexm_spec::{ExitCode, counted};
use kubexm_terminal::Failure;

use crate::args::TrustArgs;
use crate::context::Context;

/// Check every byte of a bundle, and that nothing it needs is missing
///
/// Four questions, four answers: is every byte what the manifest says (exit 30, 31, 32 or 35), is it signed by a key
/// that is trusted (exit 34), is it complete (exit 33): every reference inside, every artifact of the lock, every
/// requirement of its cluster.yaml; and are its images signed as spec.bundle.imageSignatures of its cluster.yaml demands
/// (exit 38). Without --key a signature of the bundle is reported and not checked.
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
    /// Only compare the file with its trailer, and check manifest and signature: finds damage by a bad stick or a truncated
    /// copy in half the time, and does not check completeness
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

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let request = Request {
        bundles: &args.bundles,
        bases: &args.bases,
        quick: args.quick,
        keys: &args.trust.keys,
        signatures: &args.trust.signatures,
        require_signature: args.trust.require_signature,
        threads: args.jobs.map(usize::from),
    };
    let answer = match verify(context.session, &request, std::io::stdin()) {
        Ok(answer) => answer,
        // What cannot even be opened gets the same document as what can, so that a script reads one form.
        Err(error) if context.json() && error.exit_code() != ExitCode::Usage => {
            Answer::unopened(request.name(), args.quick, &error)
        }
        Err(error) => return Err(error.into()),
    };
    let is_good = answer.exit_code == ExitCode::Ok;
    context.answer(&answer, |answer| if is_good { good(answer) } else { Vec::new() })?;
    context.end(answer.exit_code, || bad(&answer))
}

/// What all is well means.
fn good(answer: &Answer) -> Vec<String> {
    let (artifacts, members) = answer.counts;
    let found = match answer.quick {
        true => {
            "OK: frame checksums match (content, completeness and signatures of images were not checked)".to_owned()
        }
        false => format!(
            "OK: checksums match, complete ({}, {})",
            counted(artifacts as u64, "artifact"),
            counted(members as u64, "member")
        ),
    };
    let volumes = match answer.files.len() {
        0 | 1 => String::new(),
        count => format!(", {count} volumes"),
    };
    let signature = answer.signature.as_ref().map(|signature| signature.text.as_str()).unwrap_or_default();
    let manifest = answer.manifest.map(|digest| format!("manifest {digest}"));
    let images = answer.image_signatures.as_ref().filter(|images| images.checked).map(|images| {
        let accepted = match images.accepted {
            0 => String::new(),
            count => format!(", {} accepted without a check", counted(count as u64, "image")),
        };
        format!("{} signed as cluster.yaml demands{accepted}", counted(images.signed as u64, "image"))
    });
    [Some(format!("{}{volumes}: {found}; {signature}", answer.file.display())), manifest, images]
        .into_iter()
        .flatten()
        .collect()
}

/// What is not well, line by line.
fn bad(answer: &Answer) -> String {
    let name = answer.file.display();
    let mut text = match (&answer.complete.found, &answer.bytes.damaged) {
        (Completeness::Unknown, None) => {
            let base = answer.delta.as_ref().and_then(|delta| delta.base);
            format!(
                "{name} is a delta: its checksums match, and whether it is complete cannot be determined without its base; \
                 give that with --base\n- left out: {}{}",
                counted(answer.delta.as_ref().map_or(0, |delta| delta.left_out) as u64, "blob"),
                base.map(|base| format!(" that the bundle with manifest {base} has")).unwrap_or_default(),
            )
        }
        (Completeness::Asked(missing), None) if missing.is_empty() => {
            let trusted = answer.signature.as_ref().is_some_and(|signature| signature.problem.is_none());
            let what = if trusted { "images are not signed as cluster.yaml demands" } else { "not trusted" };
            format!("{name}: checksums match, complete, but {what}")
        }
        (Completeness::NotAsked, None) => format!("{name} is not trusted"),
        (Completeness::Unreadable { .. }, None) => {
            format!("{name}: checksums match, and whether it is complete cannot be determined")
        }
        (_, Some(damaged)) if answer.bytes.is_of_a_base => {
            format!("{}, a base of {name}, is corrupt; copy or build it again", damaged.display())
        }
        _ => format!("{name} is corrupt; copy or build it again"),
    };
    let unsigned = answer.signature.as_ref().and_then(|signature| signature.problem.as_ref());
    text.extend(unsigned.map(|problem| format!("\n- signature: {problem}")));
    let images = answer.image_signatures.iter().flat_map(|images| &images.problems);
    text.extend(images.map(|problem| format!("\n- image: {problem}")));
    text.extend(answer.bytes.damage.iter().map(|damage| format!("\n- {damage}")));
    let what =
        if matches!(answer.complete.found, Completeness::Unreadable { .. }) { "completeness" } else { "missing" };
    text.extend(answer.complete.missing.iter().map(|missing| format!("\n- {what}: {missing}")));
    text
}
