//! The addresses that a zone gives for an artifact, as candidates of the transport.

use kubexm_manifests::Zone;
use kubexm_transport::{FileCandidate, Identity, ImageCandidate};

/// An address without its query; the name of an image unchanged.
pub(crate) fn shown(address: &str) -> String {
    match address.starts_with("http") && address.contains("://") {
        true => kubexm_transport::http::shown(address),
        false => address.to_owned(),
    }
}

/// Whether an address has a name or a password before its host.
pub(crate) fn holds_login(address: &str) -> bool {
    let host = address.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    host.is_some_and(|host| host.contains('@'))
}

pub(crate) fn files(zone: &Zone, url: &str) -> Vec<FileCandidate> {
    zone.files(url)
        .into_iter()
        .map(|c| FileCandidate {
            plain_http_allowed: c.plain_http,
            url: c.url,
            ca_file: c.ca_file,
            identity: c.identity.map(|(certificate, key)| Identity { certificate, key }),
            folder: c.folder,
            bearer: None,
            login: None,
        })
        .collect()
}

pub(crate) fn images(zone: &Zone, reference: &str) -> Vec<ImageCandidate> {
    zone.images(reference)
        .into_iter()
        .map(|c| {
            let (name, _) = kubexm_spec::depot::split_reference(&c.reference);
            let repository = name.strip_prefix(&c.registry).unwrap_or(name).trim_start_matches('/').to_owned();
            ImageCandidate { registry: c.registry, repository, plain_http: c.plain_http, ca_file: c.ca_file }
        })
        .collect()
}
