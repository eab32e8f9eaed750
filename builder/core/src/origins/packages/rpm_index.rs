//! Metadata of an rpm repository: its signer, its date, and the packages it lists.

use std::collections::BTreeSet;
use std::io::{BufReader, Read};

use kubexm_manifests::os::MirrorList;
use kubexm_packages::compression;
use kubexm_packages::model::{Package, RepoId};
use kubexm_packages::rpm::modules::Modules;
use kubexm_packages::rpm::repomd::{self, Data, Repomd};
use kubexm_packages::rpm::{DocumentError, filelists, fits, mirrors, modules, primary};
use kubexm_packages::trust::{self, Policy};
use kubexm_spec::Digest;
use kubexm_transport::{Answer, FileCandidate, HttpClient, Store, TransportError, Validators, Want};

use super::protection::Protection;
use super::remembered::Remembered;
use super::rpm_repository::Repository;
use super::{Options, PackagesError, Snapshot, below};

const REPOMD: &str = "repodata/repomd.xml";
/// Of a detached signature, in bytes.
const SIGNATURE_LIMIT: u64 = 64 << 10;
/// The most bytes of an index unpacked; filelists of EL's AppStream have some 300 MB.
const PLAIN_LIMIT: u64 = 2 << 30;
/// The most bytes of an index as it is sent, whatever repomd.xml says or leaves out: nobody signs most of them.
const PACKED_LIMIT: u64 = 1 << 30;
/// Mirrors of a list that are tried.
const MIRRORS: usize = 5;

/// What a repository has.
pub(super) struct Index {
    pub base: String,
    pub packages: Vec<Package>,
    pub modules: Modules,
    pub snapshot: Snapshot,
}

/// Metadata, its signature, and how to ask whether it is still the same.
type Got = (Vec<u8>, Option<Vec<u8>>, Validators);

/// One repository on its way.
#[derive(Clone, Copy)]
pub(super) struct Loading<'a> {
    pub repository: &'a Repository,
    pub arch: &'a str,
    pub paths: &'a BTreeSet<Box<str>>,
    pub http: &'a HttpClient,
    pub store: &'a Store,
    pub options: &'a Options,
}

