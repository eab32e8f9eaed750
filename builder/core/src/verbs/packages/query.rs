//! The command that says what a host has installed.

use kubexm_manifests::os::Profiles;
use kubexm_packages::rpm::installed::QUERY;
use kubexm_spec::Family;

use crate::session::SessionError;

/// For a POSIX shell on a host of this operating system.
pub fn command(os: &str) -> Result<String, SessionError> {
    Ok(match Profiles::embedded().get(os)?.family {
        Family::Deb => "cat /var/lib/dpkg/status".to_owned(),
        Family::Rpm => format!("LC_ALL=C rpm -qa --queryformat '{QUERY}'"),
    })
}
