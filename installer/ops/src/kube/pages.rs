//! Lists of the API server, page by page: of some, a user of the cluster can make any number of objects, each as large as one may be.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::raw_text;
use crate::{Machine, OpError};

/// Objects of a page of what users make: as JSON, which writes some characters with six, each has 9 MiB at most, and an answer 64.
pub(crate) const OF_USERS: usize = 6;
/// Budgets of all namespaces.
pub(crate) const BUDGETS: &str = "/apis/policy/v1/poddisruptionbudgets";

/// A page. What `T` does not have is not taken into memory.
#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: Place,
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
struct Place {
    /// Where the next one begins; none or empty if there is none.
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// Reads a list (`/api/v1/secrets?labelSelector=…`) in pages of at most so many objects: an answer has at most 64 MiB. `take` says whether the
/// next one is wanted. Whether all were read.
///
/// # Errors
/// The API server does not answer.
pub(crate) fn read<T: DeserializeOwned>(
    machine: &Machine,
    path: &str,
    most: usize,
    mut take: impl FnMut(Vec<T>) -> bool,
) -> Result<bool, OpError> {
    let mark = if path.contains('?') { '&' } else { '?' };
    let first = format!("{path}{mark}limit={most}");
    let mut next = Some(first.clone());
    while let Some(path) = next.take() {
        let page: Page<T> = serde_json::from_str(&raw_text(machine, &path)?)
            .map_err(|error| OpError::other(format!("{path}: the API server did not answer a list: {error}")))?;
        let token = page.metadata.next.filter(|token| !token.is_empty());
        next = token.map(|token| format!("{first}&continue={}", token.replace('=', "%3D")));
        if !take(page.items) && next.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}
