//! What of a plan is in the registry. Reads only; every tag that would move is found here, before the first upload.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use kubexm_spec::Digest;
use kubexm_transport::Repository;
use kubexm_transport::oci::referrers_tag;

use crate::artifact::{Blobs, Source};
use crate::connection::{AT_ONCE, Registry};
use crate::error::{SeedError, TagTaken};
use crate::plan::{RepositoryPlan, SeedPlan};

/// What is missing, by repository.
#[derive(Debug, Default)]
pub struct Work {
    pub repositories: BTreeMap<String, RepositoryWork>,
    /// Blobs that are missing, or may be, with the repositories that want them.
    pub blobs: BTreeMap<Digest, BlobWork>,
    /// References that were found to be right.
    pub right: BTreeSet<(String, String)>,
}

/// What is missing in one repository.
#[derive(Debug, Default)]
pub struct RepositoryWork {
    /// Documents by digest.
    pub documents: BTreeSet<Digest>,
    /// Tags to make, or to move.
    pub tags: BTreeMap<String, Digest>,
    /// Those of them that name something else now.
    pub moved: BTreeSet<String>,
    /// Repositories that blobs are mounted from.
    pub mount_from: BTreeSet<String>,
}

/// One blob.
#[derive(Debug)]
pub struct BlobWork {
    pub size: u64,
    pub source: Source,
    /// Repositories that want it, the first gets it from us.
    pub wanted_by: Vec<String>,
    /// A repository that has it: a manifest that names it is there.
    pub held_by: Option<String>,
}

/// Asks the registry for every tag, and for what no tag vouches for.
pub async fn look(registry: &Registry, plan: &SeedPlan, overwrite: bool) -> Result<Work, SeedError> {
    let Some(first) = plan.repositories.keys().next() else { return Ok(Work::default()) };
    let to = registry.repository(first, &[]).await?;
    to.check_api().await.map_err(|e| SeedError::registry("push to", to.place(), e))?;
    let found: Vec<(String, Found)> = stream::iter(&plan.repositories)
        .map(|(name, wanted)| async move {
            let to = registry.repository(name, &[]).await?;
            Ok::<_, SeedError>((name.clone(), found(&to, wanted).await?))
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let mut taken: Vec<TagTaken> = Vec::new();
    for (name, found) in &found {
        let whole = plan.naming.whole(name);
        let others = found.others.iter().map(|(tag, (found, wanted))| TagTaken {
            name: format!("{whole}:{tag}"),
            found: *found,
            wanted: *wanted,
        });
        taken.extend(others);
    }
    if !taken.is_empty() && !overwrite {
        taken.sort_by(|a, b| a.name.cmp(&b.name));
        return Err(SeedError::TagsTaken(taken));
    }
    Ok(work(plan, found.into_iter().collect()))
}

/// What a repository has of a plan.
#[derive(Default)]
struct Found {
    documents: BTreeSet<Digest>,
    right: BTreeSet<String>,
    /// Tags that name something else: what, and what they should.
    others: BTreeMap<String, (Digest, Digest)>,
}

async fn found(to: &Repository, wanted: &RepositoryPlan) -> Result<Found, SeedError> {
    let failed = |e| SeedError::registry("read", to.place(), e);
    let mut found = Found::default();
    for (tag, (digest, _)) in &wanted.tags {
        match to.find(tag).await.map_err(failed)? {
            Some(there) if there == *digest => {
                found.documents.insert(there);
                found.right.insert(tag.clone());
            }
            Some(there) => drop(found.others.insert(tag.clone(), (there, *digest))),
            None => {}
        }
    }
    for planned in &wanted.documents {
        // Each by itself: an index may be there without what it names.
        let digest = planned.document.digest;
        if !found.documents.contains(&digest) && to.find(&digest.to_string()).await.map_err(failed)?.is_some() {
            found.documents.insert(digest);
        }
    }
    for digest in unlisted(to, wanted, &found).await? {
        found.documents.remove(&digest);
    }
    Ok(found)
}

/// Referrers that are there and in no list: a program that ended between the two left them, and nobody who asks for what is attached to
/// their subject finds them. They are pushed once more, with their list.
async fn unlisted(to: &Repository, wanted: &RepositoryPlan, found: &Found) -> Result<Vec<Digest>, SeedError> {
    let mut there: BTreeMap<Digest, Vec<Digest>> = BTreeMap::new();
    for planned in &wanted.documents {
        let digest = planned.document.digest;
        if let Some((subject, _)) = planned.subject.as_ref().filter(|_| found.documents.contains(&digest)) {
            there.entry(*subject).or_default().push(digest);
        }
    }
    let mut unlisted = Vec::new();
    for (subject, referrers) in there {
        let list = match to.referrers(&subject, "").await {
            // Only so much of a list is read: what is not in that may be in the rest.
            Ok(list) if !list.whole => continue,
            Ok(list) => list.pages,
            // What a registry makes of a list that it does not know differs.
            Err(_) => {
                let list = to.manifest(&referrers_tag(&subject)).await;
                let list = list.map_err(|error| SeedError::registry("read", to.place(), error))?;
                list.into_iter().map(|raw| raw.bytes).collect()
            }
        };
        let is_listed = |digest: &Digest| {
            let name = digest.to_string();
            list.iter().any(|page| page.windows(name.len()).any(|part| part == name.as_bytes()))
        };
        unlisted.extend(referrers.into_iter().filter(|digest| !is_listed(digest)));
    }
    Ok(unlisted)
}

/// Pure: what is to be done where that is there.
fn work(plan: &SeedPlan, found: BTreeMap<String, Found>) -> Work {
    let mut work = Work::default();
    let nothing = Found::default();
    let mut held: BTreeMap<Digest, String> = BTreeMap::new();
    for (name, wanted) in &plan.repositories {
        let found = found.get(name).unwrap_or(&nothing);
        work.right.extend(found.right.iter().map(|tag| (name.clone(), tag.clone())));
        for planned in wanted.documents.iter().filter(|planned| found.documents.contains(&planned.document.digest)) {
            for blob in planned.blobs.keys() {
                held.entry(*blob).or_insert_with(|| name.clone());
            }
        }
    }
    for (name, wanted) in &plan.repositories {
        let found = found.get(name).unwrap_or(&nothing);
        let missing = wanted.documents.iter().filter(|planned| !found.documents.contains(&planned.document.digest));
        let mut blobs = Blobs::new();
        let mut here = RepositoryWork::default();
        for planned in missing {
            here.documents.insert(planned.document.digest);
            blobs.extend(planned.blobs.clone());
        }
        for (tag, (digest, _)) in wanted.tags.iter().filter(|(tag, _)| !found.right.contains(*tag)) {
            here.tags.insert(tag.clone(), *digest);
        }
        here.moved = found.others.keys().cloned().collect();
        for (digest, (size, source)) in blobs {
            let held_by = held.get(&digest).cloned();
            let blob =
                work.blobs.entry(digest).or_insert_with(|| BlobWork { size, source, wanted_by: Vec::new(), held_by });
            // Who gets it from us, or has it, is whom the others take it from.
            let from = blob.held_by.as_ref().or(blob.wanted_by.first());
            here.mount_from.extend(from.filter(|from| *from != name).cloned());
            blob.wanted_by.push(name.clone());
        }
        if !here.documents.is_empty() || !here.tags.is_empty() {
            work.repositories.insert(name.clone(), here);
        }
    }
    work
}
