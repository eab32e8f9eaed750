//! `kubexm-bundle extract`.

use std::path::{Path, PathBuf};

use kubexm_builder::verbs::extract::{Extracted, ExtractedFile, Request, extract};
use kubexm_spec::Platform;
use kubexm_terminal::{Failure, bytes};

use crate::context::Context;

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
#[command(
    verbatim_doc_comment,
    override_usage = "kubexm-bundle extract [OPTIONS] <BUNDLE> <ITEM>...\n       kubexm-bundle extract [OPTIONS] --all <BUNDLE>"
)]
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

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let request = Request {
        bundle: &args.bundle,
        bases: &args.bases,
        items: (!args.all).then_some(&args.items),
        folder: &args.directory,
        layout: args.layout,
        oci_archive: args.oci_archive.as_deref(),
        platform: args.platform,
        force: args.force,
    };
    context.answer(&extract(context.session, &request)?, lines)
}

/// A file by its name, a layout by its folder.
fn lines(Extracted { files: written, .. }: &Extracted) -> Vec<String> {
    let is_index = |file: &&ExtractedFile| file.path.ends_with("index.json");
    let layouts: Vec<&Path> = written.iter().filter(is_index).filter_map(|file| file.path.parent()).collect();
    let inside = |file: &ExtractedFile, layout: &Path| file.path.starts_with(layout);
    let files = written.iter().filter(|file| !layouts.iter().any(|layout| inside(file, layout)));
    let mut lines: Vec<String> = files.map(|file| format!("{} ({})", file.path.display(), bytes(file.size))).collect();
    lines.extend(layouts.iter().map(|layout| {
        let files: Vec<_> = written.iter().filter(|file| inside(file, layout)).collect();
        let size = bytes(files.iter().map(|file| file.size).sum());
        format!("{} (OCI layout, {} files, {size})", layout.display(), files.len())
    }));
    lines
}
