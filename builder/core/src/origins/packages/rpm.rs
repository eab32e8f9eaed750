//! Repositories of Red Hat's family: repomd.xml (and its signature where the vendor makes one) → indexes by their sha256 →
//! packages, each of which carries a signature of its own.

use std::collections::BTreeSet;

use futures::future::join_all;
use kubexm_manifests::os::{self, Profile};
use kubexm_packages::model::RepoId;
use kubexm_packages::rpm::modules::Modules;
use kubexm_packages::rpm::streams::{Choice, ModuleError};
use kubexm_packages::solve::{Pool, Repo};
use kubexm_packages::trust::{self, Keyring};
use kubexm_spec::{Arch, Family};
use kubexm_transport::{FileCandidate, HttpClient, Store};

use super::rpm_index::Loading;
pub use super::rpm_repository::{Repository, Streams};
use super::{Loaded, Options, PackagesError, without_slash};

/// The repositories of a profile for an architecture. `mirrors` are addresses by the name of a profile's repository, to be asked
/// instead of its own; the keys stay the profile's.
///
/// # Errors
/// A key of the profile that cannot be read.
pub fn repositories(
    profile: &Profile,
    profiles: &os::Profiles,
    arch: Arch,
    mirrors: &dyn Fn(&str) -> Vec<FileCandidate>,
) -> Result<Vec<Repository>, trust::TrustError> {
    let mut repositories = Vec::new();
    for repository in &profile.repositories {
        let own = repository.base(Family::Rpm, arch);
        let (bases, list) = match (mirrors(&repository.name), repository.mirrors) {
            (none, Some(kind)) if none.is_empty() => (Vec::new(), Some((kind, own.clone()))),
            (none, None) if none.is_empty() => (vec![FileCandidate::new(own.clone())], None),
            (some, _) => (some.into_iter().map(without_slash).collect(), None),
        };
        repositories.push(Repository {
            name: repository.name.clone(),
            origin: own,
            bases,
            mirrors: list,
            metadata: keyring(profiles, &repository.trust.metadata)?,
            trust_unsigned: BTreeSet::new(),
            entitlement: repository.entitlement,
            hotfixes: false,
            priority: 0,
        });
    }
    Ok(repositories)
}

/// The keys with these fingerprints, which a profile names; none where it names none.
///
/// # Errors
/// A key that cannot be read, or is not there.
pub fn keyring(profiles: &os::Profiles, fingerprints: &[String]) -> Result<Option<Keyring>, trust::TrustError> {
    if fingerprints.is_empty() {
        return Ok(None);
    }
    let armored: Vec<&str> = profiles.certificates(fingerprints).iter().map(|key| key.armored.trim()).collect();
    Keyring::read(armored.join("\n").as_bytes())?.pinned(fingerprints).map(Some)
}

/// Looks at every address of a repository, and reads no packages: each with what is wrong with it.
pub async fn look(
    repository: &Repository,
    arch: Arch,
    http: &HttpClient,
    store: &Store,
    options: &Options,
) -> Vec<(String, Result<(), PackagesError>)> {
    let paths = &BTreeSet::new();
    let loading = Loading { repository, arch: Family::Rpm.arch(arch), paths, http, store, options };
    let (bases, digests) = match loading.bases().await {
        Ok(found) => found,
        Err(error) => {
            let list = repository.mirrors.as_ref().map(|(_, url)| url.clone()).unwrap_or_default();
            return vec![(list, Err(error))];
        }
    };
    let looking = bases.iter().map(|base| loading.look(base, digests.as_deref()));
    let reported = join_all(looking).await;
    bases.into_iter().map(|base| base.url).zip(reported).collect()
}

/// Reads the repositories and makes one pool of them. All that fails is reported, not only the first.
///
/// `paths` are those that a solve wanted and found in no package ([`kubexm_packages::solve::Closure::needs_files`]): lists of files are
/// read for them only. None are at first.
pub async fn load(
    repositories: &[Repository],
    arch: Arch,
    streams: &Streams,
    paths: &BTreeSet<Box<str>>,
    http: &HttpClient,
    store: &Store,
    options: &Options,
) -> Result<Loaded, PackagesError> {
    let arch = Family::Rpm.arch(arch);
    let loading =
        repositories.iter().map(|repository| Loading { repository, arch, paths, http, store, options }.load());
    let (mut repos, mut packages, mut snapshots, mut failed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut modules, mut hotfixes, mut modular) = (Modules::default(), Vec::new(), Vec::new());
    for (result, repository) in join_all(loading).await.into_iter().zip(repositories) {
        match result {
            Err(error) => failed.push(error),
            Ok(mut index) => {
                let Ok(id) = u16::try_from(repos.len()) else { return Err(PackagesError::TooMany(repos.len())) };
                index.packages.iter_mut().for_each(|package| package.repo = RepoId(id));
                packages.append(&mut index.packages);
                if !index.modules.is_empty() {
                    modular.push(repository.name.clone());
                }
                modules.merge(index.modules);
                repos.push(Repo { id: repository.name.clone(), base: index.base, priority: repository.priority });
                snapshots.push(index.snapshot);
                if repository.hotfixes {
                    hotfixes.push(RepoId(id));
                }
            }
        }
    }
    if !failed.is_empty() {
        return Err(PackagesError::from_many(failed));
    }
    let enabled: Vec<_> = streams.enabled.iter().map(|(module, stream)| (module.as_str(), stream.as_str())).collect();
    let choice = Choice { arch, platform: streams.platform.as_deref(), enabled: &enabled, hotfixes: &hotfixes };
    let packages = modules.visible(packages, &choice).map_err(|error| match error {
        ModuleError::TooHard { .. } => PackagesError::TooManyModules { repositories: modular, source: error },
        ModuleError::Unavailable { .. } => PackagesError::Modules(error),
    })?;
    Ok(Loaded { pool: Pool::new(Family::Rpm, arch, repos, packages), snapshots })
}
