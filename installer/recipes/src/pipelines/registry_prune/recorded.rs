//! The record of a bundle by its name, and the depot that it lies beside.

use std::net::SocketAddr;

use kubexm_spec::depot::DepotConfig;
use kubexm_spec::{Digest, names};

use super::context::PruneContext;

/// How much of a manifest's digest is in the name of a bundle's record.
pub(super) const SHORT: usize = 16;

/// Whether they are of one bundle. The images of a configuration may be in another registry.
pub(super) fn is_same(config: &DepotConfig, record: &DepotConfig) -> bool {
    config.files == record.files && (config.images.is_empty() || config.images == record.images)
}

/// The part of a manifest's digest that is in the name of its bundle's record.
pub(super) fn short(manifest: &Digest) -> String {
    manifest.hex()[..SHORT].to_owned()
}

/// What stands after the version in a name.
pub(super) fn digest_part(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or(name)
}

/// Where a depot's own host asks it, as when it was installed; none if cluster.yaml has no address for it.
pub(super) fn own_url(cx: &PruneContext<'_>, host: &str, port: u16) -> Option<String> {
    let address = match cx.cluster.registry_hosts().len() {
        0 | 1 => format!("{}:{port}", names::registry_name(&cx.cluster.name)),
        _ => SocketAddr::from((cx.cluster.host(host)?.node_ip()?, port)).to_string(),
    };
    Some(format!("https://{address}"))
}
