//! What a name is at one registry, without fetching it: for those who compare, and for those who look for holes.

use kubexm_spec::Digest;
use reqwest::Method;

use super::client::{failed, host, named};
use super::{ImageCandidate, OciRegistry, image};
use crate::TransportError;
use crate::schedule::RetryPolicy;

impl OciRegistry {
    /// The digest of what a tag (or `sha256:…`) points at, by a HEAD of its manifest; the manifest is read where a registry
    /// tells none. Only this candidate is asked, and what `registries.conf` makes of it.
    pub async fn digest_of(&self, candidate: &ImageCandidate, asked: &str) -> Result<Digest, TransportError> {
        let mut tried = Vec::new();
        for one in self.expand(std::slice::from_ref(candidate), asked) {
            let found = match one {
                Ok(one) => self.digest_at(&one, asked).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(digest) => return Ok(digest),
                Err(error) => tried.push(error),
            }
        }
        match tried.len() {
            1 => Err(tried.remove(0)),
            _ => Err(failed(format!("{}:{asked}", candidate.place()), tried)),
        }
    }

    async fn digest_at(&self, candidate: &ImageCandidate, asked: &str) -> Result<Digest, TransportError> {
        let reference = named(candidate, asked)?;
        if self.http.is_offline() {
            return Err(TransportError::NotCached { what: reference.whole() });
        }
        let once = self.http.clients().schedule.host(&host(candidate)).is_down();
        let retry_policy = RetryPolicy { once, others: false };
        let session = self.session(candidate).await?;
        let url = session.url(&reference, &format!("manifests/{asked}"))?;
        let accept = image::MANIFEST_TYPES.join(", ");
        match session.document(&reference, url, Method::HEAD, &accept, retry_policy).await {
            Ok((Some(digest), _)) => return Ok(digest),
            // Of these, some want a GET.
            Ok((None, _)) | Err(TransportError::Denied { .. } | TransportError::Unusable { .. }) => {}
            Err(error) => return Err(error),
        }
        // What answers everything, a login page say, tells no digest either.
        let bytes = session.manifest(&reference, retry_policy).await?;
        image::parse(&bytes).map_err(|problem| TransportError::Image { reference: reference.whole(), problem })?;
        Ok(Digest::of(&bytes))
    }
}
