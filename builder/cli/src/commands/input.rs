//! What a user hands in: cluster.yaml, overlays, zones.

use std::path::{Path, PathBuf};

use kubexm_archive::Bundle;
use kubexm_manifests::{Catalogue, Zone};
use kubexm_spec::event::EventKind;
use kubexm_spec::{Cluster, ExitCode, cluster, names};
use kubexm_terminal::{Display, Failure};

use crate::home;

/// The cluster's text (which travels in the bundle) and what it says.
pub fn cluster(file: Option<&Path>, kubernetes: Option<&str>) -> Result<(String, Cluster), Failure> {
    let text = match file {
        Some(path) => read(path)?,
        None => text_for_version(kubernetes),
    };
    let name = file.map_or_else(|| "--kubernetes".to_owned(), |path| path.display().to_string());
    let cluster = cluster::parse(&text)
        .map_err(|problems| Failure::new(problems.exit_code(), format!("{name} has problems:\n{problems}")))?;
    Ok((text, cluster))
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

/// Opens a bundle; errors name its file.
pub fn bundle(path: &Path) -> Result<Bundle, Failure> {
    Bundle::open(path).map_err(|e| {
        let failure = Failure::from_error(e.exit_code(), &e);
        let name = path.display().to_string();
        let text = if failure.text.contains(&name) { failure.text } else { format!("{name}: {}", failure.text) };
        Failure { text, ..failure }
    })
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

/// `--zone`, then the environment, then `spec.bundle.zone`, then `global`.
pub fn zone(named: Option<&str>, cluster: &Cluster, display: &Display) -> Result<Zone, Failure> {
    let from_environment = || home::zone(|text| display.emit(EventKind::Warning { text }));
    let name = named
        .map(str::to_owned)
        .or_else(from_environment)
        .or_else(|| cluster.bundle.zone.clone())
        .unwrap_or_else(|| "global".to_owned());
    if let Some(zone) = Zone::builtin(&name) {
        return Ok(zone);
    }
    let path = Path::new(&name);
    if !path.exists() {
        return Err(Failure::new(
            ExitCode::Config,
            format!("zone {name:?} is neither a known zone ({}) nor a file", Zone::builtin_names().join(", ")),
        ));
    }
    Zone::parse(&read(path)?)
        .map_err(|problems| Failure::new(ExitCode::Config, format!("{} has problems:\n{problems}", path.display())))
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|e| Failure::new(ExitCode::Config, format!("cannot read {}: {e}", path.display())))
}
