//! `kubexm-bundle list`.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use kubexm_archive::{Bundle, Encoding, members};
use kubexm_builder::session::Session;
use kubexm_spec::Platform;
use kubexm_spec::manifest::Artifact;
use kubexm_terminal::{Display, Failure, Mode, bytes};
use serde_json::{Value, json};

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

impl Args {
    fn wants(&self, artifact: &Artifact) -> bool {
        (self.kind.is_empty() || self.kind.iter().any(|kind| kind == artifact.key.kind().as_str()))
            && self.platform.is_none_or(|wanted| artifact.platform.is_none_or(|is| is == wanted))
    }
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let bundle = session.bundle(&args.bundle)?;
    let artifacts: Vec<&Artifact> =
        bundle.manifest().artifacts.iter().filter(|artifact| args.wants(artifact)).collect();
    let all = args.kind.is_empty() && args.platform.is_none();
    let rows = args.members.then(|| rows(&bundle, if all { None } else { Some(&artifacts) }));
    if display.mode() == Mode::Json {
        let mut document = json!({
            "schema": "kubexm.io/list/v1",
            "file": args.bundle,
            "manifest": bundle.manifest_digest(),
        });
        match rows {
            Some(rows) => document["members"] = rows.iter().map(Row::json).collect(),
            None => document["artifacts"] = artifacts.into_iter().map(artifact_json).collect(),
        }
        display.answer(&document.to_string());
        return Ok(());
    }
    let lines: Vec<String> = match rows {
        Some(rows) => rows.iter().map(Row::line).collect(),
        None => artifacts.into_iter().map(artifact_line).collect(),
    };
    if !lines.is_empty() {
        display.answer(&lines.join("\n"));
    }
    Ok(())
}

fn artifact_line(artifact: &Artifact) -> String {
    let platform = artifact.platform.map_or_else(|| "any".to_owned(), |platform| platform.to_string());
    format!(
        "{:32} {:16} {:12} {:>10}  {}  {}",
        artifact.key.to_string(),
        if artifact.version.is_empty() { "-" } else { &artifact.version },
        platform,
        bytes(artifact.size()),
        artifact.digest,
        artifact.name,
    )
}

fn artifact_json(artifact: &Artifact) -> Value {
    json!({
        "key": artifact.key,
        "kind": artifact.key.kind(),
        "version": artifact.version,
        "platform": artifact.platform,
        "name": artifact.name,
        "digest": artifact.digest,
        "manifest": artifact.manifest,
        "size": artifact.size(),
    })
}

/// A member of the file, or (of a delta) one that it leaves out.
struct Row {
    name: String,
    size: u64,
    digest: Option<kubexm_spec::Digest>,
    /// None of what is left out.
    stored: Option<(u64, Encoding, u64)>,
}

fn rows(bundle: &Bundle, of: Option<&[&Artifact]>) -> Vec<Row> {
    let wanted: Option<HashSet<String>> = of.map(|artifacts| {
        let manifests = artifacts.iter().flat_map(|a| [Some(a.digest), a.manifest]).flatten();
        let blobs = artifacts.iter().flat_map(|a| a.blobs.iter().map(|blob| blob.digest));
        manifests.chain(blobs).map(|digest| members::blob_name(&digest)).collect()
    });
    let here = bundle.members().map(|member| Row {
        name: member.name.clone(),
        size: member.size,
        digest: member.sha256,
        stored: Some((bundle.stored_size(member), member.encoding, bundle.stored_offset(member))),
    });
    let elsewhere = bundle.left_out().map(|member| Row {
        name: member.name.clone(),
        size: member.size,
        digest: Some(member.sha256),
        stored: None,
    });
    here.chain(elsewhere).filter(|row| wanted.as_ref().is_none_or(|wanted| wanted.contains(&row.name))).collect()
}

impl Row {
    fn line(&self) -> String {
        let (stored, encoding, offset) = match self.stored {
            Some((stored, encoding, offset)) => (stored.to_string(), word(encoding), offset.to_string()),
            None => ("-".to_owned(), "left out", "-".to_owned()),
        };
        format!("{:>12} {stored:>12} {encoding:8} {offset:>12}  {}", self.size, self.name)
    }

    fn json(&self) -> Value {
        let mut row = json!({ "name": self.name, "size": self.size, "digest": self.digest });
        match self.stored {
            Some((stored, encoding, offset)) => {
                row["stored"] = stored.into();
                row["encoding"] = word(encoding).into();
                row["offset"] = offset.into();
            }
            None => row["leftOut"] = true.into(),
        }
        row
    }
}

const fn word(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Raw => "raw",
        Encoding::Zstd => "zstd",
    }
}
