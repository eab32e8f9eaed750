//! Manifests by digest, lists of referrers where the registry keeps none, and tags last: who pulls by a tag finds all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use futures::{StreamExt, TryStreamExt, stream};
use kubexm_spec::{Digest, json as json_text};
use kubexm_transport::Repository;
use kubexm_transport::oci::referrers_tag;
use serde_json::{Value, json};

use crate::connection::AT_ONCE;
use crate::document::{Document, INDEX, MANIFEST};
use crate::error::SeedError;
use crate::look::{RepositoryWork, Work};
use crate::plan::{RepositoryPlan, SeedPlan};
use crate::push::Counted;

/// Pushes what is missing in every repository, several of them at once.
pub async fn push(
    repositories: &BTreeMap<String, Repository>,
    plan: &SeedPlan,
    work: &Work,
    totals: &Counted,
) -> Result<(), SeedError> {
    stream::iter(&work.repositories)
        .map(|(name, missing)| async move {
            let wanted = plan.repositories.get(name);
            let wanted = wanted.ok_or_else(|| SeedError::Internal(format!("{name} is not in the plan")))?;
            let to = repositories.get(name);
            let to = to.ok_or_else(|| SeedError::Internal(format!("{name} was not opened")))?;
            repository(to, wanted, missing, totals).await
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await
}

async fn repository(
    to: &Repository,
    wanted: &RepositoryPlan,
    missing: &RepositoryWork,
    totals: &Counted,
) -> Result<(), SeedError> {
    let failed = |e| SeedError::registry("push to", to.place(), e);
    let mut unlisted: BTreeMap<Digest, Vec<(&Document, &str)>> = BTreeMap::new();
    let mut by_tag = by_tag_alone(wanted, missing);
    for planned in wanted.documents.iter().filter(|planned| missing.documents.contains(&planned.document.digest)) {
        let Document { digest, media_type, bytes } = &*planned.document;
        if by_tag.contains(digest) {
            continue;
        }
        let pushed = to.push_manifest(&digest.to_string(), media_type, bytes).await.map_err(failed)?;
        totals.manifests.fetch_add(1, Ordering::Relaxed);
        if let Some((subject, artifact_type)) = &planned.subject
            && !pushed.keeps_referrers
        {
            unlisted.entry(*subject).or_default().push((&planned.document, artifact_type));
        }
    }
    for (subject, referrers) in &unlisted {
        let tag = referrers_tag(subject);
        let known = to.manifest(&tag).await.map_err(failed)?.map(|raw| raw.bytes);
        let place = || format!("{}:{tag}", to.place());
        if let Some(index) = listed(known.as_deref(), referrers, place)? {
            to.push_manifest(&tag, INDEX, &index).await.map_err(failed)?;
        }
    }
    for (tag, digest) in &missing.tags {
        let planned = wanted.documents.iter().find(|planned| planned.document.digest == *digest);
        let planned = planned.ok_or_else(|| SeedError::Internal(format!("{tag} names what is not in the plan")))?;
        let Document { media_type, bytes, .. } = &*planned.document;
        to.push_manifest(tag, media_type, bytes).await.map_err(failed)?;
        totals.manifests.fetch_add(u64::from(by_tag.remove(digest)), Ordering::Relaxed);
        totals.tags.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Manifests that their tag brings: nothing in the repository needs them earlier, since they are in no index and refer to nothing.
fn by_tag_alone(wanted: &RepositoryPlan, missing: &RepositoryWork) -> BTreeSet<Digest> {
    let documents = || wanted.documents.iter();
    if documents().any(|planned| planned.document.media_type != MANIFEST) {
        return BTreeSet::new();
    }
    let tagged: BTreeSet<Digest> = missing.tags.values().copied().collect();
    let alone = documents().filter(|one| one.subject.is_none()).map(|one| one.document.digest);
    alone.filter(|digest| tagged.contains(digest) && missing.documents.contains(digest)).collect()
}

/// What a list of referrers may take as memory, in bytes: everybody who may push can add to one.
const LIST_MEMORY: usize = 64 << 20;

/// The list for the tag of the referrers tag schema (distribution-spec 1.1, "Pushing Manifests with Subject") with `added` in it;
/// nothing when it has them. What others have put into it is kept.
fn listed(
    known: Option<&[u8]>,
    added: &[(&Document, &str)],
    place: impl Fn() -> String,
) -> Result<Option<Vec<u8>>, SeedError> {
    let wrong = || SeedError::Document {
        what: format!("the list of referrers {}", place()),
        problem: "is not an index".to_owned(),
    };
    let mut list: Value = match known {
        Some(bytes) if json_text::memory_of(bytes) > LIST_MEMORY => return Err(wrong()),
        Some(bytes) => serde_json::from_slice(bytes).map_err(|_| wrong())?,
        None => json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [] }),
    };
    let manifests = list.get_mut("manifests").and_then(Value::as_array_mut).ok_or_else(wrong)?;
    let before = manifests.len();
    for (document, artifact_type) in added {
        let digest = json!(document.digest);
        if !manifests.iter().any(|entry| entry.get("digest") == Some(&digest)) {
            manifests.push(json!({
                "artifactType": artifact_type,
                "digest": digest,
                "mediaType": document.media_type,
                "size": document.bytes.len(),
            }));
        }
    }
    Ok((manifests.len() > before).then(|| list.to_string().into_bytes()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_list_of_referrers_keeps_what_others_put_into_it_and_grows_once() {
        let document = Document { digest: Digest::of("a"), media_type: MANIFEST.to_owned(), bytes: Bytes::from("a") };
        let place = || "r.test/x:t".to_owned();
        let first = listed(None, &[(&document, "sig")], place).unwrap().unwrap();
        assert_eq!(listed(Some(&first), &[(&document, "sig")], place).unwrap(), None);
        let theirs =
            json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [{"digest": Digest::of("b"), "size": 1}]});
        let both = listed(Some(theirs.to_string().as_bytes()), &[(&document, "sig")], place).unwrap().unwrap();
        let both: Value = serde_json::from_slice(&both).unwrap();
        assert_eq!(both["manifests"].as_array().unwrap().len(), 2);
        assert_eq!(both["manifests"][1]["artifactType"], "sig");
        assert!(listed(Some(b"<html>"), &[(&document, "sig")], place).unwrap_err().to_string().contains("r.test/x:t"));
    }
}
