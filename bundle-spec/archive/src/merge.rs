//! From a delta and the bundles it was built on to the full bundle.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use crate::input::Input;
use crate::write::{Contents, Delta, Options, Written, write_contents};
use crate::{ArchiveError, Bundle, DOCUMENT_LIMIT, Encoding, Layout, members};

/// Writes the full bundle of a delta that was put on its bases ([`Bundle::on_bases`]): byte for byte what a build in full
/// by the program that wrote the delta gives, and signed as the delta is.
///
/// Every member is hashed again. Refused when the delta was written with another compressor than this program has.
pub fn merge(
    delta: &Bundle,
    target: &Path,
    threads: usize,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Written, ArchiveError> {
    let layout = delta.layout();
    if layout.encoder != Layout::own_encoder() {
        let (path, found) = (delta.path().to_owned(), layout.encoder.clone());
        return Err(ArchiveError::EncoderMismatch { path, found, own: Layout::own_encoder() });
    }
    let encodings: HashMap<&str, Encoding> =
        layout.members.iter().chain(&layout.left_out).map(|stored| (stored.name.as_str(), stored.encoding)).collect();
    let inputs = delta.manifest().members.iter().map(|member| {
        let (bundle, name) = (delta.clone(), member.name.clone());
        let open = move || {
            let reader = bundle.member(&name).map_err(ArchiveError::into_io)?;
            Ok(Box::new(reader) as Box<dyn Read + Send>)
        };
        Input {
            name: member.name.clone(),
            size: member.size,
            sha256: member.sha256,
            encoding: encodings.get(member.name.as_str()).copied().unwrap_or(Encoding::Zstd),
            open: Box::new(open),
        }
    });
    let sources = match layout.sources {
        Some(_) => Some(Input::sources(delta.read(members::SOURCES, DOCUMENT_LIMIT)?)),
        None => None,
    };
    let contents = Contents {
        manifest: delta.manifest(),
        inputs: inputs.collect(),
        delta: Delta::default(),
        signatures: delta.signatures(),
        groups: layout.groups.clone(),
        sources,
    };
    let options = Options { level: layout.level, threads, split: None };
    write_contents(target, contents, &options, progress)
}
