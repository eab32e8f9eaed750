//! What kubexm has put into a registry of a host beside the depot, by the host's ledger, and has not deleted from it since.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_spec::Digest;

use crate::ledger::{Outcome, Record};
use crate::op::{Op, RemovedContent};

/// Images in Harbor: by repository, the manifests with the tags that they were given.
pub type HarborContent = BTreeMap<String, BTreeMap<Digest, BTreeSet<String>>>;

/// What was written to the storage of the distribution registry in this folder, by repository. Also what was rolled back since.
pub fn laid_out(ledger: &[Record], data_dir: &str) -> BTreeMap<String, RemovedContent> {
    let mut all: BTreeMap<String, RemovedContent> = BTreeMap::new();
    for (record, op) in ops(ledger) {
        match op {
            Op::RegistryLayout(op) if op.data_dir == data_dir => {
                for (name, repository) in &op.repositories {
                    let content = all.entry(name.clone()).or_default();
                    content.manifests.extend(&repository.manifests);
                    content.blobs.extend(&repository.blobs);
                }
            }
            Op::RegistryBlobsRemoved(op) if op.data_dir == data_dir && record.outcome == Outcome::Done => {
                for (name, gone) in &op.repositories {
                    let Some(content) = all.get_mut(name) else { continue };
                    content.manifests.retain(|digest| !gone.manifests.contains(digest));
                    content.blobs.retain(|digest| !gone.blobs.contains(digest));
                }
            }
            _ => {}
        }
    }
    all
}

/// What was pushed to Harbor. Also what was rolled back since: it stays with Harbor's data.
pub fn in_harbor(ledger: &[Record]) -> HarborContent {
    let mut all = HarborContent::new();
    for (record, op) in ops(ledger) {
        match op {
            Op::HarborImages(op) => {
                for image in op.images.values() {
                    let manifests = all.entry(image.repository.clone()).or_default();
                    manifests.entry(image.manifest).or_default().extend(image.tag.clone());
                }
            }
            Op::HarborImagesRemoved(op) if record.outcome == Outcome::Done => {
                for (name, gone) in &op.repositories {
                    let Some(manifests) = all.get_mut(name) else { continue };
                    manifests.retain(|manifest, _| !gone.contains_key(manifest));
                }
            }
            _ => {}
        }
    }
    all
}

fn ops(ledger: &[Record]) -> impl Iterator<Item = (&Record, &Op)> {
    ledger.iter().flat_map(|record| record.ops.iter().map(move |op| (record, op)))
}

#[cfg(test)]
mod tests {
    use kubexm_spec::depot::Repository;

    use super::*;
    use crate::ledger::SCHEMA;
    use crate::op::{
        HarborAccess, HarborImage, HarborImages, HarborImagesRemoved, RegistryBlobsRemoved, RegistryLayout,
    };
    use crate::{StepId, Undo};

    fn record(op: impl Into<Op>, outcome: Outcome) -> Record {
        Record {
            schema: SCHEMA,
            run: "run".to_owned(),
            sequence: 1,
            step: StepId("store/step".to_owned()),
            ops: vec![op.into()],
            undo: Undo::RestoreBefore,
            before: Vec::new(),
            outcome,
        }
    }

    fn layout(folder: &str, content: &str) -> RegistryLayout {
        let repository = Repository {
            tags: [("1".to_owned(), Digest::of(content))].into(),
            manifests: [Digest::of(content)].into(),
            blobs: [Digest::of("shared layer")].into(),
        };
        RegistryLayout { data_dir: folder.to_owned(), repositories: [("a".to_owned(), repository)].into() }
    }

    #[test]
    fn what_was_laid_out_is_there_until_its_blobs_were_deleted_and_again_when_it_was_laid_out_once_more() {
        let removed = |outcome| {
            let gone = RemovedContent { manifests: [Digest::of("one")].into(), blobs: BTreeSet::new() };
            record(
                RegistryBlobsRemoved { data_dir: "/r".to_owned(), repositories: [("a".to_owned(), gone)].into() },
                outcome,
            )
        };
        let add = |content| record(layout("/r", content), Outcome::Done);
        let manifests = |ledger: &[Record]| laid_out(ledger, "/r")["a"].manifests.clone();
        let (one, two) = (Digest::of("one"), Digest::of("two"));
        let elsewhere = record(layout("/other", "elsewhere"), Outcome::Done);
        assert_eq!(manifests(&[add("one"), elsewhere, add("two")]), [one, two].into());
        assert_eq!(
            manifests(&[add("one"), add("two"), removed(Outcome::Begun)]),
            [one, two].into(),
            "it may have failed"
        );
        let ledger = [add("one"), add("two"), removed(Outcome::Done)];
        assert_eq!(manifests(&ledger), [two].into());
        assert_eq!(laid_out(&ledger, "/r")["a"].blobs, [Digest::of("shared layer")].into());
        assert_eq!(manifests(&[add("one"), removed(Outcome::Done), add("one")]), [one].into());
    }

    #[test]
    fn what_was_pushed_to_harbor_is_known_with_every_tag_that_it_was_given() {
        let harbor =
            HarborAccess { registry: "r".to_owned(), ca: "/ca".to_owned(), admin_password: "/password".to_owned() };
        let push = |tag: Option<&str>, content: &str| {
            let image = HarborImage {
                repository: "p/a".to_owned(),
                tag: tag.map(str::to_owned),
                manifest: Digest::of(content),
                blobs: BTreeSet::new(),
            };
            let images = [("p/a".to_owned(), image)].into();
            record(HarborImages { harbor: harbor.clone(), images }, Outcome::Restored)
        };
        let ledger = [push(Some("1"), "one"), push(Some("latest"), "one"), push(None, "two")];
        let all = in_harbor(&ledger);
        assert_eq!(all["p/a"][&Digest::of("one")], ["1", "latest"].map(str::to_owned).into());
        assert_eq!(all["p/a"][&Digest::of("two")], BTreeSet::new());
        let gone = [("p/a".to_owned(), [(Digest::of("one"), BTreeSet::new())].into())].into();
        let removed = record(HarborImagesRemoved { harbor: harbor.clone(), repositories: gone }, Outcome::Done);
        let [one, latest, two] = ledger;
        assert_eq!(in_harbor(&[one, latest, two, removed])["p/a"].keys().collect::<Vec<_>>(), [&Digest::of("two")]);
    }
}
