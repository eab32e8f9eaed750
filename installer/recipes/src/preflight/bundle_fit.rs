//! The bundle contains what this cluster needs, for the hosts' architectures.

use super::input::PreflightInput;
use super::report::{Report, Severity, Words};
use crate::bundle;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    let platforms: Vec<String> = input.cx.manifest.platforms.iter().map(ToString::to_string).collect();
    for host in &input.hosts {
        match host.platform {
            Some(platform) if input.cx.manifest.platforms.contains(&platform) => (),
            found => report.fail(
                host.name(),
                found.map_or_else(|| "an architecture that kubexm does not know".to_owned(), |p| p.to_string()),
                format!("a platform of the bundle ({})", platforms.join(", ")),
                "add it to `spec.bundle.platforms` and build the bundle again",
            ),
        }
    }
    let fix = "build a bundle from this cluster.yaml with `kubexm-bundle build`".to_owned();
    let words = match bundle::missing(input.cx) {
        Ok(missing) if missing.is_empty() => return,
        Ok(missing) => {
            Words { found: format!("a bundle without {}", missing.join(", ")), needed: "all of them".to_owned(), fix }
        }
        Err(error) => {
            let source = std::error::Error::source(&error).map(|e| format!(": {e}")).unwrap_or_default();
            Words {
                found: format!("{error}{source}"),
                needed: "a catalogue that has entries for all of it".to_owned(),
                fix,
            }
        }
    };
    report.add(Severity::Fail, None, words);
}
