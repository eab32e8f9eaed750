//! Connectivity between the hosts: every agent listens, every agent dials, every agent stops listening.

use std::collections::BTreeMap;

use futures::future::join_all;
use kubexm_engine::{EventSink, Links, waits};
use kubexm_plan::mesh::ConnectionResult;
use kubexm_recipes::Mesh;

use crate::error::SessionError;
use crate::events;
use crate::fleet::all;

/// The results of the dials of each host. Agents stop listening even on an error.
pub async fn dial(
    mesh: &Mesh,
    links: &Links,
    events: &dyn EventSink,
) -> Result<BTreeMap<String, Vec<ConnectionResult>>, SessionError> {
    if mesh.dials.is_empty() {
        return Ok(BTreeMap::new());
    }
    events::phase(events, "dial");
    let listening = mesh.listen.iter().filter_map(|(host, ports)| Some((host.clone(), links.get(host)?.listen(ports))));
    let listening = waits::of_hosts(events, "listening on the ports of the cluster", listening).await;
    let dialed = match all(listening.into_iter().map(|(_, listens)| listens)) {
        Ok(_) => {
            let dials = mesh.dials.iter().filter_map(|(host, dials)| Some((host, links.get(host)?, dials)));
            let dials = dials.map(|(host, link, dials)| (host.clone(), link.dial(dials)));
            let dialed = waits::of_hosts(events, "its connections to the other hosts", dials).await;
            all(dialed.into_iter().map(|(host, dialed)| Ok((host, dialed?))))
        }
        Err(error) => Err(error),
    };
    let silent = join_all(mesh.listen.keys().filter_map(|host| Some(links.get(host)?.listen(&[])))).await;
    let dialed = dialed?;
    all(silent)?;
    Ok(dialed.into_iter().collect())
}
