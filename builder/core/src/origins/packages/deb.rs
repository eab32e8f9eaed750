//! Debian's repositories: InRelease (or Release and Release.gpg) → signer → indexes by their sha256 → packages.

use futures::future::join_all;
use kubexm_manifests::os::{self, Profile};
use kubexm_packages::deb::listing::Listing;
use kubexm_packages::deb::release::{Index, Release};
use kubexm_packages::model::RepoId;
use kubexm_packages::solve::{Pool, Repo};
use kubexm_packages::trust::{self, Keyring};
use kubexm_spec::{Arch, Digest, Family};
use kubexm_transport::{FileCandidate, HttpClient, Store, TransportError, Want};

use super::deb_index::Reading;
use super::{Loaded, Options, PackagesError, Snapshot, Trust, below, without_slash};

/// A suite of a repository.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Of the repository in its profile: `main`.
    pub name: String,
    /// The repository's own address without a slash at the end, whichever mirror is used:
    /// `https://deb.debian.org/debian`.
    pub origin: String,
    /// Addresses that are asked, without a slash at the end, the best first.
    pub bases: Vec<FileCandidate>,
    /// Below `dists/`: `bookworm-updates`. With a slash at its end it is the folder of a flat repository: `./`.
    pub suite: String,
    /// `main`, `universe`; none of a flat repository.
    pub components: Vec<String>,
    /// By what it is trusted.
    pub trust: Trust,
    /// See [`Repo::priority`].
    pub priority: i32,
}

/// The suites of a profile for an architecture. `mirrors` are addresses by the name of a profile's repository, to be asked instead of
/// its own; the keys stay the profile's.
///
/// # Errors
/// A key of the profile that cannot be read.
pub fn suites(
    profile: &Profile,
    profiles: &os::Profiles,
    arch: Arch,
    mirrors: &dyn Fn(&str) -> Vec<FileCandidate>,
) -> Result<Vec<Suite>, trust::TrustError> {
    let mut suites = Vec::new();
    for repository in &profile.repositories {
        let origin = repository.base(Family::Deb, arch);
        let bases = match mirrors(&repository.name) {
            none if none.is_empty() => vec![FileCandidate::new(origin.clone())],
            some => some.into_iter().map(without_slash).collect(),
        };
        let trust = if repository.trust.pinned_only() {
            Trust::PinnedOnly
        } else {
            Trust::Signed(keyring(profiles, &repository.trust.metadata)?)
        };
        for suite in &repository.suites {
            suites.push(Suite {
                name: repository.name.clone(),
                origin: origin.clone(),
                bases: bases.clone(),
                suite: suite.clone(),
                components: repository.components.clone(),
                trust: trust.clone(),
                priority: 0,
            });
        }
    }
    Ok(suites)
}

fn keyring(profiles: &os::Profiles, fingerprints: &[String]) -> Result<Keyring, trust::TrustError> {
    let armored: Vec<&str> = profiles.certificates(fingerprints).iter().map(|key| key.armored.trim()).collect();
    Keyring::read(armored.join("\n").as_bytes())?.pinned(fingerprints)
}

/// Looks at every address of a suite, and reads no packages: each with what is wrong with it.
pub async fn look(
    suite: &Suite,
    arch: Arch,
    http: &HttpClient,
    store: &Store,
    options: &Options,
) -> Vec<(String, Result<(), PackagesError>)> {
    let loading = Loading { suite, arch: Family::Deb.arch(arch), http, store, options };
    let reported = join_all(suite.bases.iter().map(|base| loading.look(base))).await;
    suite.bases.iter().map(|base| base.url.clone()).zip(reported).collect()
}

/// Reads the suites and makes one pool of them. All that fails is reported, not only the first.
pub async fn load(
    suites: &[Suite],
    arch: Arch,
    http: &HttpClient,
    store: &Store,
    options: &Options,
) -> Result<Loaded, PackagesError> {
    let arch = Family::Deb.arch(arch);
    let loading = suites.iter().map(|suite| Loading { suite, arch, http, store, options }.load());
    let (mut repos, mut listings, mut snapshots, mut failed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for result in join_all(loading).await {
        match result {
            Err(error) => failed.push(error),
            Ok(components) => {
                for (repo, snapshot, listed) in components {
                    let Ok(id) = u16::try_from(repos.len()) else { return Err(PackagesError::TooMany(repos.len())) };
                    repos.push(repo);
                    snapshots.push(snapshot);
                    listings.extend(listed.into_iter().map(|listing| (RepoId(id), listing)));
                }
            }
        }
    }
    if !failed.is_empty() {
        return Err(PackagesError::from_many(failed));
    }
    Ok(Loaded { pool: Pool::of_listings(arch, repos, listings), snapshots })
}

/// One suite on its way.
#[derive(Clone, Copy)]
pub(super) struct Loading<'a> {
    pub suite: &'a Suite,
    pub arch: &'a str,
    pub http: &'a HttpClient,
    pub store: &'a Store,
    pub options: &'a Options,
}

type Component = (Repo, Snapshot, Vec<Listing>);

