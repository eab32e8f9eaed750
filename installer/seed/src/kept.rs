//! The documents of a bundle that are in memory: each once, however many names have it, and all within limits. The bundle may be
//! unsigned, and its lock may name one document ten thousand times.

use std::collections::BTreeMap;

use kubexm_spec::Digest;

use crate::document::Parsed;
use crate::error::SeedError;

/// Of all documents and of what charts have as config, in bytes: those of two thousand images have some hundred MiB.
const BYTES: usize = 512 << 20;
/// What documents name, counted for each image that has them: it is planned for each. Two thousand images of ten platforms with ten
/// layers each name some 400,000.
const LINKS: usize = 4_000_000;

/// Documents by digest, and what may still be kept.
#[derive(Debug)]
pub(crate) struct Kept {
    documents: BTreeMap<Digest, Parsed>,
    bytes: usize,
    links: usize,
}

impl Default for Kept {
    fn default() -> Self {
        Self::within(BYTES, LINKS)
    }
}

impl Kept {
    const fn within(bytes: usize, links: usize) -> Self {
        Self { documents: BTreeMap::new(), bytes, links }
    }

    /// A document for one more image; `read` is asked the first time.
    pub(crate) fn document(
        &mut self,
        digest: Digest,
        what: &str,
        read: impl FnOnce() -> Result<Parsed, SeedError>,
    ) -> Result<Parsed, SeedError> {
        let parsed = match self.documents.get(&digest) {
            Some(parsed) => parsed.clone(),
            None => {
                let parsed = read()?;
                self.bytes(parsed.document.bytes.len(), what)?;
                self.documents.insert(digest, parsed.clone());
                parsed
            }
        };
        let left = self.links.checked_sub(1 + parsed.links.count());
        self.links = left.ok_or_else(|| too_many(what, format!("name more than {LINKS} others")))?;
        Ok(parsed)
    }

    /// Counts bytes that are kept.
    pub(crate) fn bytes(&mut self, bytes: usize, what: &str) -> Result<(), SeedError> {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.ok_or_else(|| too_many(what, format!("have more than {} MiB", BYTES >> 20)))?;
        Ok(())
    }
}

fn too_many(what: &str, found: String) -> SeedError {
    let problem = format!("its documents and those of what the lock names before it {found}, which no bundle needs");
    SeedError::Document { what: what.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::document;

    fn index() -> Parsed {
        let entry = format!(r#"{{"digest":"{}","size":1}}"#, Digest::of("x"));
        let text = format!(r#"{{"manifests":[{entry},{entry},{entry}]}}"#);
        document::parse(Bytes::from(text), "x").unwrap()
    }

    #[test]
    fn a_document_is_read_and_kept_once_for_all_names_that_have_it() {
        let (parsed, mut reads) = (index(), 0);
        let digest = parsed.document.digest;
        let mut kept = Kept::within(parsed.document.bytes.len(), 40);
        let mut all = Vec::new();
        for number in 0..10 {
            let read = || {
                reads += 1;
                Ok(index())
            };
            all.push(kept.document(digest, &format!("image {number}"), read).unwrap());
        }
        assert_eq!(reads, 1);
        assert!(all.iter().all(|one| std::sync::Arc::ptr_eq(&one.document, &all[0].document)));
        let more = kept.document(digest, "image 10", || Ok(index())).unwrap_err().to_string();
        assert!(more.contains("image 10") && more.contains("name more than"), "{more}");
    }

    #[test]
    fn documents_beyond_the_memory_they_may_take_are_refused_by_name() {
        let parsed = index();
        let mut kept = Kept::within(parsed.document.bytes.len() - 1, 40);
        let more = kept.document(parsed.document.digest, "image a", || Ok(index())).unwrap_err().to_string();
        assert!(more.contains("image a") && more.contains("have more than 512 MiB"), "{more}");
    }
}
