//! The lock in a bundle: YAML, and not the JSON of a lock file.

use kubexm_spec::Lock;
use kubexm_spec::lock::Content;

/// The most YAML values in a lock: each item has about twenty, a large image about a hundred. That is 100,000 packages.
const NODES: usize = 4_000_000;
/// Of an image's reference, in bytes: as of a name in manifest.json. What is said of each thing that is attached to an image repeats it.
const REFERENCE: usize = 1024;
/// Of a tag (distribution-spec, pulling manifests).
const TAG: usize = 128;

/// Reads the member `lock.yaml`. Its depth and number of values are limited, since a bundle may be unsigned; the caller has held its
/// size against [`crate::DOCUMENT_LIMIT`]. Aliases, which no lock that we write has, are refused: each would be a copy. So is
/// what has something twice: what one reader judges must be what another takes. And what has a reference or a tag that is longer
/// than one can be.
///
/// # Errors
/// What is wrong with it, for people.
pub fn read_lock(text: &[u8]) -> Result<Lock, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let budget = serde_saphyr::budget! { max_nodes: NODES, max_events: 4 * NODES, max_documents: 1, max_depth: 64 };
    let options = serde_saphyr::options! {
        budget: budget,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 0 },
    };
    let lock: Lock = serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    if let Some(item) = lock.twice() {
        return Err(format!("{item} is in it twice"));
    }
    match too_long(&lock) {
        None => Ok(lock),
        Some(problem) => Err(problem),
    }
}

/// The first reference or tag that is no registry's.
fn too_long(lock: &Lock) -> Option<String> {
    lock.items.iter().find_map(|item| {
        let Content::Image { reference, referrers, .. } = &item.content else { return None };
        let tags = referrers.iter().filter_map(|one| one.tag.as_ref()).map(|tag| ("tag", tag, TAG));
        let mut all = std::iter::once(("reference", reference, REFERENCE)).chain(tags);
        let (what, text, most) = all.find(|(_, text, most)| text.len() > *most)?;
        Some(format!("{}: a {what} has {} bytes, and the most is {most}", item.name(), text.len()))
    })
}

#[cfg(test)]
mod tests {
    use kubexm_spec::lock::SCHEMA;

    use super::*;

    fn head() -> String {
        format!("schema: {SCHEMA}\nname: a\nitems:\n")
    }

    fn item(number: usize, version: &str) -> String {
        let digest = "0".repeat(64);
        format!(
            "- key: file/a{number}\n  version: {version}\n  trust: user\n  type: file\n  fileName: a{number}\n  digest: \
             sha256:{digest}\n  size: 1\n"
        )
    }

    #[test]
    fn a_lock_of_more_values_than_the_reader_takes_by_default_is_read() {
        // 20,000 items of eight values and their keys: above the 250,000 nodes that the crate allows.
        let large = head() + &(0..20_000).map(|at| item(at, "'1'")).collect::<String>();
        assert_eq!(read_lock(large.as_bytes()).unwrap().items.len(), 20_000);
    }

    #[test]
    fn what_is_in_it_twice_is_refused() {
        // A reader that looks one up would judge the first, and one that goes through all would take both.
        let twice = head() + &item(1, "'1'") + &item(2, "'1'") + &item(1, "'2'");
        assert_eq!(read_lock(twice.as_bytes()).unwrap_err(), "file/a1 is in it twice");
        let rendering = format!(
            "- key: chart/a\n  source: sha256:{0}\n  valuesDigest: sha256:{0}\n  namespace: a\n  images: []\n",
            "0".repeat(64)
        );
        let with = |renderings: &str| head() + &item(1, "'1'") + "renderings:\n" + renderings;
        assert_eq!(read_lock(with(&rendering).as_bytes()).unwrap().renderings.len(), 1);
        assert_eq!(
            read_lock(with(&rendering.repeat(2)).as_bytes()).unwrap_err(),
            "the rendering of chart/a is in it twice"
        );
        let set = "- os: debian-12\n  platform: linux/amd64\n  roots: []\n  indexes: []\n  date: 1\n  because: {}\n";
        let with = |packages: &str| head() + &item(1, "'1'") + "packages:\n" + packages;
        assert_eq!(read_lock(with(set).as_bytes()).unwrap().packages.len(), 1);
        assert_eq!(
            read_lock(with(&set.repeat(2)).as_bytes()).unwrap_err(),
            "packages of debian-12 linux/amd64 is in it twice"
        );
    }

    /// `verify` says something of each thing that is attached, and names the image: 60 MiB of lock would be terabytes of text.
    #[test]
    fn an_image_whose_name_or_tag_is_longer_than_one_can_be_is_refused() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let descriptor = format!("{{mediaType: a, digest: '{digest}', size: 1}}");
        let with = |reference: usize, tag: usize| {
            let (reference, tag) = ("r".repeat(reference), "t".repeat(tag));
            let image = format!(
                "- key: extra-image/z\n  version: ''\n  platform: linux/amd64\n  trust: user\n  type: image\n  reference: \
                 {reference}\n  target: {descriptor}\n  manifest: {descriptor}\n  blobs: []\n  referrers:\n  - subject: \
                 {digest}\n    tag: {tag}\n    manifest: {descriptor}\n    blobs: []\n"
            );
            read_lock((head() + &image).as_bytes()).map(|lock| lock.items.len())
        };
        assert_eq!(with(1024, 128), Ok(1));
        let error = |what: &str| Err(format!("extra-image/z linux/amd64: a {what}"));
        assert_eq!(with(1025, 128), error("reference has 1025 bytes, and the most is 1024"));
        assert_eq!(with(1024, 129), error("tag has 129 bytes, and the most is 128"));
    }

    #[test]
    fn an_alias_is_refused() {
        let lock = head() + &item(1, "&v one") + &item(2, "*v");
        let error = read_lock(lock.as_bytes()).unwrap_err();
        assert!(error.contains("alias") || error.contains("replayed"), "{error}");
        assert_eq!(read_lock((head() + &item(1, "&v one")).as_bytes()).unwrap().items.len(), 1);
    }
}
