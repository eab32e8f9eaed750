//! A suite's release: InRelease, or Release and Release.gpg; its signer and its date.

use kubexm_packages::deb::control::ControlError;
use kubexm_packages::deb::release::Release;
use kubexm_packages::trust::{self, Policy};
use kubexm_spec::Digest;
use kubexm_transport::{Answer, FileCandidate, TransportError, Validators};

use super::deb::Loading;
use super::remembered::Remembered;
use super::{PackagesError, Trust, below};

/// The most bytes of a Release; Ubuntu's have 0.3 MB.
const RELEASE_LIMIT: u64 = 32 << 20;

/// What is signed, and the signature where it is beside it.
struct Signed {
    url: String,
    text: Vec<u8>,
    signature: Option<Vec<u8>>,
}

impl Loading<'_> {
    /// The release, its signature and dates checked, and the digest of the signed file. `revalidate`: what is cached may be shown.
    pub(super) async fn release(
        self,
        base: &FileCandidate,
        revalidate: bool,
    ) -> Result<(Release, Digest), PackagesError> {
        let folder = self.folder(base);
        let key = format!("deb release {} {}", folder.url, self.suite.suite);
        let mut remembered = Remembered::read(self.store, &key).map_err(|e| self.failed(e))?;
        let signed = self.signed(&folder, &mut remembered, revalidate).await?;
        let (signed, text) = self.trusted(signed).await?;
        let repository = || self.suite.suite.clone();
        let url = || signed.url.clone();
        let release = Release::parse(&text).map_err(|source| PackagesError::Release {
            repository: repository(),
            url: url(),
            source,
        })?;
        if !self.is_flat() && !release.is_of(self.suite.suite.trim_end_matches('/')) {
            let found = release.suite.iter().chain(&release.codename).cloned().collect::<Vec<_>>().join(", ");
            return Err(PackagesError::SuiteMismatch { repository: repository(), url: url(), found });
        }
        if let Some(until) = release.valid_until.filter(|until| *until < self.options.now) {
            return Err(PackagesError::Expired { repository: repository(), url: url(), until });
        }
        let at = (self.suite.suite.as_str(), signed.url.as_str());
        remembered.dated(release.date, self.options.now, base.is_local(), at)?;
        remembered.base.clone_from(&folder.url);
        let kept = remembered.keep(self.store, &key, &signed.text, signed.signature.as_deref());
        let digest = kept.map_err(|e| self.failed(e))?;
        Ok((release, digest))
    }

    /// The signed text. Checked off the threads that wait for the network, so that suites are checked at once.
    async fn trusted(self, signed: Signed) -> Result<(Signed, String), PackagesError> {
        let (trust, repository, now) = (self.suite.trust.clone(), self.suite.suite.clone(), self.options.now);
        let work = move || trusted(&signed, &trust, &repository, now).map(|text| (signed, text));
        tokio::task::spawn_blocking(work).await.map_err(|error| PackagesError::Worker(error.to_string()))?
    }

    /// InRelease; where there is none, Release and Release.gpg. From the cache when it is still the same there, or offline.
    async fn signed(
        self,
        folder: &FileCandidate,
        remembered: &mut Remembered,
        revalidate: bool,
    ) -> Result<Signed, PackagesError> {
        let in_release = self.candidate(folder, "InRelease");
        let kept = self.kept(&folder.url, remembered);
        if self.http.is_offline() {
            let what = format!("{} of {}", self.suite.suite, folder.url);
            return kept.ok_or_else(|| self.failed(TransportError::NotCached { what }));
        }
        let known = match &kept {
            Some(kept) if revalidate && kept.signature.is_none() => remembered.validators.clone(),
            _ => Validators::default(),
        };
        let answer = self.http.get_if_changed(&in_release, RELEASE_LIMIT, &known).await;
        match (answer, kept) {
            (Ok(Answer::Same), Some(kept)) => Ok(kept),
            // Nothing was shown that it could be the same as.
            (Ok(Answer::Same), None) => {
                let reason = "304 without a condition".to_owned();
                Err(self.failed(TransportError::Down { origin: in_release.url, reason }))
            }
            (Ok(Answer::Fresh { body, validators }), _) => {
                remembered.validators = validators;
                Ok(Signed { url: in_release.url, text: body, signature: None })
            }
            (Err(TransportError::Missing { .. }), _) => {
                remembered.validators = Validators::default();
                self.detached(folder).await
            }
            (Err(error), _) => Err(self.failed(error)),
        }
    }

    async fn detached(self, folder: &FileCandidate) -> Result<Signed, PackagesError> {
        let url = below(&folder.url, "Release");
        let get = |name| async move { self.http.get_small(&self.candidate(folder, name), RELEASE_LIMIT).await };
        let text = get("Release").await.map_err(|e| self.failed(e))?;
        let signature = match get("Release.gpg").await {
            Ok(signature) => Some(signature),
            Err(TransportError::Missing { .. }) if matches!(self.suite.trust, Trust::PinnedOnly) => None,
            Err(TransportError::Missing { .. }) => {
                let repository = self.suite.suite.clone();
                return Err(match folder.is_local() {
                    true => PackagesError::UnsignedMedium { repository, url },
                    false => PackagesError::Unsigned { repository, url },
                });
            }
            Err(error) => return Err(self.failed(error)),
        };
        Ok(Signed { url, text, signature })
    }

    fn kept(self, folder: &str, remembered: &Remembered) -> Option<Signed> {
        let (text, signature) = remembered.kept(self.store, (RELEASE_LIMIT, RELEASE_LIMIT))?;
        let name = if signature.is_some() { "Release" } else { "InRelease" };
        Some(Signed { url: format!("{folder}/{name}"), text, signature })
    }
}

fn trusted(signed: &Signed, trust: &Trust, repository: &str, now: i64) -> Result<String, PackagesError> {
    let untrusted =
        |source| PackagesError::Untrusted { repository: repository.to_owned(), url: signed.url.clone(), source };
    let policy = Policy::at(now);
    match (trust, &signed.signature) {
        (Trust::Signed(keyring), None) => {
            trust::clearsigned(&signed.text, keyring, &policy).map(|(text, _)| text).map_err(untrusted)
        }
        (Trust::Signed(keyring), Some(signature)) => {
            trust::detached(&signed.text, signature, keyring, &policy).map_err(untrusted)?;
            utf8(signed, repository)
        }
        // An InRelease of a repository whose keys nobody has: what it wraps is as good as a Release.
        (Trust::PinnedOnly, _) => Ok(unwrapped(&utf8(signed, repository)?)),
    }
}

fn utf8(signed: &Signed, repository: &str) -> Result<String, PackagesError> {
    String::from_utf8(signed.text.clone()).map_err(|_| PackagesError::Release {
        repository: repository.to_owned(),
        url: signed.url.clone(),
        source: ControlError::Field { subject: "it".into(), field: "Release", problem: "is not UTF-8".into() }.into(),
    })
}

/// The text within a clear signature (RFC 9580, 7) without checking it; any other text unchanged.
fn unwrapped(text: &str) -> String {
    let Some((_, behind)) = text.split_once("-----BEGIN PGP SIGNED MESSAGE-----") else { return text.to_owned() };
    let body = behind.split_once("\n\n").map_or(behind, |(_, body)| body);
    let body = body.split("-----BEGIN PGP SIGNATURE-----").next().unwrap_or(body);
    body.lines().map(|line| format!("{}\n", line.strip_prefix("- ").unwrap_or(line))).collect()
}
