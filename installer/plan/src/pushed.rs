//! What kubexm has put into a registry of a host beside the depot, by the host's ledger, and has not deleted from it since.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_spec::Digest;
use kubexm_spec::depot::Repository;

use crate::kind::OpKind;
use crate::ledger::{Outcome, Record, not_rolled_back};
use crate::observed_state::{ObservedState, StateError};
use crate::op::{HarborImages, MissingImages, Op, RegistryLayout};

/// What kubexm has put into a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// By the names of repositories in the registry.
    pub repositories: BTreeMap<String, PushedContent>,
    /// All of the last step that was not rolled back, by repository, whatever of it was there before, if no host was stamped after it: what
    /// the cluster is about to have.
    pub newest: Content,
}

/// Digests by repository.
pub type Content = BTreeMap<String, BTreeSet<Digest>>;

/// What it has put into one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushedContent {
    /// Manifests that were not there before.
    pub manifests: BTreeSet<Digest>,
    /// Configs and layers that were not there before; none are known of Harbor.
    pub blobs: BTreeSet<Digest>,
    /// What tags were made to name, one after the other.
    pub tags: BTreeMap<String, Vec<Digest>>,
}

impl PushedContent {
    /// The tags that were given to a manifest.
    pub fn tags_of(&self, manifest: &Digest) -> BTreeSet<String> {
        let tags = self.tags.iter().filter(|(_, named)| named.contains(manifest));
        tags.map(|(tag, _)| tag.clone()).collect()
    }

    fn tag(&mut self, tag: &str, manifest: Digest) {
        self.tags.entry(tag.to_owned()).or_default().push(manifest);
    }

    fn forget(&mut self, manifests: &BTreeSet<Digest>, blobs: &BTreeSet<Digest>) {
        self.manifests.retain(|digest| !manifests.contains(digest));
        self.blobs.retain(|digest| !blobs.contains(digest));
        self.tags.values_mut().for_each(|named| named.retain(|digest| !manifests.contains(digest)));
        self.tags.retain(|_, named| !named.is_empty());
    }
}

/// What was written to the storage of the distribution registry in this folder. Also what was rolled back since; not what was there.
pub fn laid_out(ledger: &[Record], data_dir: &str) -> Pushed {
    let mut all = Pushed::default();
    for (record, op, before) in ops(ledger) {
        match op {
            Op::RegistryLayout(op) if op.data_dir == data_dir => {
                let before = found::<RegistryLayout>(before);
                let made = |path: &str| {
                    before.as_ref().is_none_or(|before| before.as_ref().is_some_and(|found| found.has(path)))
                };
                for (name, repository) in &op.repositories {
                    let content = all.repositories.entry(name.clone()).or_default();
                    let manifests = repository.manifests.iter().copied();
                    content.manifests.extend(
                        manifests.filter(|digest| made(&RegistryLayout::manifest_link(data_dir, name, digest))),
                    );
                    let blobs = repository.blobs.iter().copied();
                    content
                        .blobs
                        .extend(blobs.filter(|digest| made(&RegistryLayout::blob_link(data_dir, name, digest))));
                    repository.tags.iter().for_each(|(tag, digest)| content.tag(tag, *digest));
                }
            }
            Op::RegistryBlobsRemoved(op) if op.data_dir == data_dir && record.outcome == Outcome::Done => {
                for (name, gone) in &op.repositories {
                    let content = all.repositories.get_mut(name);
                    content.into_iter().for_each(|content| content.forget(&gone.manifests, &gone.blobs));
                }
            }
            _ => {}
        }
    }
    let of = |op: &Op| match op {
        Op::RegistryLayout(op) => {
            let all = |one: &Repository| one.manifests.iter().chain(&one.blobs).copied().collect();
            Some(op.repositories.iter().map(|(name, one)| (name.clone(), all(one))).collect())
        }
        _ => None,
    };
    Pushed { newest: newest(ledger, of), ..all }
}

