//! At the end: every reference resolves to its digest.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use kubexm_transport::Repository;

use crate::connection::AT_ONCE;
use crate::error::SeedError;
use crate::look::Work;
use crate::plan::SeedPlan;

/// Asks for what was not found right before the push, by tag, and for every manifest that was pushed, by digest; how many
/// references are right.
pub async fn audit(
    repositories: &BTreeMap<String, Repository>,
    plan: &SeedPlan,
    work: &Work,
) -> Result<u64, SeedError> {
    let mut asked = Vec::new();
    for (name, missing) in &work.repositories {
        asked.extend(missing.documents.iter().map(|digest| (name, digest.to_string(), *digest)));
        asked.extend(missing.tags.iter().map(|(tag, digest)| (name, tag.clone(), *digest)));
    }
    let count = asked.len() + work.right.len();
    let wrong: Vec<Option<String>> = stream::iter(asked)
        .map(|(name, reference, digest)| async move {
            let to = repositories.get(name).ok_or_else(|| SeedError::Internal(format!("{name} was not opened")))?;
            let found = to.find(&reference).await.map_err(|e| SeedError::registry("read", to.place(), e))?;
            let join = if reference.contains(':') { '@' } else { ':' };
            let name = format!("{}{join}{reference}", plan.naming.whole(name));
            Ok::<_, SeedError>(match found {
                Some(found) if found == digest => None,
                Some(found) => Some(format!("{name} is {found}, and should be {digest}")),
                None => Some(format!("{name} is not there, and should be {digest}")),
            })
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let mut wrong: Vec<String> = wrong.into_iter().flatten().collect();
    if !wrong.is_empty() {
        wrong.sort();
        return Err(SeedError::Audit(wrong));
    }
    Ok(count as u64)
}
