//! Families of package formats.

use serde::{Deserialize, Serialize};

use crate::Arch;

/// A family of package formats: which programs install them, how versions compare, what relations mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Debian's: dpkg and apt.
    Deb,
    /// Red Hat's: rpm, dnf and yum.
    Rpm,
}

impl Family {
    /// The family's word for an architecture: `amd64`, `arm64` or `x86_64`, `aarch64`.
    pub const fn arch(self, arch: Arch) -> &'static str {
        match self {
            Self::Deb => arch.as_str(),
            Self::Rpm => arch.uname(),
        }
    }

    /// The word for packages that fit every architecture: `all` or `noarch`.
    pub const fn any_arch(self) -> &'static str {
        match self {
            Self::Deb => "all",
            Self::Rpm => "noarch",
        }
    }
}
