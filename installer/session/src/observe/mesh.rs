//! The ways between the hosts: every agent listens, then every agent dials, then none listens any more.

use std::collections::BTreeMap;

use futures::future::join_all;
use kubexm_engine::{EventSink, Links};
use kubexm_plan::mesh::Dialed;
use kubexm_recipes::Mesh;

use crate::error::SessionError;
use crate::events;
use crate::fleet::all;

/// What the dials of each host gave. Agents stop listening whatever happens.
pub async fn dial(
    mesh: &Mesh,
    links: &Links,
    events: &dyn EventSink,
) -> Result<BTreeMap<String, Vec<Dialed>>, SessionError> {
    if mesh.dials.is_empty() {
        return Ok(BTreeMap::new());
    }
    events::phase(events, "dial");
    let listening = join_all(mesh.listen.iter().filter_map(|(host, ports)| Some(links.get(host)?.listen(ports)))).await;
    let dialed = match all(listening) {
        Ok(_) => {
            let dials = mesh.dials.iter().filter_map(|(host, dials)| Some((host, links.get(host)?, dials)));
            let dials = dials.map(|(host, link, dials)| async move { Ok((host.clone(), link.dial(dials).await?)) });
            all(join_all(dials).await)
        }
        Err(error) => Err(error),
    };
    let silent = join_all(mesh.listen.keys().filter_map(|host| Some(links.get(host)?.listen(&[])))).await;
    let dialed = dialed?;
    all(silent)?;
    Ok(dialed.into_iter().collect())
}
