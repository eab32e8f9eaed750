//! The node's C library is new enough for the bundle's programs.

use kubexm_spec::ArtifactKey;

use super::input::PreflightInput;
use super::report::Report;

pub(super) fn run(input: &PreflightInput<'_>, report: &mut Report) {
    for host in &input.hosts {
        let Some(glibc) = &host.facts.glibc else { continue };
        let carried = input.cx.manifest.artifacts.iter().filter(|artifact| artifact.platform == host.platform);
        for artifact in carried {
            let ArtifactKey::Binary(program) = &artifact.key else { continue };
            let component = input.cx.catalogue.component(*program).filter(|component| host.gets(component.role));
            let Some(needs) = component.and_then(|component| component.libc(&artifact.version)) else { continue };
            if !needs.runs_with(glibc) {
                report.fail(
                    host.name(),
                    format!("glibc {glibc}"),
                    format!("glibc {needs} or newer for {} {}", program.name(), artifact.version),
                    "use a newer release of the distribution, or build the bundle with a version or a static build that runs there",
                );
            }
        }
    }
}
