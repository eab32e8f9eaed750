//! `kubexm-bundle diff`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_archive::members::BLOBS;
use kubexm_archive::{Bundle, DOCUMENT_LIMIT, UnreadDocument, read_document};
use kubexm_builder::diff::{Change, Changed, Diff, diff};
use kubexm_builder::pack::outline;
use kubexm_builder::session::Session;
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{Digest, ExitCode, Manifest, counted, counted_of};
use kubexm_terminal::{Display, Failure, Mode, bytes};
use serde_json::{Value, json};

use super::lockfile;

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

/// One of the two.
struct Side {
    manifest: Manifest,
    digest: Digest,
    /// None of a bare manifest.
    bundle: Option<Bundle>,
    /// A lock: it has no texts of a bundle, and no manifest.
    lock: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let (mut old, mut new) = (side(&args.old, session)?, side(&args.new, session)?);
    let locks = old.lock || new.lock;
    if locks {
        // Only what both can have is compared.
        for side in [&mut old, &mut new] {
            side.manifest.members.retain(|member| member.name.starts_with(BLOBS));
        }
    }
    let diff = diff(&old.manifest, &new.manifest);
    let differs = if locks { old.manifest.lock != new.manifest.lock } else { old.digest != new.digest };
    match display.mode() {
        Mode::Json => display.answer(&document(args, &old, &new, &diff, differs).to_string()),
        _ => display.answer(&text(&diff, differs, stored(&new, &diff))),
    }
    if differs && args.exit_code { Err(Failure::silent(ExitCode::Differs)) } else { Ok(()) }
}

/// A manifest begins with a brace, and nothing else that is asked for does.
fn side(path: &Path, session: &Session) -> Result<Side, Failure> {
    let unreadable = |e: std::io::Error| Failure::new(ExitCode::Disk, format!("cannot read {}: {e}", path.display()));
    if path.is_file() {
        let mut file = File::open(path).map_err(unreadable)?;
        let mut json = Vec::new();
        file.by_ref().take(1).read_to_end(&mut json).map_err(unreadable)?;
        if json == b"{" {
            file.take(DOCUMENT_LIMIT).read_to_end(&mut json).map_err(unreadable)?;
            if json.len() as u64 > DOCUMENT_LIMIT {
                let text = format!("{} has more than the {DOCUMENT_LIMIT} bytes of a manifest.json", path.display());
                return Err(Failure::new(ExitCode::NotABundle, text));
            }
            return bare(path, &json);
        }
    }
    let bundle = session.bundle(path)?;
    Ok(Side {
        manifest: bundle.manifest().clone(),
        digest: bundle.manifest_digest(),
        bundle: Some(bundle),
        lock: false,
    })
}

fn bare(path: &Path, json: &[u8]) -> Result<Side, Failure> {
    if let Some(lock) = lockfile::of_json(path, json)? {
        let manifest = outline(&lock).map_err(|e| Failure::from_error(e.exit_code(), &e))?;
        return Ok(Side { digest: manifest.lock, manifest, bundle: None, lock: true });
    }
    let manifest = read_document(json).map_err(|e| match e {
        UnreadDocument::NewerFormat(format) => {
            let text = format!("{} is of a newer format: {format}; use the kubexm that came with it", path.display());
            Failure::new(ExitCode::BundleNewer, text)
        }
        // Nothing says that it is a manifest.
        e => {
            let text = format!("{} is neither a bundle nor the manifest.json of one: {e}", path.display());
            Failure::new(ExitCode::NotABundle, text)
        }
    })?;
    Ok(Side { manifest, digest: Digest::of(json), bundle: None, lock: false })
}

/// What the delta's members take in the new bundle's file: what they would take in a delta of the same level.
fn stored(new: &Side, diff: &Diff<'_>) -> Option<u64> {
    let bundle = new.bundle.as_ref()?;
    diff.delta.iter().map(|member| Some(bundle.stored_size(bundle.find(&member.name)?))).sum()
}

fn text(diff: &Diff<'_>, differs: bool, stored: Option<u64>) -> String {
    if !differs {
        return "no difference".to_owned();
    }
    let mut lines: Vec<String> = diff.artifacts.iter().map(line).collect();
    if diff.is_empty() {
        lines.push("the same bytes of artifacts; the manifests differ in name, tool or format only".to_owned());
    }
    lines.extend(diff.texts.iter().map(|(name, change)| format!("{} {name}", change.mark())));
    let count = |change| diff.artifacts.iter().filter(|changed| changed.change() == change).count() as u64;
    lines.push(format!(
        "{} added, {} removed, {} changed, {} the same; {} of blobs added, {} removed, {} kept",
        counted(count(Change::Added), "artifact"),
        count(Change::Removed),
        count(Change::Changed),
        diff.same,
        bytes(diff.added_bytes),
        bytes(diff.removed_bytes),
        bytes(diff.kept_bytes),
    ));
    let packed = stored.map(|stored| format!(", {} packed", bytes(stored))).unwrap_or_default();
    let members = counted_of(&diff.delta, "member");
    lines.push(format!("a delta carries {members}, {}{packed}", bytes(diff.delta_bytes())));
    lines.join("\n")
}

fn line(changed: &Changed<'_, Artifact>) -> String {
    let of = |artifact: &Artifact| {
        let version = if artifact.version.is_empty() { "-" } else { artifact.version.as_str() };
        format!("{version} {}", artifact.digest.short())
    };
    let named = changed.new.or(changed.old);
    let key = named.map(|artifact| artifact.key.to_string()).unwrap_or_default();
    let platform = named.and_then(|artifact| artifact.platform).map_or_else(|| "any".to_owned(), |p| p.to_string());
    let sides: Vec<String> = [changed.old, changed.new].into_iter().flatten().map(of).collect();
    format!("{} {key:32} {platform:12} {}", changed.change().mark(), sides.join(" -> "))
}

fn document(args: &Args, old: &Side, new: &Side, diff: &Diff<'_>, differs: bool) -> Value {
    let one = |artifact: &Artifact| {
        json!({
            "version": artifact.version, "name": artifact.name, "digest": artifact.digest,
            "manifest": artifact.manifest, "size": artifact.size(),
        })
    };
    let side = |file, side: &Side| json!({ "file": file, "manifest": (!side.lock).then_some(side.digest), "lock": side.manifest.lock });
    let artifacts: Vec<Value> = diff
        .artifacts
        .iter()
        .map(|changed| {
            let named = changed.new.or(changed.old);
            json!({
                "change": changed.change().as_str(),
                "key": named.map(|artifact| &artifact.key),
                "platform": named.and_then(|artifact| artifact.platform),
                "old": changed.old.map(one),
                "new": changed.new.map(one),
            })
        })
        .collect();
    let texts: Vec<Value> =
        diff.texts.iter().map(|(name, change)| json!({ "change": change.as_str(), "name": name })).collect();
    json!({
        "schema": "kubexm.io/diff/v1",
        "old": side(&args.old, old),
        "new": side(&args.new, new),
        "differs": differs,
        "artifacts": artifacts,
        "same": diff.same,
        "members": texts,
        "bytes": { "added": diff.added_bytes, "removed": diff.removed_bytes, "kept": diff.kept_bytes },
        "delta": { "members": diff.delta.len(), "bytes": diff.delta_bytes(), "stored": stored(new, diff) },
    })
}