/// What was pushed to Harbor. Also what was rolled back since: it stays with Harbor's data; not what was there.
pub fn in_harbor(ledger: &[Record]) -> Pushed {
    let mut all = Pushed::default();
    for (record, op, before) in ops(ledger) {
        match op {
            Op::HarborImages(op) => {
                let before = found::<HarborImages>(before);
                for (reference, image) in &op.images {
                    let content = all.repositories.entry(image.repository.clone()).or_default();
                    image.tag.iter().for_each(|tag| content.tag(tag, image.manifest));
                    let lacked = before.as_ref().is_none_or(|before| match before {
                        Some(MissingImages::Known { missing, other }) => {
                            missing.contains(reference) || other.contains(reference)
                        }
                        Some(MissingImages::Unknown) | None => false,
                    });
                    content.manifests.extend(lacked.then_some(image.manifest));
                }
            }
            Op::HarborImagesRemoved(op) if record.outcome == Outcome::Done => {
                for (name, gone) in &op.repositories {
                    let content = all.repositories.get_mut(name);
                    let manifests = gone.images.keys().copied().collect();
                    content.into_iter().for_each(|content| content.forget(&manifests, &BTreeSet::new()));
                }
            }
            _ => {}
        }
    }
    let of = |op: &Op| match op {
        Op::HarborImages(op) => {
            let mut all = Content::new();
            for image in op.images.values() {
                all.entry(image.repository.clone()).or_default().insert(image.manifest);
            }
            Some(all)
        }
        _ => None,
    };
    Pushed { newest: newest(ledger, of), ..all }
}

fn ops(ledger: &[Record]) -> impl Iterator<Item = (&Record, &Op, Option<&ObservedState>)> {
    ledger.iter().flat_map(|record| {
        let Record { ops, before, .. } = record;
        ops.iter().enumerate().map(move |(at, op)| (record, op, before.get(at)))
    })
}

/// What a step found before its change: none where it is not in this format at all (a simulated host's), and nothing in it where only a newer
/// program can read it, so that nothing counts as ours.
fn found<K: OpKind>(before: Option<&ObservedState>) -> Option<Option<K::State>> {
    match before?.state::<K>() {
        Ok(state) => Some(Some(state)),
        Err(StateError::Newer { .. }) => Some(None),
        Err(StateError::Unreadable(_)) => None,
    }
}