impl Loading<'_> {
    /// From the first address whose release and indexes are good.
    async fn load(self) -> Result<Vec<Component>, PackagesError> {
        let mut failed = Vec::new();
        for base in &self.suite.bases {
            match self.load_from(base).await {
                Ok(loaded) => return Ok(loaded),
                Err(error) => failed.push(error),
            }
        }
        Err(PackagesError::from_many(failed))
    }

    /// Whether the release is good, and every index of it there.
    async fn look(self, base: &FileCandidate) -> Result<(), PackagesError> {
        let (release, _) = self.release(base, false).await?;
        let folder = &self.folder(base);
        let unlisted =
            |source| PackagesError::Release { repository: self.suite.suite.clone(), url: folder.url.clone(), source };
        let mut indexes = Vec::new();
        if self.is_flat() {
            indexes.push(release.flat_index().map_err(unlisted)?);
        }
        for component in &self.suite.components {
            indexes.extend(release.indexes(component, self.arch).map_err(unlisted)?);
        }
        for index in &indexes {
            let mut reported = Ok(());
            for path in &index.paths {
                reported = self.has(&self.candidate(folder, path), index.packed.size).await;
                if reported.is_ok() {
                    break;
                }
            }
            reported.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    async fn has(self, at: &FileCandidate, expected: u64) -> Result<(), TransportError> {
        match self.http.head(at).await?.size.filter(|found| *found != expected) {
            Some(found) => Err(TransportError::WrongSize { origin: at.url.clone(), expected, found }),
            None => Ok(()),
        }
    }

    async fn load_from(self, base: &FileCandidate) -> Result<Vec<Component>, PackagesError> {
        let (release, digest) = self.release(base, true).await?;
        match self.components(base, &release, digest).await {
            // Where indexes have no names of their own, a mirror may have been updated between two of our requests.
            Err(PackagesError::Fetch { source, .. }) if !release.by_hash && is_other(&source) => {
                let (release, digest) = self.release(base, false).await?;
                self.components(base, &release, digest).await
            }
            result => result,
        }
    }

    async fn components(
        self,
        base: &FileCandidate,
        release: &Release,
        digest: Digest,
    ) -> Result<Vec<Component>, PackagesError> {
        let folder = &self.folder(base);
        let index = below(&self.folder_of(&self.suite.origin), "InRelease");
        let mut wanted = Vec::new();
        if self.is_flat() {
            wanted.push((self.suite.suite.clone(), vec![release.flat_index()]));
        }
        for component in &self.suite.components {
            let indexes = release.indexes(component, self.arch);
            let name = format!("{}/{component}", self.suite.suite);
            wanted.push((name, indexes.map_or_else(|error| vec![Err(error)], |all| all.into_iter().map(Ok).collect())));
        }
        let loading = wanted.into_iter().map(|(name, indexes)| {
            let address = index.clone();
            async move {
                let mut listings = Vec::new();
                for index in indexes {
                    let index = index.map_err(|source| PackagesError::Release {
                        repository: self.suite.suite.clone(),
                        url: folder.url.clone(),
                        source,
                    })?;
                    listings.push(self.listing(folder, &index).await?);
                }
                let repo = Repo { id: name.clone(), base: base.url.clone(), priority: self.suite.priority };
                let signed = matches!(self.suite.trust, Trust::Signed(_));
                let snapshot = Snapshot {
                    trust_unsigned: false,
                    repository: name,
                    name: self.suite.name.clone(),
                    origin: self.suite.origin.clone(),
                    address,
                    digest,
                    date: release.date,
                    signed,
                };
                Ok((repo, snapshot, listings))
            }
        });
        join_all(loading).await.into_iter().collect()
    }

    /// The packages of an index. The cache keeps it unpacked where the suite lists its digest: the next run only reads
    /// it.
    async fn listing(self, folder: &FileCandidate, index: &Index) -> Result<Listing, PackagesError> {
        let kept = match index.plain {
            Some(plain) if self.store.holds(&plain.digest, plain.size).map_err(|e| self.failed(e))? => {
                Some(plain.digest)
            }
            _ => None,
        };
        if kept.is_none() {
            let candidates: Vec<_> = index.paths.iter().map(|path| self.candidate(folder, path)).collect();
            let want = Want { digest: Some(index.packed.digest), size: Some(index.packed.size), ..Want::default() };
            self.http.fetch(&candidates, &want, self.store, &|_, _| {}).await.map_err(|e| self.failed(e))?;
        }
        let path = index.paths.last().cloned().unwrap_or_default();
        let work = Reading {
            store: self.store.clone(),
            repository: self.suite.suite.clone(),
            path,
            index: index.clone(),
            kept,
            arch: self.arch.to_owned(),
        };
        tokio::task::spawn_blocking(move || work.read()).await.map_err(|e| PackagesError::Worker(e.to_string()))?
    }

    pub fn is_flat(self) -> bool {
        self.suite.suite.ends_with('/')
    }

    /// Where the release is, without a slash at the end.
    pub fn folder(self, base: &FileCandidate) -> FileCandidate {
        FileCandidate { url: self.folder_of(&base.url), ..base.clone() }
    }

    fn folder_of(self, base: &str) -> String {
        let suite = self.suite.suite.trim_end_matches('/');
        match (self.is_flat(), suite) {
            (true, "" | ".") => base.to_owned(),
            (true, folder) => format!("{base}/{}", folder.trim_start_matches("./")),
            (false, suite) => format!("{base}/dists/{suite}"),
        }
    }

    pub fn candidate(self, folder: &FileCandidate, path: &str) -> FileCandidate {
        let plain_http_allowed = folder.plain_http_allowed || self.options.plain_http;
        FileCandidate { url: below(&folder.url, path), plain_http_allowed, ..folder.clone() }
    }

    pub fn failed(self, source: TransportError) -> PackagesError {
        PackagesError::Fetch { repository: self.suite.suite.clone(), source: Box::new(source) }
    }
}

/// Whether an origin sent something other than its release lists.
fn is_other(error: &TransportError) -> bool {
    match error {
        TransportError::Mismatch { .. } | TransportError::WrongSize { .. } | TransportError::Missing { .. } => true,
        TransportError::AllFailed { tried, .. } => tried.iter().any(is_other),
        _ => false,
    }
}
