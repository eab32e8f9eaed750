//! The node's C library compared with what the bundle's programs were linked against.

use kubexm_spec::ArtifactKey;

use super::report::Report;
use super::site::Site;

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    for seen in &site.hosts {
        let Some(glibc) = &seen.facts.glibc else { continue };
        let carried = site.cx.manifest.artifacts.iter().filter(|artifact| artifact.platform == seen.platform);
        for artifact in carried {
            let ArtifactKey::Binary(program) = &artifact.key else { continue };
            let component = site.cx.catalogue.component(*program).filter(|component| seen.gets(component.role));
            let Some(needs) = component.and_then(|component| component.libc(&artifact.version)) else { continue };
            if !needs.runs_with(glibc) {
                report.fail(
                    seen.name(),
                    format!("glibc {glibc}"),
                    format!("glibc {needs} or newer for {} {}", program.name(), artifact.version),
                    "use a newer release of the distribution, or build the bundle with a version or a static build that runs there",
                );
            }
        }
    }
}
