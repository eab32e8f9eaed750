//! What a user hands in: cluster.yaml, overlays, zones.

use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_archive::{ArchiveError, Bundle};
use kubexm_builder::base::Base;
use kubexm_files::TEXT_LIMIT;
use kubexm_manifests::{Catalogue, Zone};
use kubexm_spec::inventory::LIMIT;
use kubexm_spec::{Cluster, ExitCode, cluster, names};
use kubexm_terminal::Failure;
use serde_json::json;

use super::network;
use crate::home;

/// The cluster's text (which travels in the bundle) and what it says, its paths made ready to be opened.
pub fn cluster(file: Option<&Path>, kubernetes: Option<&str>) -> Result<(String, Cluster), Failure> {
    let text = cluster_text(file, kubernetes)?;
    let mut cluster = cluster::parse(&text).map_err(|problems| problems_of(file, &problems))?;
    if let Some(folder) = file.and_then(Path::parent) {
        place(&mut cluster.bundle, folder)?;
        let scripts = cluster.system.pre_install.iter_mut().chain(&mut cluster.system.post_install);
        for material in scripts.flat_map(|script| &mut script.materials) {
            *material = home::resolve(material, folder)?;
        }
        for addon in cluster.addons.iter_mut().chain(&mut cluster.bundle.extra_charts) {
            place_addon(addon, folder)?;
        }
    }
    Ok((text, cluster))
}

/// The cluster with what of it was written, its paths as they are.
pub fn cluster_as_written(file: Option<&Path>, kubernetes: Option<&str>) -> Result<cluster::Read, Failure> {
    cluster::read(&cluster_text(file, kubernetes)?).map_err(|problems| problems_of(file, &problems))
}

fn cluster_text(file: Option<&Path>, kubernetes: Option<&str>) -> Result<String, Failure> {
    match file {
        Some(path) => read(path),
        None => Ok(text_for_version(kubernetes)),
    }
}

fn problems_of(file: Option<&Path>, problems: &cluster::Problems) -> Failure {
    let name = match file {
        None => "--kubernetes".to_owned(),
        Some(path) if path == Path::new("-") => "standard input".to_owned(),
        Some(path) => path.display().to_string(),
    };
    Failure::new(problems.exit_code(), format!("{name} has problems:\n{problems}"))
}

/// Paths of `spec.bundle` are relative to the folder of cluster.yaml.
fn place(bundle: &mut cluster::Bundle, folder: &Path) -> Result<(), Failure> {
    for file in &mut bundle.extra_files {
        if let cluster::ExtraFile::Path { path } = file {
            *path = home::resolve(path, folder)?;
        }
    }
    for image in &mut bundle.extra_images {
        if let Some(layout) = &mut image.from {
            *layout = home::resolve(layout, folder)?;
        }
    }
    if let Some(zone) = bundle.zone.as_mut().filter(|zone| Zone::builtin(zone).is_none()) {
        let path = home::resolve(Path::new(zone), folder)?;
        // A name that is no file stays as it was written, for the message.
        if path.exists() {
            *zone = path.to_string_lossy().into_owned();
        }
    }
    Ok(())
}

/// The same for an add-on's source and values.
fn place_addon(addon: &mut cluster::Addon, folder: &Path) -> Result<(), Failure> {
    if let cluster::AddonSource::Path { path } = &mut addon.source {
        *path = home::resolve(path, folder)?;
    }
    if let Some(path) = &mut addon.values_file {
        *path = home::resolve(path, folder)?;
    }
    Ok(())
}

/// cluster.yaml of a bundle that is built from defaults. A JSON string is a YAML string, whatever the user typed.
fn text_for_version(version: Option<&str>) -> String {
    let mut text =
        format!("apiVersion: {}\nkind: Cluster\nmetadata:\n  name: kubernetes\nspec:\n", names::CLUSTER_API_VERSION);
    match version {
        Some(version) => text.push_str(&format!("  kubernetes:\n    version: {}\n", serde_json::Value::from(version))),
        None => text.push_str("  kubernetes: {}\n"),
    }
    text
}

