//! `kubexm-bundle inspect`.

use std::path::PathBuf;

use kubexm_spec::manifest::Artifact;
use kubexm_terminal::{Display, Failure, Mode, bytes};
use serde_json::json;

use super::input;

/// Show what is inside a bundle: artifacts, versions, sizes, digests, where they came from and why they are trusted
///
/// Reads only the bundle's head and tail. `verify` is what checks the bytes.
///
/// Examples:
///   kubexm-bundle inspect site.tar.zst
///   kubexm-bundle inspect --json site.tar.zst | jq '.artifacts[].key'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle
    bundle: PathBuf,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    let bundle = input::bundle(&args.bundle)?;
    let manifest = bundle.manifest();
    if display.mode() == Mode::Json {
        let document = json!({
            "schema": "kubexm.io/inspect/v1",
            "file": args.bundle,
            "size": bundle.size(),
            "manifest": bundle.manifest_digest(),
            "bundleId": bundle.bundle_id(),
            "signatures": bundle.signatures().len(),
            "name": manifest.name,
            "cluster": manifest.cluster,
            "platforms": manifest.platforms,
            "zone": manifest.zone,
            "tool": manifest.tool,
            "lock": manifest.lock,
            "artifacts": manifest.artifacts,
            "members": manifest.members,
        });
        display.answer(&document.to_string());
        return Ok(());
    }
    let platforms: Vec<String> = manifest.platforms.iter().map(ToString::to_string).collect();
    display.answer(&format!("bundle    {} ({})", manifest.name, bytes(bundle.size())));
    if let Some(cluster) = &manifest.cluster {
        display
            .answer(&format!("cluster   Kubernetes {}, {}, {}", cluster.kubernetes, cluster.runtime, cluster.network));
    }
    display.answer(&format!("platforms {}", platforms.join(", ")));
    display.answer(&format!("zone      {}", manifest.zone));
    display.answer(&format!("manifest  {}", bundle.manifest_digest()));
    display.answer(&format!("signed    {}", bundle.check_signatures()));
    display.answer("");
    for artifact in &manifest.artifacts {
        display.answer(&line(artifact));
    }
    Ok(())
}

fn line(artifact: &Artifact) -> String {
    let platform = artifact.platform.map(|p| p.to_string()).unwrap_or_default();
    let source = artifact.sources.first().map_or("this machine", String::as_str);
    format!(
        "{:32} {:14} {:12} {:>10}  {:17} {}  {source}",
        artifact.key.to_string(),
        artifact.version,
        platform,
        bytes(artifact.size()),
        artifact.trust.to_string(),
        artifact.digest.short(),
    )
}
