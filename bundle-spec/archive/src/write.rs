//! Writing a bundle.

use std::io::{self, Cursor, Read, Write};
use std::path::Path;

use kubexm_spec::{Digest, Manifest};

use crate::frame::Place;
use crate::layout::{Layout, StoredMember};
use crate::members::{self, StoredAt};
use crate::partial::{Partial, io_error};
use crate::trailer::Trailer;
use crate::{ArchiveError, Encoding, pipeline, seek_table, signature_room, trailer};

/// Opens the content of a member; called once, on another thread.
pub type Open<'a> = Box<dyn Fn() -> io::Result<Box<dyn Read + Send>> + Send + Sync + 'a>;

/// One member to be written.
pub struct Input<'a> {
    /// As in the manifest.
    pub name: String,
    /// In bytes, as in the manifest.
    pub size: u64,
    /// As in the manifest.
    pub sha256: Digest,
    /// How to store it: [`crate::encoding_for`] chooses.
    pub encoding: Encoding,
    /// Gives its content.
    pub open: Open<'a>,
}

impl Input<'_> {
    /// A member whose content is in memory.
    pub fn bytes(name: impl Into<String>, content: Vec<u8>) -> Self {
        let (size, sha256, encoding) = (content.len() as u64, Digest::of(&content), crate::encoding_for(&content));
        let open: Open<'_> = Box::new(move || Ok(Box::new(Cursor::new(content.clone())) as Box<dyn Read + Send>));
        Self { name: name.into(), size, sha256, encoding, open }
    }

    fn raw(self) -> Self {
        Self { encoding: Encoding::Raw, ..self }
    }
}

/// How to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Level of zstd, 1 to 19.
    pub level: i32,
    /// Threads that compress.
    pub threads: usize,
}

impl Options {
    /// The level that is not slower than `tar | zstd -1 -T0` of the same files.
    pub const DEFAULT_LEVEL: i32 = 1;
}

impl Default for Options {
    /// The default level on every core.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { level: Self::DEFAULT_LEVEL, threads }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Of the file, in bytes.
    pub size: u64,
    /// Of manifest.json: names what is in the bundle.
    pub manifest: Digest,
    /// Of manifest.json and layout.json together: names these bytes (without the signature).
    pub bundle_id: Digest,
}

/// Writes a whole bundle under the name `target`, or nothing under that name.
///
/// `inputs` are the manifest's members in its order. Each is hashed again while it is written; one that is not what the
/// manifest says fails the whole, by name. `progress` gets bytes done and in all, of the inputs with their tar headers.
pub fn write(
    target: &Path,
    manifest: &Manifest,
    inputs: Vec<Input<'_>>,
    options: &Options,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Written, ArchiveError> {
    check(manifest, &inputs, options)?;
    let unwritable = |e: serde_json::Error| ArchiveError::Unwritable { problem: format!("its manifest: {e}") };
    let manifest_json = manifest.canonical_json().map_err(unwritable)?;
    let stored = inputs.iter().map(|i| StoredMember { name: i.name.clone(), encoding: i.encoding }).collect();
    let layout_json = Layout::full(options.level, stored).canonical_json().map_err(unwritable)?;
    let manifest_digest = Digest::of(&manifest_json);
    let bundle_id = bundle_id(&manifest_json, &layout_json);

    let head = [
        Input::bytes(members::MANIFEST, manifest_json).raw(),
        Input::bytes(members::SIGNATURE, signature_room::empty()).raw(),
        Input::bytes(members::LAYOUT, layout_json).raw(),
    ];
    let all: Vec<Input<'_>> = head.into_iter().chain(inputs).collect();
    let (frames, total) = count(&all)?;
    let signature_frame = StoredAt::new(members::MANIFEST, all[0].size, None, Encoding::Raw, 0).map_or(0, |m| m.frames);

    let partial = Partial::create(target)?;
    let mut places: Vec<Place> = Vec::with_capacity(frames + 1);
    let mut digests = Vec::with_capacity(frames);
    let (mut offset, mut done) = (0, 0);
    let put = |bytes: &[u8]| partial.file().write_all(bytes).map_err(io_error("write", partial.path()));
    pipeline::run(&all, options.level, options.threads, |frame, size, digest| {
        put(frame)?;
        if places.len() != signature_frame {
            digests.push(*digest.as_bytes());
        }
        places.push(Place { offset, len: frame.len() as u32, size });
        offset += frame.len() as u64;
        done += u64::from(size);
        progress(done, total);
        Ok(())
    })?;
    let trailer_len = trailer::len(digests.len());
    places.push(Place { offset, len: trailer_len as u32, size: 0 });
    let size = offset + (trailer_len + seek_table::len(places.len())) as u64;
    put(&Trailer { volumes: 1, total: size, digests }.encode())?;
    put(&seek_table::encode(&places))?;
    partial.commit()?;
    Ok(Written { size, manifest: manifest_digest, bundle_id })
}

/// sha256 over manifest.json and layout.json, one after the other.
pub(crate) fn bundle_id(manifest_json: &[u8], layout_json: &[u8]) -> Digest {
    let mut hasher = kubexm_spec::digest::Hasher::default();
    hasher.update(manifest_json);
    hasher.update(layout_json);
    hasher.finish()
}

/// Inputs are the manifest's members, one for one.
fn check(manifest: &Manifest, inputs: &[Input<'_>], options: &Options) -> Result<(), ArchiveError> {
    let unwritable = |problem: String| Err(ArchiveError::Unwritable { problem });
    if !(1..=19).contains(&options.level) {
        return unwritable(format!("level {} is not one of 1 to 19", options.level));
    }
    if manifest.format != kubexm_spec::manifest::FORMAT {
        return unwritable(format!("its manifest says format {}", manifest.format));
    }
    if let Err(problem) = members::check(&manifest.members) {
        return unwritable(problem);
    }
    if inputs.len() != manifest.members.len() {
        return unwritable(format!("{} inputs for {} members", inputs.len(), manifest.members.len()));
    }
    for (input, member) in inputs.iter().zip(&manifest.members) {
        if (&input.name, input.size, input.sha256) != (&member.name, member.size, member.sha256) {
            return unwritable(format!("the input {} stands where the manifest has {}", input.name, member.name));
        }
    }
    Ok(())
}

/// Frames and bytes of tar stream in all, the end of the archive included.
fn count(inputs: &[Input<'_>]) -> Result<(usize, u64), ArchiveError> {
    let mut frames: usize = 1;
    let mut bytes = u64::from(members::END);
    for input in inputs {
        let stored = StoredAt::new(&input.name, input.size, None, input.encoding, frames);
        frames = stored.map_or(usize::MAX, |s| s.end_frame());
        bytes = bytes.saturating_add(members::stream_len(input.size).unwrap_or(u64::MAX));
    }
    if frames >= seek_table::MAX_FRAMES as usize {
        let problem = format!("it would have {frames} frames, and a file holds {}", seek_table::MAX_FRAMES);
        return Err(ArchiveError::Unwritable { problem });
    }
    Ok((frames, bytes))
}
