//! Files and folders on this machine that a cluster names: relative to the folder of cluster.yaml.

use std::path::{Path, PathBuf};

use kubexm_manifests::Zone;
use kubexm_spec::{Cluster, cluster};

use super::{Environment, SessionError};

/// Makes all paths ready to be opened.
pub(super) fn place(cluster: &mut Cluster, folder: &Path, environment: &Environment) -> Result<(), SessionError> {
    place_bundle(&mut cluster.bundle, folder, environment)?;
    for material in cluster.material_files_mut() {
        material.path = folder.join(&material.name);
    }
    for addon in cluster.addons.iter_mut().chain(&mut cluster.bundle.extra_charts) {
        place_addon(addon, folder, environment)?;
    }
    Ok(())
}

fn place_bundle(bundle: &mut cluster::Bundle, folder: &Path, environment: &Environment) -> Result<(), SessionError> {
    for file in &mut bundle.extra_files {
        if let cluster::ExtraFile::Path { path } = file {
            *path = environment.resolve(path, folder)?;
        }
    }
    for image in &mut bundle.extra_images {
        if let Some(layout) = &mut image.from {
            *layout = environment.resolve(layout, folder)?;
        }
    }
    if let Some(zone) = bundle.zone.as_mut().filter(|zone| Zone::builtin(zone).is_none()) {
        let path = environment.resolve(Path::new(zone), folder)?;
        // A name that is no file stays as it was written, for the message.
        if path.exists() {
            *zone = path.to_string_lossy().into_owned();
        }
    }
    Ok(())
}

/// The same for an add-on's source and values.
fn place_addon(addon: &mut cluster::Addon, folder: &Path, environment: &Environment) -> Result<(), SessionError> {
    if let cluster::AddonSource::Path { path } = &mut addon.source {
        *path = environment.resolve(path, folder)?;
    }
    if let Some(path) = &mut addon.values_file {
        *path = environment.resolve(path, folder)?;
    }
    Ok(())
}

/// Those that are not there, each with the field that names it and the path as it is written.
///
/// # Errors
/// A path begins with `~`, and no home of the user is known.
pub(crate) fn missing(
    cluster: &Cluster,
    folder: &Path,
    environment: &Environment,
) -> Result<Vec<(String, PathBuf)>, SessionError> {
    let mut placed = cluster.clone();
    place(&mut placed, folder, environment)?;
    let (written, placed) = (named(cluster), named(&placed));
    let gone = written.into_iter().zip(placed).filter(|(_, (_, placed))| !placed.exists());
    Ok(gone.map(|(written, _)| written).collect())
}

/// Each with its field, in the order of the format.
fn named(cluster: &Cluster) -> Vec<(String, PathBuf)> {
    let mut all: Vec<(String, PathBuf)> =
        cluster.materials().into_iter().map(|material| (material.field, material.file.path.clone())).collect();
    let lists = [("spec.addons", &cluster.addons), ("spec.bundle.extraCharts", &cluster.bundle.extra_charts)];
    for (list, addons) in lists {
        for (index, addon) in addons.iter().enumerate() {
            if let cluster::AddonSource::Path { path } = &addon.source {
                all.push((format!("{list}[{index}].source.path"), path.clone()));
            }
            all.extend(addon.values_file.iter().map(|path| (format!("{list}[{index}].valuesFile"), path.clone())));
        }
    }
    for (index, image) in cluster.bundle.extra_images.iter().enumerate() {
        all.extend(image.from.iter().map(|path| (format!("spec.bundle.extraImages[{index}].from"), path.clone())));
    }
    for (index, file) in cluster.bundle.extra_files.iter().enumerate() {
        if let cluster::ExtraFile::Path { path } = file {
            all.push((format!("spec.bundle.extraFiles[{index}].path"), path.clone()));
        }
    }
    all
}