impl Loading<'_> {
    /// From the first address whose metadata is good.
    pub async fn load(self) -> Result<Index, PackagesError> {
        let key = self.key();
        let remembered = Remembered::read(self.store, &key).map_err(|e| self.failed(e))?;
        if self.http.is_offline() {
            let what = format!("the metadata of {}", self.repository.name);
            let kept = self.kept(&remembered).ok_or_else(|| self.failed(TransportError::NotCached { what }))?;
            let base = FileCandidate::new(remembered.base.clone());
            return self.index(&base, kept.0, kept.1, &remembered, None).await;
        }
        let (bases, digests) = self.bases().await?;
        let mut failed = Vec::new();
        for base in &bases {
            match self.load_from(base, &remembered, digests.as_deref()).await {
                Ok(index) => return Ok(index),
                Err(error) => failed.push(error),
            }
        }
        Err(PackagesError::from_many(failed))
    }

    /// Looks at one address: whether its metadata is good, and its primary there.
    pub async fn look(self, base: &FileCandidate, digests: Option<&[Digest]>) -> Result<(), PackagesError> {
        let mut remembered = Remembered::read(self.store, &self.key()).map_err(|e| self.failed(e))?;
        let protection = self.protection(base, digests)?;
        let got = self.got(base, &Validators::default(), protection).await?.ok_or_else(|| self.unconditional(base))?;
        let (repomd, _) = self.trusted(base, (&got.0, got.1.as_deref()), &mut remembered, digests)?;
        let missing = || self.unreadable(&below(&base.url, REPOMD), "it lists no primary".to_owned());
        let primary = repomd.get("primary").ok_or_else(missing)?;
        let at = self.at(base, primary);
        let reported = self.http.head(&at).await.map_err(|e| self.failed(e))?;
        match (reported.size, primary.size) {
            (Some(found), Some(expected)) if found != expected => {
                Err(self.failed(TransportError::WrongSize { origin: at.url, expected, found }))
            }
            _ => Ok(()),
        }
    }

    /// The addresses to fetch from, and the digests of which the metadata must have one, from the list of mirrors. Where
    /// nobody signs the metadata, nobody on the network can have changed the list.
    pub async fn bases(self) -> Result<(Vec<FileCandidate>, Option<Vec<Digest>>), PackagesError> {
        let (mut bases, mut digests) = (self.repository.bases.clone(), None);
        if let Some((kind, url)) = &self.repository.mirrors {
            let listed = self.listed(*kind, url).await?;
            bases.extend(listed.mirrors.into_iter().take(MIRRORS).map(FileCandidate::new));
            digests = (!listed.repomd.is_empty()).then_some(listed.repomd);
            if bases.is_empty() {
                return Err(self.unreadable(url, "the list of mirrors has no address with http or https".to_owned()));
            }
        }
        Ok((bases, digests))
    }

    async fn listed(self, kind: MirrorList, url: &str) -> Result<mirrors::Metalink, PackagesError> {
        let list = FileCandidate::new(url);
        let list = match self.repository.metadata {
            Some(_) => self.allowed(list),
            None if Protection::is_https(&list) => list,
            None => return Err(self.plain_http(url.to_owned())),
        };
        let body = self.http.get_small(&list, mirrors::LIMIT).await.map_err(|e| self.failed(e))?;
        match kind {
            MirrorList::List => Ok(mirrors::Metalink {
                repomd: Vec::new(),
                mirrors: mirrors::mirrorlist(&String::from_utf8_lossy(&body)),
            }),
            MirrorList::Metalink => mirrors::metalink(body.as_slice()).map_err(|e| self.unreadable(url, e.to_string())),
        }
    }

    async fn load_from(
        self,
        base: &FileCandidate,
        remembered: &Remembered,
        digests: Option<&[Digest]>,
    ) -> Result<Index, PackagesError> {
        let protection = self.protection(base, digests)?;
        let kept = if remembered.base == base.url { self.kept(remembered) } else { None };
        let known = if kept.is_some() { remembered.validators.clone() } else { Validators::default() };
        let next = Remembered { protection: Some(protection), ..remembered.clone() };
        match (self.got(base, &known, protection).await?, kept) {
            (Some((text, signature, validators)), _) => {
                self.index(base, text, signature, &Remembered { validators, ..next }, digests).await
            }
            (None, Some((text, signature))) => self.index(base, text, signature, &next, digests).await,
            (None, None) => Err(self.unconditional(base)),
        }
    }

    /// The metadata and its signature; none where it is still what was known.
    async fn got(
        self,
        base: &FileCandidate,
        known: &Validators,
        protection: Protection,
    ) -> Result<Option<Got>, PackagesError> {
        if self.repository.entitlement && base.url == self.repository.origin && base.identity.is_none() {
            return Err(PackagesError::Entitlement { repository: self.repository.name.clone(), url: base.url.clone() });
        }
        let candidate = protection.required_of(self.candidate(base, REPOMD));
        let answer = self.http.get_if_changed(&candidate, repomd::LIMIT, known).await;
        match answer.map_err(|e| self.failed(e))? {
            Answer::Same => Ok(None),
            Answer::Fresh { body, validators } => {
                let signature = match &self.repository.metadata {
                    Some(_) => Some(self.signature(base).await?),
                    None => None,
                };
                Ok(Some((body, signature, validators)))
            }
        }
    }

    /// Nothing was shown that it could be the same as.
    fn unconditional(self, base: &FileCandidate) -> PackagesError {
        let (origin, reason) = (below(&base.url, REPOMD), "304 without a condition".to_owned());
        self.failed(TransportError::Down { origin, reason })
    }

    async fn signature(self, base: &FileCandidate) -> Result<Vec<u8>, PackagesError> {
        let url = below(&base.url, REPOMD);
        let asked = self.http.get_small(&self.candidate(base, &format!("{REPOMD}.asc")), SIGNATURE_LIMIT).await;
        asked.map_err(|error| match error {
            TransportError::Missing { .. } => PackagesError::Unsigned { repository: self.repository.name.clone(), url },
            error => self.failed(error),
        })
    }

    /// Trusts the metadata or not, reads what it lists, and remembers it.
    async fn index(
        self,
        base: &FileCandidate,
        text: Vec<u8>,
        signature: Option<Vec<u8>>,
        remembered: &Remembered,
        digests: Option<&[Digest]>,
    ) -> Result<Index, PackagesError> {
        let mut next = Remembered { base: base.url.clone(), ..remembered.clone() };
        let (repomd, date) = self.trusted(base, (&text, signature.as_deref()), &mut next, digests)?;
        let repository = || self.repository.name.clone();
        let digest = Digest::of(&text);
        let mut index = Index {
            base: base.url.clone(),
            packages: Vec::new(),
            modules: Modules::default(),
            snapshot: Snapshot {
                repository: repository(),
                name: repository(),
                origin: self.origin(base).to_owned(),
                address: below(self.origin(base), REPOMD),
                digest,
                date,
                signed: self.repository.metadata.is_some(),
                trust_unsigned: next.protection == Some(Protection::Trusted),
            },
        };
        self.read(base, &repomd, &mut index).await?;

        next.keep(self.store, &self.key(), &text, signature.as_deref()).map_err(|e| self.failed(e))?;
        Ok(index)
    }

    /// The metadata and when the vendor made it, if its signer is trusted and it is not older than the newest seen.
    fn trusted(
        self,
        base: &FileCandidate,
        (text, signature): (&[u8], Option<&[u8]>),
        remembered: &mut Remembered,
        digests: Option<&[Digest]>,
    ) -> Result<(Repomd, Option<i64>), PackagesError> {
        let (url, repository) = (below(&base.url, REPOMD), self.repository.name.clone());
        if let Some(keyring) = &self.repository.metadata {
            let policy = Policy::at(self.options.now);
            trust::detached(text, signature.unwrap_or_default(), keyring, &policy)
                .map_err(|source| PackagesError::Untrusted { repository, url: url.clone(), source })?;
        }
        let digest = Digest::of(text);
        if digests.is_some_and(|digests| !digests.contains(&digest)) {
            return Err(self.unreadable(&url, format!("it has {digest}, which the metalink does not list")));
        }
        let repomd = Repomd::read(text).map_err(|source| self.document(&url, source))?;
        let date = repomd.made().and_then(|made| i64::try_from(made).ok());
        remembered.dated(date, self.options.now, base.is_local(), (&self.repository.name, &url))?;
        Ok((repomd, date))
    }

    /// Fills in packages, paths and modules.
    async fn read(self, base: &FileCandidate, repomd: &Repomd, index: &mut Index) -> Result<(), PackagesError> {
        let missing = || self.unreadable(&below(&base.url, REPOMD), "it lists no primary".to_owned());
        let arch = self.arch.to_owned();
        let primary = self.fetched(base, repomd.get("primary").ok_or_else(missing)?).await?;
        index.packages =
            self.parsed(primary, move |reader| primary::read(reader, RepoId(0), |found| fits(&arch, found))).await?;
        if let Some(data) = repomd.get("filelists").filter(|_| !self.paths.is_empty()) {
            let (data, paths) = (self.fetched(base, data).await?, self.paths.clone());
            let url = data.0.clone();
            let found = self.parsed(data, move |reader| filelists::read(reader, &paths)).await?;
            filelists::add(&mut index.packages, &found).map_err(|source| self.document(&url, source))?;
        }
        if let Some(data) = repomd.get("modules") {
            let data = self.fetched(base, data).await?;
            index.modules = self
                .parsed(data, |mut reader| {
                    let mut text = String::new();
                    let read = reader.by_ref().take(modules::LIMIT).read_to_string(&mut text);
                    read.map_err(|error| DocumentError { document: "modules.yaml", why: error.to_string(), at: 0 })?;
                    Modules::read(&text)
                })
                .await?;
        }
        Ok(())
    }

    /// Brings a file of the repository into the store.
    async fn fetched(self, base: &FileCandidate, data: &Data) -> Result<(String, Digest), PackagesError> {
        let from = self.at(base, data);
        let url = from.url.clone();
        let digest = data.wanted().map_err(|source| self.document(&base.url, source))?;
        let want = Want { digest: Some(digest), size: data.size, most: Some(PACKED_LIMIT), refuse_html: false };
        let fetched = self.http.fetch(&[from], &want, self.store, &|_, _| {}).await;
        fetched.map(|fetched| (url, fetched.digest)).map_err(|e| self.failed(e))
    }

    fn at(self, base: &FileCandidate, data: &Data) -> FileCandidate {
        match data.location.contains("://") {
            true => self.allowed(FileCandidate::new(data.location.clone())),
            false => self.candidate(base, &data.location),
        }
    }

    /// Reads a file of the store, unpacked, on a blocking thread.
    async fn parsed<T: Send + 'static>(
        self,
        (url, digest): (String, Digest),
        parse: impl FnOnce(BufReader<std::io::Take<Box<dyn std::io::BufRead>>>) -> Result<T, DocumentError> + Send + 'static,
    ) -> Result<T, PackagesError> {
        let (store, repository) = (self.store.clone(), self.repository.name.clone());
        let work = move || {
            let blob = store.open_blob(&digest);
            let blob =
                blob.map_err(|e| PackagesError::Fetch { repository: repository.clone(), source: Box::new(e) })?;
            let unpacked = compression::unpacked(BufReader::with_capacity(1 << 18, blob));
            let unpacked = unpacked.map_err(|error| PackagesError::Unpack {
                repository: repository.clone(),
                path: url.clone(),
                reason: error.to_string(),
            })?;
            let bounded = BufReader::with_capacity(1 << 16, unpacked.take(PLAIN_LIMIT));
            parse(bounded).map_err(|source| PackagesError::Document { repository, url, source })
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| PackagesError::Worker(error.to_string()))?
    }

    fn kept(self, remembered: &Remembered) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let kept = remembered.kept(self.store, (repomd::LIMIT, SIGNATURE_LIMIT))?;
        let is_usable = match (&self.repository.metadata, remembered.protection) {
            (Some(_), _) => kept.1.is_some(),
            (None, None) => false,
            (None, Some(Protection::Trusted)) => self.repository.trust_unsigned.contains(&remembered.base),
            (None, Some(Protection::Signature | Protection::Https | Protection::Digest)) => true,
        };
        is_usable.then_some(kept)
    }

    /// Under which its state is remembered.
    fn key(self) -> String {
        let list = self.repository.mirrors.as_ref().map(|(_, url)| url.as_str());
        let place = self.repository.bases.first().map(|base| base.url.as_str()).or(list).unwrap_or_default();
        format!("rpm repomd {place}")
    }

    /// What packages are addressed below, whoever was asked. A mirror of a list is all that is known of one.
    fn origin<'a>(&'a self, base: &'a FileCandidate) -> &'a str {
        if self.repository.mirrors.is_some() { &base.url } else { &self.repository.origin }
    }

    fn candidate(self, base: &FileCandidate, path: &str) -> FileCandidate {
        self.allowed(FileCandidate { url: below(&base.url, path), ..base.clone() })
    }

    fn allowed(self, candidate: FileCandidate) -> FileCandidate {
        let plain_http_allowed = candidate.plain_http_allowed || self.options.plain_http;
        FileCandidate { plain_http_allowed, ..candidate }
    }

    /// What protects the metadata of an address on its way.
    fn protection(self, base: &FileCandidate, digests: Option<&[Digest]>) -> Result<Protection, PackagesError> {
        let refused = || self.plain_http(below(&base.url, REPOMD));
        Protection::of(self.repository, base, digests.is_some()).ok_or_else(refused)
    }

    fn plain_http(self, url: String) -> PackagesError {
        PackagesError::PlainHttp { repository: self.repository.name.clone(), url }
    }

    fn failed(self, source: TransportError) -> PackagesError {
        PackagesError::Fetch { repository: self.repository.name.clone(), source: Box::new(source) }
    }

    fn document(self, url: &str, source: DocumentError) -> PackagesError {
        PackagesError::Document { repository: self.repository.name.clone(), url: url.to_owned(), source }
    }

    fn unreadable(self, url: &str, reason: String) -> PackagesError {
        PackagesError::Unpack { repository: self.repository.name.clone(), path: url.to_owned(), reason }
    }
}
