//! `kubexm-bundle extract`.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use kubexm_archive::Bundle;
use kubexm_builder::extract::{self, Content, ExtractError, Extracted, Item, Plan};
use kubexm_builder::session::Session;
use kubexm_spec::Platform;
use kubexm_spec::event::EventKind;
use kubexm_terminal::{Display, Failure, Mode, bytes};
use serde_json::json;

/// Take artifacts or members out of a bundle, verified while they are written
///
/// ITEM is an artifact key (binary/kubeadm, image/pause), an image's reference, a digest (sha256:…)
/// or a member's name (cluster.yaml). A file gets upstream's name; an image becomes an OCI layout
/// in a folder of its own, named after its reference with _ for / and :, which skopeo, oras and
/// umoci read. Without --platform an image stays what its tag names upstream, with every platform
/// that the bundle carries; with it, the manifest for that platform stands for the image.
///
/// A new folder appears when everything is in it; run again after an interruption, it continues.
///
/// Examples:
///   kubexm-bundle extract site.tar.zst binary/kubeadm -C bin
///   kubexm-bundle extract site.tar.zst image/pause -C images
///   kubexm-bundle extract site.tar.zst package/debian-12 -C debs   # all its packages, for packages repo
///   skopeo copy oci:images/registry.k8s.io_pause_3.10.1 docker://registry.lan/pause:3.10.1
///   kubexm-bundle extract site.tar.zst image/pause --oci-archive pause.tar
///   kubexm-bundle extract site.tar.zst binary/kubeadm image/pause --layout -C both   # in one layout
///   kubexm-bundle extract site.tar.zst --all -C all    # every member as it is
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle
    bundle: PathBuf,
    /// What to take out
    #[arg(value_name = "ITEM", required_unless_present = "all")]
    items: Vec<String>,
    /// Every member as it is
    #[arg(long, conflicts_with_all = ["items", "layout", "oci_archive", "platform"])]
    all: bool,
    /// Folder to write to; made when it is not there
    #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// One OCI layout of all items, in the folder itself; files become OCI artifacts
    #[arg(long)]
    layout: bool,
    /// The same as one tar file (skopeo's oci-archive)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["layout", "directory"])]
    oci_archive: Option<PathBuf>,
    /// Where an item is for several platforms: linux/amd64 or linux/arm64
    #[arg(long, value_name = "OS/ARCH")]
    platform: Option<Platform>,
    /// Of a delta: a bundle that has what it leaves out; may be given several times
    #[arg(long = "base", value_name = "BUNDLE")]
    bases: Vec<PathBuf>,
    /// Overwrite files that are there
    #[arg(long)]
    force: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let bundle = session.bundle_on(std::slice::from_ref(&args.bundle), &args.bases)?;
    let (document, summary) = take_out(args, &bundle, display).map_err(|e| {
        let e = e.of_delta(&bundle);
        let mut failure = Failure::from_error(e.exit_code(), &e);
        let begun = kubexm_archive::partial_path(&args.directory).filter(|folder| folder.is_dir());
        let is_ours = !matches!(e, ExtractError::InTheWay { .. } | ExtractError::Locked { .. });
        if let Some(folder) = begun.filter(|_| is_ours && !args.directory.exists()) {
            let text = format!(
                "\nwhat is complete is in {}: run it again to continue, or remove that folder",
                folder.display()
            );
            failure.text.push_str(&text);
        }
        failure
    })?;
    match display.mode() {
        Mode::Json => display.answer(&document.to_string()),
        _ => display.answer(&summary),
    }
    Ok(())
}

fn take_out(args: &Args, bundle: &Bundle, display: &Display) -> Result<(serde_json::Value, String), ExtractError> {
    let mut document = json!({ "schema": "kubexm.io/extract/v1", "file": args.bundle, "files": [] });
    let plan = plan(args, bundle)?;
    if let Some(target) = &args.oci_archive {
        let size = extract::oci_archive(bundle, &plan, target, args.force)?;
        document["files"] = json!([{ "path": target, "size": size }]);
        return Ok((document, format!("{} ({})", target.display(), bytes(size))));
    }
    let (done, total) = (Cell::new(0), total(bundle, &plan));
    let progress = |more| {
        done.set(done.get() + more);
        if display.mode() != Mode::Json {
            let what = "extract".to_owned();
            display.emit(EventKind::Progress { what, done: done.get(), total: Some(total), unit: "bytes".to_owned() });
        }
    };
    let written = extract::write(bundle, &plan, &args.directory, args.force, &progress)?;
    document["files"] =
        written.iter().map(|file| json!({ "path": file.path, "size": file.size, "digest": file.sha256 })).collect();
    Ok((document, summary(&written)))
}

/// For people: a file by its name, a layout by its folder.
fn summary(written: &[Extracted]) -> String {
    let is_index = |file: &&Extracted| file.path.ends_with("index.json");
    let layouts: Vec<&Path> = written.iter().filter(is_index).filter_map(|file| file.path.parent()).collect();
    let inside = |file: &Extracted, layout: &Path| file.path.starts_with(layout);
    let files = written.iter().filter(|file| !layouts.iter().any(|layout| inside(file, layout)));
    let mut lines: Vec<String> = files.map(|file| format!("{} ({})", file.path.display(), bytes(file.size))).collect();
    lines.extend(layouts.iter().map(|layout| {
        let files: Vec<_> = written.iter().filter(|file| inside(file, layout)).collect();
        let size = bytes(files.iter().map(|file| file.size).sum());
        format!("{} (OCI layout, {} files, {size})", layout.display(), files.len())
    }));
    lines.join("\n")
}

fn plan(args: &Args, bundle: &Bundle) -> Result<Plan, ExtractError> {
    if args.all {
        return Ok(extract::members(bundle));
    }
    let find = |item: &String| extract::find_all(bundle.manifest(), item, args.platform);
    let items: Vec<Item<'_>> = args.items.iter().map(find).collect::<Result<Vec<_>, _>>()?.concat();
    if args.layout || args.oci_archive.is_some() {
        extract::single_layout(bundle, &items)
    } else {
        extract::separate(bundle, &items)
    }
}

/// Content of all files in bytes.
fn total(bundle: &Bundle, plan: &Plan) -> u64 {
    let size = |content: &Content| match content {
        Content::Member(name) => bundle.find(name).map_or(0, |member| member.size),
        Content::Made(bytes) => bytes.len() as u64,
    };
    plan.values().map(|output| size(&output.content)).sum()
}
