//! Runtimes that load every image from the node's content store, and know what they load by its tags only.

use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;
use crate::modules::images;

/// A proxy that is not there, for every registry that such a runtime is not to ask: nobody may listen on this port but root.
pub(super) const NOWHERE: &str = "http://127.0.0.1:1";

/// Such a runtime gives an image that it loads no name by a digest: pods that ask for one would have it pulled.
pub(super) fn check(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<(), RecipeError> {
    let all = images::of_node(cx, node)?;
    let by_digest: Vec<&str> =
        all.iter().map(|(_, image)| image.name.as_str()).filter(|name| name.contains('@')).collect();
    if by_digest.is_empty() {
        return Ok(());
    }
    let runtime = cx.cluster.runtime.kind;
    Err(RecipeError::Unsupported {
        what: format!("{runtime} with images that are named by a digest ({})", by_digest.join(", ")),
        hint: format!("name them by a tag, in pods too: {runtime} knows what it loads by tags only"),
    })
}
