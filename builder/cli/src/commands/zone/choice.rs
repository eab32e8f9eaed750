//! Which zone holds, and who says so: `--zone`, then `KMZONE`, then the older `KKZONE`, then `spec.bundle.zone`, then `global`.

use std::path::{Path, PathBuf};

use kubexm_manifests::Zone;
use kubexm_spec::{Cluster, ExitCode, names};
use kubexm_terminal::Failure;
use kubexm_transport::Identity;

use crate::commands::input;
use crate::home;

/// The zone of a run.
pub struct Choice {
    /// Its rules.
    pub zone: Zone,
    /// Who named it; `the default` when nobody did.
    pub by: &'static str,
    /// What should be mended.
    pub warnings: Vec<String>,
    /// What should be known: others named another one.
    pub notes: Vec<String>,
}

/// Chooses and reads it.
pub fn choose(named: Option<&str>, cluster: Option<&Cluster>) -> Result<Choice, Failure> {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let old = variable(names::OLD_ZONE_ENV);
    let said: Vec<(&'static str, String)> = [
        ("--zone", named.map(str::to_owned)),
        (names::ZONE_ENV, variable(names::ZONE_ENV)),
        (names::OLD_ZONE_ENV, old),
        ("spec.bundle.zone", cluster.and_then(|cluster| cluster.bundle.zone.clone())),
    ]
    .into_iter()
    .filter_map(|(by, name)| Some((by, name?)))
    .collect();
    let mut warnings = Vec::new();
    let Some(((by, name), others)) = said.split_first() else {
        let (zone, by) = (read("global")?, "the default");
        return Ok(Choice { zone, by, warnings, notes: Vec::new() });
    };
    if *by == names::OLD_ZONE_ENV {
        let (old, new) = (names::OLD_ZONE_ENV, names::ZONE_ENV);
        warnings.push(format!("{old} is the old name of {new}: set that instead"));
    }
    let notes = others
        .iter()
        .filter(|(_, other)| other != name)
        .map(|(other_by, other)| format!("zone {name} of {by} is used; {other_by} says {other}, and comes after it"))
        .collect();
    Ok(Choice { zone: read(name)?, by, warnings, notes })
}

/// The file of a zone that a flag or a variable names.
pub fn file(named: Option<&str>) -> Option<PathBuf> {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let name =
        named.map(str::to_owned).or_else(|| variable(names::ZONE_ENV)).or_else(|| variable(names::OLD_ZONE_ENV))?;
    Some(PathBuf::from(&name)).filter(|path| Zone::builtin(&name).is_none() && path.is_file())
}

/// A zone by its name, or from a file.
fn read(name: &str) -> Result<Zone, Failure> {
    if let Some(zone) = Zone::builtin(name) {
        return Ok(zone);
    }
    let path = Path::new(name);
    if !path.exists() {
        return Err(Failure::new(
            ExitCode::Config,
            format!(
                "zone {name:?} is neither a known zone ({}) nor a file: check its spelling, or give the path of a zone file",
                Zone::builtin_names().join(", ")
            ),
        ));
    }
    let mut zone = Zone::parse(&input::read(path)?).map_err(|problems| {
        Failure::new(problems.exit_code(), format!("{} has problems:\n{problems}", path.display()))
    })?;
    let beside = path.parent().unwrap_or(Path::new(""));
    for rule in &mut zone.rules {
        for file in [&mut rule.ca_file, &mut rule.cert_file, &mut rule.key_file].into_iter().flatten() {
            *file = home::resolve(file, beside)?;
        }
        let wrong = |text: String| {
            let text = format!("{}: {text} (of the rule for {})", path.display(), rule.matches);
            Failure::new(ExitCode::Config, text)
        };
        if let Some(file) = &rule.ca_file {
            holds_certificate(file).map_err(|problem| wrong(format!("caFile {}: {problem}", file.display())))?;
        }
        if let (Some(certificate), Some(key)) = (rule.cert_file.clone(), rule.key_file.clone()) {
            Identity { certificate, key }.check().map_err(|error| wrong(error.to_string()))?;
        }
    }
    Ok(zone)
}

/// Told when the zone is read, not in the middle of a build: whether it is a PEM file of certificates (RFC 7468).
fn holds_certificate(path: &Path) -> Result<(), String> {
    let text =
        kubexm_files::read(path, kubexm_files::TEXT_LIMIT).map_err(|e| Failure::from_error(e.exit_code(), &e).text)?;
    let label = b"-----BEGIN CERTIFICATE-----";
    match text.windows(label.len()).any(|window| window == label) {
        true => Ok(()),
        false => Err("it holds no certificate (wanted PEM, `-----BEGIN CERTIFICATE-----`)".to_owned()),
    }
}
