//! Opening a bundle: files, folders and volumes of this machine, one on a web server (a file, or volumes), read in place by ranges, or one
//! on standard input.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubexm_archive::{Bundle, DOCUMENT_LIMIT};
use kubexm_spec::cluster;
use kubexm_transport::http::shown;
use kubexm_transport::{FileCandidate, HttpFile, HttpOptions, web_volumes};

use crate::connection::Connection;
use crate::error::SeedError;
use crate::spool::Spool;

/// Opens a bundle, and puts a delta on the bundles that have the rest, unless the registry has it. Waits for a web server: call
/// it from a thread that may. `-` is standard input.
pub fn open(
    paths: &[PathBuf],
    bases: &[PathBuf],
    rest_in_registry: bool,
    connection: &Connection,
    spool: Spool<'_>,
) -> Result<Bundle, SeedError> {
    let bundle = match paths {
        [one] if one.as_os_str() == "-" => spool.open()?,
        [one] => open_one(one, connection)?,
        several => Bundle::open_all(several)?,
    };
    if rest_in_registry && bases.is_empty() {
        return Ok(bundle);
    }
    let bases = bases.iter().map(|base| open_one(base, connection)).collect::<Result<Vec<_>, _>>()?;
    Ok(bundle.on_bases(bases)?)
}

fn open_one(path: &Path, connection: &Connection) -> Result<Bundle, SeedError> {
    let address = path.to_str().filter(|text| text.starts_with("https://") || text.starts_with("http://"));
    let Some(address) = address else { return Ok(Bundle::open(path)?) };
    if address.starts_with("http://") && !connection.plain_http {
        return Err(SeedError::PlainHttp(shown(address)));
    }
    let file_at = |address: &str| {
        let candidate = FileCandidate {
            plain_http_allowed: connection.plain_http,
            ca_file: connection.ca_file.clone(),
            ..FileCandidate::new(address)
        };
        let options =
            HttpOptions { watch: connection.watch.clone(), proxies: connection.proxies, ..HttpOptions::default() };
        HttpFile::open(&candidate, options).map(Arc::new)
    };
    let (name, source) = web_volumes::open(address, file_at)?;
    Ok(Bundle::open_source(name, source)?)
}

/// `spec.registry.namespaceOverride` of the cluster that the bundle is for: nodes of that cluster look for images there. None
/// where its cluster.yaml has none, or cannot be read.
pub fn namespace_override(bundle: &Bundle) -> Option<String> {
    let text = bundle.read("cluster.yaml", DOCUMENT_LIMIT).ok()?;
    cluster::parse(std::str::from_utf8(&text).ok()?).ok()?.registry.namespace_override
}
