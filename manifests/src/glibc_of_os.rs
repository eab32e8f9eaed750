//! Operating systems of a bundle compared with what its programs were linked against.

use kubexm_spec::{Cluster, Program};

use crate::catalogue::Catalogue;
use crate::error::RequireError;
use crate::os::Profiles;
use crate::requirements::Versions;

/// The first program of a cluster that needs a newer glibc than `glibc`, and what it needs: `containerd 2.2.7`, `2.34`.
fn too_new_for(glibc: &str, versions: &Versions, catalogue: &Catalogue) -> Option<(String, String)> {
    Program::ALL.into_iter().find_map(|program| {
        let version = versions.of(program)?;
        let needs = catalogue.component(program)?.libc(version).filter(|needs| !needs.runs_with(glibc))?;
        Some((format!("{} {version}", program.name()), needs.to_string()))
    })
}

/// Refuses an operating system of `spec.bundle.os` whose glibc is older than what the cluster's programs need.
pub(crate) fn check(
    cluster: &Cluster,
    catalogue: &Catalogue,
    versions: Option<&Versions>,
    profiles: &Profiles,
) -> Result<(), RequireError> {
    let Some(versions) = versions else { return Ok(()) };
    for profile in cluster.bundle.os.iter().filter_map(|name| profiles.all.get(name)) {
        let Some(glibc) = &profile.glibc else { continue };
        if let Some((program, needs)) = too_new_for(glibc, versions, catalogue) {
            return Err(RequireError::OldGlibc { os: profile.name.clone(), glibc: glibc.clone(), program, needs });
        }
    }
    Ok(())
}
