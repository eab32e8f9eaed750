//! An rpm repository, and the module streams enabled in it.

use std::collections::BTreeSet;

use kubexm_manifests::os::{MirrorList, Profile};
use kubexm_packages::trust::Keyring;
use kubexm_transport::FileCandidate;

/// A repository.
#[derive(Clone, Debug)]
pub struct Repository {
    /// What people call it: `baseos`.
    pub name: String,
    /// Its own address without a slash at the end, whichever mirror is used:
    /// `https://dl.rockylinux.org/pub/rocky/9/BaseOS/x86_64/os`.
    /// Of one that is known by a list of mirrors, the list's.
    pub origin: String,
    /// Addresses that are asked, without a slash at the end, the best first.
    pub bases: Vec<FileCandidate>,
    /// Where more addresses are listed.
    pub mirrors: Option<(MirrorList, String)>,
    /// Whose signature its metadata must carry (repomd.xml.asc); none where the vendor makes none.
    pub metadata: Option<Keyring>,
    /// Those of `bases` from which metadata that nobody signs is accepted over plain http.
    pub trust_unsigned: BTreeSet<String>,
    /// Its own address wants the client certificate of a subscription.
    pub entitlement: bool,
    /// Its packages are not filtered by modules (`module_hotfixes`).
    pub hotfixes: bool,
    /// See [`Repo::priority`].
    pub priority: i32,
}

/// What is chosen of modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// `el8`; any when none.
    pub platform: Option<String>,
    /// Modules and streams beyond the defaults: `("container-tools", "rhel8")`.
    pub enabled: Vec<(String, String)>,
}

impl Streams {
    /// The defaults of a profile's release.
    pub fn of(profile: &Profile) -> Self {
        let major = profile.version_id.split('.').next().unwrap_or_default();
        Self { platform: profile.quirks.modules.then(|| format!("el{major}")), enabled: Vec::new() }
    }
}
