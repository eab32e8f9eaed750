//! Which zone applies, and what set it: an explicit name, then variables, then `spec.bundle.zone`, then `global`.

use std::path::{Path, PathBuf};

use kubexm_files::TEXT_LIMIT;
use kubexm_manifests::Zone;
use kubexm_spec::{Cluster, error_chain, names};
use kubexm_transport::Identity;

use super::{Session, SessionError, cluster};

/// The zone that is used.
#[derive(Debug)]
pub struct Choice {
    /// Its rules.
    pub zone: Zone,
    /// What named it (option, variable, field); `the default` when nothing did.
    pub by: &'static str,
    /// What should be fixed.
    pub warnings: Vec<String>,
    /// What should be known: others named another one.
    pub notes: Vec<String>,
}

impl Session {
    /// Chooses and reads it.
    pub fn zone(&self, named: Option<&str>, cluster: Option<&Cluster>) -> Result<Choice, SessionError> {
        let asked = named.map(|name| ("--zone", name.to_owned()));
        let in_file = cluster.and_then(|cluster| cluster.bundle.zone.clone());
        let variables = self.environment.zones.iter().cloned();
        let named: Vec<(&'static str, String)> =
            asked.into_iter().chain(variables).chain(in_file.map(|name| ("spec.bundle.zone", name))).collect();
        let mut warnings = Vec::new();
        let Some(((by, name), others)) = named.split_first() else {
            let (zone, by) = (self.read_zone("global")?, "the default");
            return Ok(Choice { zone, by, warnings, notes: Vec::new() });
        };
        if *by == names::OLD_ZONE_ENV {
            let (old, new) = (names::OLD_ZONE_ENV, names::ZONE_ENV);
            warnings.push(format!("{old} is the old name of {new}: set that instead"));
        }
        let notes = others
            .iter()
            .filter(|(_, other)| other != name)
            .map(|(other_by, other)| {
                format!("zone {name} of {by} is used; {other_by} sets {other}, which has lower precedence")
            })
            .collect();
        Ok(Choice { zone: self.read_zone(name)?, by, warnings, notes })
    }

    /// The file of a zone that is asked for by name, or by a variable.
    pub fn zone_file(&self, named: Option<&str>) -> Option<PathBuf> {
        let name = named.or_else(|| self.environment.zones.first().map(|(_, name)| name.as_str()))?;
        Some(PathBuf::from(name)).filter(|path| Zone::builtin(name).is_none() && path.is_file())
    }

    /// A zone by its name, or from a file.
    fn read_zone(&self, name: &str) -> Result<Zone, SessionError> {
        if let Some(zone) = Zone::builtin(name) {
            return Ok(zone);
        }
        let path = Path::new(name);
        if !path.exists() {
            return Err(SessionError::UnknownZone { name: name.to_owned() });
        }
        let problems_of = |problems| SessionError::Problems { name: path.display().to_string(), problems };
        let mut zone = Zone::parse(&cluster::read(path)?).map_err(problems_of)?;
        let beside = path.parent().unwrap_or(Path::new(""));
        for rule in &mut zone.rules {
            for file in [&mut rule.ca_file, &mut rule.cert_file, &mut rule.key_file].into_iter().flatten() {
                *file = self.environment.resolve(file, beside)?;
            }
            let wrong =
                |problem: String| SessionError::ZoneRule { path: path.to_owned(), rule: rule.matches.clone(), problem };
            if let Some(file) = &rule.ca_file {
                holds_certificate(file).map_err(|problem| wrong(format!("caFile {}: {problem}", file.display())))?;
            }
            if let (Some(certificate), Some(key)) = (rule.cert_file.clone(), rule.key_file.clone()) {
                Identity { certificate, key }.check().map_err(|error| wrong(error.to_string()))?;
            }
        }
        Ok(zone)
    }
}

/// Checked when the zone is read, not in the middle of a build: whether it is a PEM file of certificates (RFC 7468).
fn holds_certificate(path: &Path) -> Result<(), String> {
    let text = kubexm_files::read(path, TEXT_LIMIT).map_err(|e| error_chain(&e))?;
    let label = b"-----BEGIN CERTIFICATE-----";
    match text.windows(label.len()).any(|window| window == label) {
        true => Ok(()),
        false => Err("it holds no certificate (expected PEM, `-----BEGIN CERTIFICATE-----`)".to_owned()),
    }
}
