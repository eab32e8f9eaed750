//! The manifest of a tag, of anything that is no image: charts.

use super::{ImageCandidate, OciRegistry, RawManifest};
use crate::TransportError;

impl OciRegistry {
    /// What `read` makes of the manifest that a tag names, from the first candidate whose manifest it takes. `read` gets
    /// `registry/repository` too. As with images, mirrors of `registries.conf` are asked first, and nothing that it blocks.
    ///
    /// # Errors
    /// What every candidate did; empty where there was none.
    pub async fn tagged<T>(
        &self,
        candidates: &[ImageCandidate],
        tag: &str,
        read: impl Fn(&str, RawManifest) -> Result<T, TransportError>,
    ) -> Result<T, Vec<TransportError>> {
        let read = &read;
        self.first(candidates, tag, |candidate, _| async move {
            let place = format!("{}/{}", candidate.registry, candidate.repository);
            let missing =
                || TransportError::Missing { origin: format!("oci://{place}:{tag}"), reason: "no such tag".to_owned() };
            let found = self.repository(&candidate, &[]).await?.manifest(tag).await?;
            read(&place, found.ok_or_else(missing)?)
        })
        .await
    }
}
