//! Names and paths that both programs must agree on. What one side alone uses lives on that side.

/// The builder's program name.
pub const BUILDER: &str = "kubexm-bundle";
/// The installer's program name, on the controller and as the agent on nodes.
pub const INSTALLER: &str = "kubexm-install";
/// `apiVersion` of cluster.yaml.
pub const CLUSTER_API_VERSION: &str = "kubexm.io/v1alpha1";
/// Annotation of an index entry that carries the full upstream name (OCI image-spec, annotations.md).
pub const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Environment variable that names the zone.
pub const ZONE_ENV: &str = "KMZONE";
/// The older name of [`ZONE_ENV`], read with a warning.
pub const OLD_ZONE_ENV: &str = "KKZONE";
/// Environment variable for the controller's folder.
pub const HOME_ENV: &str = "KUBEXM_HOME";
/// The controller's folder under the user's home, when [`HOME_ENV`] is not set.
pub const HOME_DIR: &str = ".kubexm";

/// TCP port of the depot: of its images with the embedded registry unless cluster.yaml says otherwise, and of its blobs
/// and files beside every other registry.
pub const DEPOT_PORT: u16 = 5443;
/// TCP port on which a host serves blobs to the other hosts of a run, while the run lasts.
pub const FAN_OUT_PORT: u16 = 5444;

/// The DNS name of the cluster's registry.
pub fn registry_name(cluster: &str) -> String {
    format!("registry.{cluster}.kubexm.internal")
}

/// The DNS name of the control plane.
pub fn control_plane_name(cluster: &str) -> String {
    format!("lb.{cluster}.kubexm.internal")
}

/// Codenames of distributions, and the names of their releases in cluster.yaml.
pub const OS_CODENAMES: [(&str, &str); 6] = [
    ("bullseye", "debian-11"),
    ("bookworm", "debian-12"),
    ("trixie", "debian-13"),
    ("focal", "ubuntu-20.04"),
    ("jammy", "ubuntu-22.04"),
    ("noble", "ubuntu-24.04"),
];

/// The release of a codename: `bookworm`, also as `debian-bookworm`.
pub fn os_of_codename(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    let is = |(codename, name): &(&str, &'static str)| {
        text == *codename
            || text.strip_suffix(codename).is_some_and(|rest| {
                rest.strip_suffix(['-', '_', ':', ' ']).is_some_and(|id| name.starts_with(id) && !id.is_empty())
            })
    };
    OS_CODENAMES.iter().find(|row| is(row)).map(|(_, name)| *name)
}

/// Stands before the version in the program [`INSTALLER`], between two bytes of zero, so that it can be read of a file for any
/// architecture; [`crate::program_mark`] makes it.
const PROGRAM_MARK: &[u8] = b"kubexm program kubexm-install ";

/// The bytes that a program carries about its version: `program_mark!(env!("CARGO_PKG_VERSION"))`.
#[macro_export]
macro_rules! program_mark {
    ($version:expr) => {
        concat!("\0kubexm program kubexm-install ", $version, "\0")
    };
}

/// The version in the bytes of `kubexm-install`; none where they are something else, or from before programs carried it.
pub fn program_version(program: &[u8]) -> Option<&str> {
    program.split(|byte| *byte == 0).filter_map(|piece| piece.strip_prefix(PROGRAM_MARK)).find_map(|version| {
        let version = std::str::from_utf8(version).ok().filter(|version| version.len() <= 64)?;
        let good = version.starts_with(|c: char| c.is_ascii_digit())
            && version.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b));
        good.then_some(version)
    })
}

/// The folder of an upstream host in a registry that other programs fill too. Its port would have a colon, which no
/// repository's name has (OCI distribution-spec, "Pulling manifests").
pub fn registry_folder(host: &str) -> String {
    host.to_ascii_lowercase().replace(':', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codenames_stand_for_releases() {
        assert_eq!(os_of_codename("bookworm"), Some("debian-12"));
        assert_eq!(os_of_codename("Ubuntu-Jammy"), Some("ubuntu-22.04"));
        for other in ["debian-12", "debian-jammy", "worm", "-bookworm", ""] {
            assert_eq!(os_of_codename(other), None, "{other}");
        }
    }

    #[test]
    fn a_program_carries_its_version() {
        let program = [&b"\x7fELF\0"[..], PROGRAM_MARK, b"\xff\0", crate::program_mark!("1.2.3-rc.1").as_bytes(), b"x"];
        assert_eq!(program_version(&program.concat()), Some("1.2.3-rc.1"));
        assert_eq!(program_version(b"\x7fELF"), None);
    }
}