/// What the last such step brought. A stamp after it names the bundle that the host has since, and the record of that says what it needs.
fn newest(ledger: &[Record], of: impl Fn(&Op) -> Option<Content>) -> Content {
    let mut newest = Content::new();
    for record in not_rolled_back(ledger.iter()) {
        for op in &record.ops {
            match op {
                Op::Stamp(_) if record.outcome == Outcome::Done => newest.clear(),
                op => newest = of(op).unwrap_or(newest),
            }
        }
    }
    newest
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::ledger::SCHEMA;
    use crate::op::{
        HarborAccess, HarborImage, HarborImagesRemoved, LayoutDifference, RegistryBlobsRemoved, RemovedContent,
        RemovedImages, Stamp,
    };
    use crate::{StepId, Undo};

    fn record(op: impl Into<Op>, before: Option<ObservedState>, outcome: Outcome) -> Record {
        Record {
            schema: SCHEMA,
            run: "run".to_owned(),
            sequence: 1,
            step: StepId("store/step".to_owned()),
            ops: vec![op.into()],
            undo: Undo::RestoreBefore,
            before: before.into_iter().collect(),
            outcome,
        }
    }

    /// A layout of one image where these paths were missing.
    fn layout(folder: &str, content: &str, missing: &[&str]) -> Record {
        let repository = Repository {
            tags: [("1".to_owned(), Digest::of(content))].into(),
            manifests: [Digest::of(content)].into(),
            blobs: [Digest::of("shared layer")].into(),
        };
        let missing = missing.iter().map(|path| (*path).to_owned()).collect();
        let before = ObservedState::new::<RegistryLayout>(&LayoutDifference { missing, changed: Vec::new() }, false);
        let op = RegistryLayout { data_dir: folder.to_owned(), repositories: [("a".to_owned(), repository)].into() };
        record(op, Some(before.unwrap()), Outcome::Done)
    }

    #[test]
    fn what_was_laid_out_is_there_until_its_blobs_were_deleted_and_again_when_it_was_laid_out_once_more() {
        let removed = |outcome| {
            let gone = RemovedContent { manifests: [Digest::of("one")].into(), ..RemovedContent::default() };
            let op = RegistryBlobsRemoved { data_dir: "/r".to_owned(), repositories: [("a".to_owned(), gone)].into() };
            record(op, None, outcome)
        };
        let add = |content| layout("/r", content, &["/r/docker"]);
        let manifests = |ledger: &[Record]| laid_out(ledger, "/r").repositories["a"].manifests.clone();
        let (one, two) = (Digest::of("one"), Digest::of("two"));
        let elsewhere = layout("/other", "elsewhere", &["/other/docker"]);
        assert_eq!(manifests(&[add("one"), elsewhere, add("two")]), [one, two].into());
        assert_eq!(
            manifests(&[add("one"), add("two"), removed(Outcome::Begun)]),
            [one, two].into(),
            "it may have failed"
        );
        let ledger = [add("one"), add("two"), removed(Outcome::Done)];
        let found = laid_out(&ledger, "/r");
        assert_eq!(found.repositories["a"].manifests, [two].into());
        assert_eq!(found.repositories["a"].blobs, [Digest::of("shared layer")].into());
        assert_eq!(found.repositories["a"].tags["1"], [two]);
        assert_eq!(found.newest["a"], [two, Digest::of("shared layer")].into());
        // A bundle of which all was there has laid out nothing, and its stamp says that it is the one.
        let stamp = Stamp { cluster: "demo".to_owned(), id: None, bundle: None, adopted: false };
        let stamped = [ledger.to_vec(), vec![record(stamp, None, Outcome::Done)]].concat();
        assert!(laid_out(&stamped, "/r").newest.is_empty());
        assert_eq!(manifests(&[add("one"), removed(Outcome::Done), add("one")]), [one].into());
    }

    #[test]
    fn what_was_in_the_registry_before_is_not_ours() {
        let theirs = RegistryLayout::manifest_link("/r", "a", &Digest::of("one"));
        let found = laid_out(
            &[layout("/r", "one", &[&RegistryLayout::blob_link("/r", "a", &Digest::of("shared layer"))])],
            "/r",
        );
        assert_eq!(found.repositories["a"].manifests, BTreeSet::new());
        assert_eq!(found.repositories["a"].blobs, [Digest::of("shared layer")].into());
        let found = laid_out(&[layout("/r", "one", &[&theirs])], "/r");
        assert_eq!(found.repositories["a"].manifests, [Digest::of("one")].into());
    }

    #[test]
    fn what_was_pushed_to_harbor_is_known_with_every_tag_that_it_was_given() {
        let harbor =
            HarborAccess { registry: "r".to_owned(), ca: "/ca".to_owned(), admin_password: "/password".to_owned() };
        let push = |tag: Option<&str>, content: &str, before: MissingImages| {
            let image = HarborImage {
                repository: "p/a".to_owned(),
                tag: tag.map(str::to_owned),
                manifest: Digest::of(content),
                blobs: BTreeSet::new(),
            };
            let op = HarborImages { harbor: harbor.clone(), images: [("p/a".to_owned(), image)].into() };
            record(op, Some(ObservedState::new::<HarborImages>(&before, false).unwrap()), Outcome::Restored)
        };
        let lacked = || MissingImages::Known { missing: ["p/a".to_owned()].into(), other: BTreeSet::new() };
        let had = MissingImages::Known { missing: BTreeSet::new(), other: BTreeSet::new() };
        let ledger = vec![
            push(Some("1"), "one", lacked()),
            push(Some("latest"), "one", lacked()),
            push(None, "two", lacked()),
            push(Some("1"), "theirs", had),
            push(Some("1"), "not asked", MissingImages::Unknown),
        ];
        let all = in_harbor(&ledger);
        assert_eq!(all.repositories["p/a"].manifests, ["one", "two"].map(Digest::of).into());
        assert_eq!(all.repositories["p/a"].tags_of(&Digest::of("one")), ["1", "latest"].map(str::to_owned).into());
        assert!(all.newest.is_empty(), "each was rolled back");
        let gone = RemovedImages { images: [(Digest::of("one"), BTreeSet::new())].into(), ..RemovedImages::default() };
        let removed = HarborImagesRemoved { harbor: harbor.clone(), repositories: [("p/a".to_owned(), gone)].into() };
        let all = in_harbor(&[ledger, vec![record(removed, None, Outcome::Done)]].concat());
        assert_eq!(all.repositories["p/a"].manifests, [Digest::of("two")].into());
    }
}
