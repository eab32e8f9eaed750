//! `kubexm-bundle list`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use kubexm_builder::verbs::list::{ArtifactRow, Filter, Listing, MemberRow, Rows};
use kubexm_spec::Platform;
use kubexm_terminal::{Failure, bytes};

use crate::context::Context;

/// List the artifacts of a bundle, one a line, or its members and where they lie
///
/// Reads only the bundle's head and tail.
///
/// Examples:
///   kubexm-bundle list site.tar.zst
///   kubexm-bundle list --kind image --platform linux/arm64 site.tar.zst
///   kubexm-bundle list --members site.tar.zst                # what a member takes in the file, and where it begins
///   kubexm-bundle list --json site.tar.zst | jq -r '.artifacts[] | select(.kind == "image") | .name'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle
    bundle: PathBuf,
    /// Members of the archive instead of artifacts
    #[arg(long)]
    members: bool,
    /// Only artifacts of this kind (and their members); may be given several times
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(["binary", "image", "installer", "file"]))]
    kind: Vec<String>,
    /// Only artifacts for this platform (linux/amd64, linux/arm64), and those that are for all
    #[arg(long, value_name = "OS/ARCH")]
    platform: Option<Platform>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let bundle = context.session.bundle(&args.bundle)?;
    let filter = Filter { kinds: args.kind.clone(), platform: args.platform };
    context.answer(&Listing::of(&args.bundle, &bundle, &filter, args.members), |listing| match &listing.rows {
        Rows::Members(rows) => rows.iter().map(member_line).collect(),
        Rows::Artifacts(rows) => rows.iter().map(artifact_line).collect(),
    })
}

fn artifact_line(artifact: &ArtifactRow) -> String {
    let platform = artifact.platform.map_or_else(|| "any".to_owned(), |platform| platform.to_string());
    format!(
        "{:32} {:16} {platform:12} {:>10}  {}  {}",
        artifact.key.to_string(),
        if artifact.version.is_empty() { "-" } else { &artifact.version },
        bytes(artifact.size),
        artifact.digest,
        artifact.name,
    )
}

fn member_line(member: &MemberRow) -> String {
    let shown = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let (stored, offset) = (shown(member.stored), shown(member.offset));
    let encoding = member.encoding.unwrap_or("left out");
    format!("{:>12} {stored:>12} {encoding:8} {offset:>12}  {}", member.size, member.name)
}
