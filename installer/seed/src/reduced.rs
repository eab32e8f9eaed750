//! Indexes of which entries are left out: each is made and kept once, however many images have it, and all within a limit. The lock
//! may name one index of megabytes ten thousand times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubexm_spec::Digest;

use crate::document::{self, Document};
use crate::error::SeedError;

/// Of all that are made, in bytes: those of two thousand images have some ten MiB.
const BYTES: usize = 512 << 20;

/// What was made, by the index and the entries that stay.
#[derive(Debug)]
pub struct Reduced {
    made: BTreeMap<(Digest, BTreeSet<Digest>), Arc<Document>>,
    bytes: usize,
}

impl Default for Reduced {
    fn default() -> Self {
        Self::within(BYTES)
    }
}

impl Reduced {
    const fn within(bytes: usize) -> Self {
        Self { made: BTreeMap::new(), bytes }
    }

    /// An index with only the entries of these digests; `what` names it in messages.
    pub fn index(&mut self, index: &Document, kept: BTreeSet<Digest>, what: &str) -> Result<Arc<Document>, SeedError> {
        let key = (index.digest, kept);
        if let Some(made) = self.made.get(&key) {
            return Ok(Arc::clone(made));
        }
        // What is left out is read as well.
        self.take(index.bytes.len(), what)?;
        let made = Arc::new(document::with_entries(index, |digest| key.1.contains(digest), what)?);
        self.take(made.bytes.len(), what)?;
        self.made.insert(key, Arc::clone(&made));
        Ok(made)
    }

    fn take(&mut self, bytes: usize, what: &str) -> Result<(), SeedError> {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.ok_or_else(|| SeedError::Document {
            what: what.to_owned(),
            problem: format!(
                "its index and those of images before it, of which entries are left out, have more than {} MiB, which no \
                 bundle needs",
                BYTES >> 20
            ),
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn an_index_with_fewer_entries_is_made_once_for_all_images_and_others_are_counted() {
        let (one, two) = (Digest::of("1"), Digest::of("2"));
        let text = format!(r#"{{"manifests":[{{"digest":"{one}","size":1}},{{"digest":"{two}","size":1}}]}}"#);
        let index = document::parse(Bytes::from(text), "x").unwrap().document;
        let mut reduced = Reduced::within(2 * index.bytes.len());
        let first = reduced.index(&index, [one].into(), "image a").unwrap();
        assert!(Arc::ptr_eq(&first, &reduced.index(&index, [one].into(), "image b").unwrap()));
        assert!(first.bytes.len() < index.bytes.len());
        let error = reduced.index(&index, [two].into(), "image c").unwrap_err().to_string();
        assert!(error.contains("image c") && error.contains("more than 512 MiB"), "{error}");
    }
}
