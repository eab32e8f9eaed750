//! What the depot of a simulated host has, by its files and blobs.

use std::collections::BTreeMap;

use kubexm_plan::Op;
use kubexm_plan::depot::{self, DepotContent, RecordedBundle};
use kubexm_spec::Digest;
use kubexm_spec::depot::DepotConfig;

use super::world::World;

impl World {
    pub(super) fn depot(&self, host: &str) -> Result<DepotContent, String> {
        let here = self.host(host)?;
        let mut sizes: BTreeMap<Digest, u64> = BTreeMap::new();
        for op in here.ledger.iter().flat_map(|record| &record.ops) {
            if let Op::Blobs(blobs) = op {
                sizes.extend(&blobs.blobs);
            }
        }
        let present = sizes.into_iter().filter(|(digest, _)| self.has_blob(host, digest));
        let mut content = DepotContent { blobs: present.collect(), ..DepotContent::default() };
        // `file 0644 sha256:…`
        for (path, value) in here.with_prefix("path:") {
            let Some(text) = value.rsplit(' ').next().and_then(|digest| self.texts.get(digest)) else { continue };
            let read = || serde_json::from_str::<DepotConfig>(text).map_err(|error| format!("{path}: {error}"));
            if path == depot::CONFIG {
                content.config = Some(read()?);
            }
            let record =
                path.strip_prefix(depot::BUNDLES).and_then(|name| name.strip_prefix('/')?.strip_suffix(depot::RECORD));
            if let Some(name) = record {
                let bundle = RecordedBundle { digest: Digest::of(text), written: 0, content: read()? };
                content.bundles.insert(name.to_owned(), bundle);
            }
        }
        Ok(content)
    }
}
