//! `kubexm-bundle diff`.

use std::path::PathBuf;

use kubexm_builder::diff::Change;
use kubexm_builder::verbs::diff::{ChangedArtifact, Content, Difference};
use kubexm_spec::{ExitCode, counted};
use kubexm_terminal::{Failure, bytes};

use crate::context::Context;

/// Show what is different between two bundles or locks: artifacts, bytes, and what a delta would carry
///
/// Each side is a bundle, a manifest.json that was taken out of one, or a lock; of bundles only the
/// manifests are read.
/// Differences are no error: the exit code is 0, or with --exit-code, as git diff has it, 0 when
/// nothing is different and 1 otherwise.
///
/// Examples:
///   kubexm-bundle diff old.tar.zst new.tar.zst
///   kubexm-bundle cat old.tar.zst manifest.json > sent.json; kubexm-bundle diff sent.json new.tar.zst
///   kubexm-bundle diff main.lock.json cluster.lock.json
///   kubexm-bundle diff cluster.lock.json site.tar.zst     # is the bundle what was locked?
///   kubexm-bundle diff --exit-code a.tar.zst b.tar.zst || echo different
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The old bundle, its manifest.json, or a lock
    old: PathBuf,
    /// The new bundle, its manifest.json, or a lock
    new: PathBuf,
    /// End with 1 when the two differ
    #[arg(long)]
    exit_code: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let difference = Difference::between(context.session, &args.old, &args.new)?;
    context.answer(&difference, lines)?;
    if difference.differs && args.exit_code { Err(Failure::silent(ExitCode::Differs)) } else { Ok(()) }
}

fn lines(diff: &Difference) -> Vec<String> {
    if !diff.differs {
        return vec!["no difference".to_owned()];
    }
    let mut lines: Vec<String> = diff.artifacts.iter().map(line).collect();
    if diff.has_same_content() {
        lines.push("the same bytes of artifacts; the manifests differ in name, tool or format only".to_owned());
    }
    lines.extend(diff.members.iter().map(|member| format!("{} {}", member.change.mark(), member.name)));
    let count = |change| diff.artifacts.iter().filter(|changed| changed.change == change).count() as u64;
    lines.push(format!(
        "{} added, {} removed, {} changed, {} the same; {} of blobs added, {} removed, {} kept",
        counted(count(Change::Added), "artifact"),
        count(Change::Removed),
        count(Change::Changed),
        diff.same,
        bytes(diff.bytes.added),
        bytes(diff.bytes.removed),
        bytes(diff.bytes.kept),
    ));
    let packed = diff.delta.stored.map(|stored| format!(", {} packed", bytes(stored))).unwrap_or_default();
    let members = counted(diff.delta.members as u64, "member");
    lines.push(format!("a delta carries {members}, {}{packed}", bytes(diff.delta.bytes)));
    lines
}

fn line(changed: &ChangedArtifact) -> String {
    let of = |content: &Content| {
        let version = if content.version.is_empty() { "-" } else { content.version.as_str() };
        format!("{version} {}", content.digest.short())
    };
    let platform = changed.platform.map_or_else(|| "any".to_owned(), |p| p.to_string());
    let sides: Vec<String> = [&changed.old, &changed.new].into_iter().flatten().map(of).collect();
    format!("{} {:32} {platform:12} {}", changed.change.mark(), changed.key.to_string(), sides.join(" -> "))
}