/// Opens a bundle: a file, a volume, a folder, or an address of a web server; errors name it.
pub fn bundle(path: &Path) -> Result<Bundle, Failure> {
    if let Some(address) = network::is_address(path) {
        return network::open(address);
    }
    Bundle::open(path).map_err(|e| named(path, unopened(&e)))
}

/// With the volumes that are missing, for machines.
fn unopened(error: &ArchiveError) -> Failure {
    let failure = Failure::from_error(error.exit_code(), error);
    match error.missing_volumes() {
        [] => failure,
        missing => failure.with_data(json!({ "missing": missing })),
    }
}

/// Opens a bundle that may lie in several volumes, and puts a delta on its bases.
pub fn bundle_on(paths: &[PathBuf], bases: &[PathBuf]) -> Result<Bundle, Failure> {
    let opened = match paths {
        [one] => bundle(one)?,
        [first, ..] => Bundle::open_all(paths).map_err(|e| named(first, unopened(&e)))?,
        [] => return Err(Failure::new(ExitCode::Usage, "no bundle is named")),
    };
    if bases.is_empty() {
        return Ok(opened);
    }
    let bases = bases.iter().map(|path| bundle(path)).collect::<Result<_, _>>()?;
    opened.on_bases(bases).map_err(|e| Failure::from_error(e.exit_code(), &e))
}

/// What a delta may leave out: a bundle, the manifest of one, or an inventory.
pub fn base(path: &Path) -> Result<Base, Failure> {
    // A folder, a pipe: whoever opens bundles says what is wrong with it.
    let other = || path.exists() && !path.is_file();
    if network::is_address(path).is_some() || other() || !is_json(path)? {
        return Ok(Base::of_bundle(&bundle(path)?));
    }
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| unreadable(path, &e))?;
    file.take(LIMIT + 1).read_to_end(&mut text).map_err(|e| unreadable(path, &e))?;
    if text.len() as u64 > LIMIT {
        let problem = format!("{} has more than the {LIMIT} bytes of a manifest or an inventory", path.display());
        return Err(Failure::new(ExitCode::Config, problem));
    }
    Base::of_text(&text).map_err(|e| Failure::new(ExitCode::Config, format!("{}: {e}", path.display())))
}

fn is_json(path: &Path) -> Result<bool, Failure> {
    let mut first = [0];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut first));
    Ok(read.map_err(|e| unreadable(path, &e))? == 1 && first == *b"{")
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(ExitCode::Config, format!("cannot read {}: {error}", path.display()))
}

fn named(path: &Path, failure: Failure) -> Failure {
    let name = path.display().to_string();
    let text = if failure.text.contains(&name) { failure.text } else { format!("{name}: {}", failure.text) };
    Failure { text, ..failure }
}

/// The embedded catalogue with the user's overlays in order.
pub fn catalogue(overlays: &[PathBuf]) -> Result<Catalogue, Failure> {
    overlays.iter().try_fold(Catalogue::embedded(), |catalogue, path| {
        catalogue.overlaid(&read(path)?).map_err(|e| {
            let failure = Failure::from_error(e.exit_code(), &e);
            Failure { text: format!("{}: {}", path.display(), failure.text), ..failure }
        })
    })
}

/// The text of a file of the user; `-` is standard input.
pub fn read(path: &Path) -> Result<String, Failure> {
    kubexm_files::read_text(path, TEXT_LIMIT).map_err(|e| Failure::from_error(e.exit_code(), &e))
}

/// The bytes of a file of the user that people do not write: a key, a certificate.
pub fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    kubexm_files::read(path, TEXT_LIMIT).map_err(|e| Failure::from_error(e.exit_code(), &e))
}
