//! Operating systems: the support table of preflight, and what is known of their packages ([`Profiles`]).

mod profile;
mod profiles;
mod roots;

pub use profile::{MirrorList, Profile, Quirks, Repository, RepositoryTrust};
pub use profiles::{Profiles, UnknownOs, VendorKey};
pub use roots::{Root, RootRole};

use serde::{Deserialize, Serialize};

/// One operating system release, by the fields of os-release(5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OsProfile {
    /// `ID`.
    pub id: String,
    /// `VERSION_ID`, or its leading parts (`9` stands for `9.4`).
    pub version_id: String,
    /// The family of its packages.
    pub family: OsFamily,
    /// An installation on this release was seen to work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tried: bool,
}

/// Which packages a release takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OsFamily {
    /// apt and .deb.
    Debian,
    /// dnf or yum and .rpm.
    Rpm,
}

impl OsProfile {
    /// Whether the fields of os-release are of this release.
    pub fn matches(&self, id: &str, version_id: &str) -> bool {
        of_release((&self.id, &self.version_id), (id, version_id))
    }
}

/// Whether the `ID` and `VERSION_ID` of a host are those of a release; `9` stands for `9.4`.
fn of_release(release: (&str, &str), host: (&str, &str)) -> bool {
    host.0.eq_ignore_ascii_case(release.0)
        && host.1.strip_prefix(release.1).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_major_version_stands_for_its_minors_and_for_nothing_longer() {
        let rocky = OsProfile { id: "rocky".into(), version_id: "9".into(), family: OsFamily::Rpm, tried: false };
        assert!(rocky.matches("rocky", "9.4"));
        assert!(rocky.matches("rocky", "9"));
        assert!(!rocky.matches("rocky", "91"));
        assert!(!rocky.matches("rhel", "9.4"));
    }
}
