//! Writing a bundle.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use kubexm_spec::manifest::FORMAT;
use kubexm_spec::{Digest, Manifest};

use crate::group::Group;
use crate::input::Input;
use crate::layout::{Layout, PlacedGroup, StoredMember};
use crate::members::{self, StoredAt};
use crate::pipeline::{self, Ready, Unit};
use crate::target::Target;
use crate::{ArchiveError, Encoding, Signature, frame, seek_table, signature_slot, trailer, volume_header};

/// Members before those of the manifest.
const HEAD: usize = 3;

/// How to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Level of zstd, 1 to 19.
    pub level: i32,
    /// Threads that compress.
    pub threads: usize,
    /// The most bytes of a volume; one file when none is given.
    pub split: Option<u64>,
}

impl Options {
    /// The level that is not slower than `tar | zstd -1 -T0` of the same files.
    pub const DEFAULT_LEVEL: i32 = 1;
}

impl Default for Options {
    /// One file at the default level, on every core.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { level: Self::DEFAULT_LEVEL, threads, split: None }
    }
}

/// What a delta leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Digest of the base's manifest.json; none when the base is known by an inventory only.
    pub base: Option<Digest>,
    /// The blobs that the base has, in the manifest's order, and how the full bundle stores them.
    pub left_out: Vec<StoredMember>,
}

/// What a bundle is made of.
pub struct Contents<'a> {
    /// What is in the full bundle.
    pub manifest: &'a Manifest,
    /// Its members in its order, but for those that are left out.
    pub inputs: Vec<Input<'a>>,
    /// What is left out; nothing in a full bundle.
    pub delta: Delta,
    /// Signatures over the manifest that are there already.
    pub signatures: &'a [Signature],
    /// Members that are compressed together; those of what is left out are named too. None: every member has frames of its own.
    pub groups: Vec<Group>,
    /// The member sources.json, which is opened when all others were read; its size is reported before.
    pub sources: Option<Input<'a>>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Of the file, or of all volumes together, in bytes.
    pub size: u64,
    /// Of manifest.json: names what is in the bundle.
    pub manifest: Digest,
    /// Of manifest.json and layout.json together: names these bytes (without the signature).
    pub bundle_id: Digest,
    /// The bundle's file, or its volumes in order.
    pub files: Vec<PathBuf>,
}

/// Writes a whole bundle under the name `target` (volumes: `target.001` …), or nothing under that name. `-` is standard output.
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
    let contents =
        Contents { manifest, inputs, delta: Delta::default(), signatures: &[], groups: Vec::new(), sources: None };
    write_contents(target, contents, options, progress)
}

/// The same for what may be a delta, and signed already.
pub fn write_contents(
    target: &Path,
    contents: Contents<'_>,
    options: &Options,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Written, ArchiveError> {
    let (layout, manifest_json, layout_json) = documents(&contents, options)?;
    let Contents { manifest, inputs, signatures, sources, .. } = contents;
    let manifest_digest = Digest::of(&manifest_json);
    let bundle_id = bundle_id(&manifest_json, &layout_json);
    let room = signature_slot::encode(signatures)
        .map_err(|problem| ArchiveError::Unwritable { problem: problem.to_string() })?;

    let head = [
        Input::bytes(members::MANIFEST, manifest_json).raw(),
        Input::bytes(members::SIGNATURE, room).raw(),
        Input::bytes(members::LAYOUT, layout_json).raw(),
    ];
    let all: Vec<Input<'_>> = head.into_iter().chain(inputs).chain(sources.map(Input::raw)).collect();
    let units = units(&all, manifest, &layout);
    let (frames, total) = count(&all, &units)?;
    let signature_frame = StoredAt::new(members::MANIFEST, all[0].size, None, Encoding::Raw, 0).map_or(0, |m| m.frames);

    let largest = units.iter().map(|unit| if let Unit::Group { size, .. } = unit { *size } else { 0 }).max();
    let fits = smallest_split(frames, total, largest.unwrap_or_default());
    if let Some(split) = options.split
        && raw_bytes(&all) > split.saturating_mul(u64::from(volume_header::MAX))
    {
        return Err(ArchiveError::SplitTooSmall { split, fits });
    }
    let mut file = Target::create(target, manifest.format, bundle_id, options.split, fits)?;
    let mut digests = Vec::with_capacity(frames);
    let (mut number, mut done) = (0, 0);
    pipeline::run(&all, &units, options.level, options.threads, |ready| {
        let (size, digest) = match ready {
            Ready::Part(bytes) => return file.part(bytes),
            Ready::Whole(frame, size, digest) => {
                file.frame(frame, size)?;
                (size, digest)
            }
            Ready::End(bytes, size, digest) => {
                file.part(bytes)?;
                file.end_of_parts(size)?;
                (size, digest)
            }
        };
        if number != signature_frame {
            digests.push(*digest.as_bytes());
        }
        number += 1;
        done += u64::from(size);
        progress(done, total);
        Ok(())
    })?;
    let (size, files) = file.finish(digests)?;
    Ok(Written { size, manifest: manifest_digest, bundle_id, files })
}

/// What would name the bytes of a bundle that is written of these contents; refused as [`write_contents`] refuses them.
pub fn bundle_id_of(contents: &Contents<'_>, options: &Options) -> Result<Digest, ArchiveError> {
    documents(contents, options).map(|(_, manifest_json, layout_json)| bundle_id(&manifest_json, &layout_json))
}

/// The layout, manifest.json and layout.json.
fn documents(contents: &Contents<'_>, options: &Options) -> Result<(Layout, Vec<u8>, Vec<u8>), ArchiveError> {
    let Contents { manifest, inputs, delta, sources, groups, .. } = contents;
    let stored = inputs.iter().map(|i| StoredMember { name: i.name.clone(), encoding: i.encoding }).collect();
    let layout = {
        let (left_out, sources) = (delta.left_out.clone(), sources.as_ref().map(|sources| sources.size));
        Layout::new(manifest.format, options.level, stored, delta.base, left_out, sources, groups.clone())
    };
    if sources.as_ref().is_some_and(|sources| sources.name != members::SOURCES) {
        return Err(ArchiveError::Unwritable { problem: "its sources have another name".to_owned() });
    }
    check(manifest, &layout, inputs, options)?;
    let unwritable = |e: serde_json::Error| ArchiveError::Unwritable { problem: format!("its manifest: {e}") };
    let (manifest_json, layout_json) =
        (manifest.canonical_json().map_err(unwritable)?, layout.canonical_json().map_err(unwritable)?);
    Ok((layout, manifest_json, layout_json))
}

/// What becomes which frames, in the order of the file: head, members, sources.
fn units(all: &[Input<'_>], manifest: &Manifest, layout: &Layout) -> Vec<Unit> {
    let left_out: HashSet<&str> = layout.left_out.iter().map(|stored| stored.name.as_str()).collect();
    let listed = manifest.members.iter().enumerate();
    let here: Vec<usize> =
        listed.filter(|(_, member)| !left_out.contains(member.name.as_str())).map(|(number, _)| number).collect();
    let mut groups = layout.placed_groups(&manifest.members).into_iter().peekable();
    let mut units: Vec<Unit> = (0..HEAD).map(Unit::Single).collect();
    let mut at = 0;
    while let Some(number) = here.get(at) {
        let first = HEAD + at;
        let (unit, count) = match groups.next_if(|group| group.listed.contains(number)) {
            Some(PlacedGroup { count, len: size, level, .. }) => {
                (Unit::Group { inputs: first..first + count, size, level }, count)
            }
            None => (Unit::Single(first), 1),
        };
        units.push(unit);
        at += count;
    }
    units.extend((HEAD + at..all.len()).map(Unit::Single));
    units
}

/// The split in bytes (whole MiB) that is certain to hold so many frames of so many bytes in all; `largest`: bytes of content of the
/// largest group.
pub(crate) fn smallest_split(frames: usize, total: u64, largest: u32) -> u64 {
    let tail = (trailer::len(frames) + seek_table::len(frames + volume_header::MAX as usize)) as u64;
    // Every volume may end a frame short of full.
    let a_volume = u64::from(frame::max_len().max(frame::bound(largest))) + volume_header::LEN as u64;
    let spread = total.div_ceil(u64::from(volume_header::MAX)) + a_volume;
    spread.max(tail + a_volume).next_multiple_of(1 << 20)
}

/// Refuses volumes that cannot hold members of these sizes, as early as the sizes are known. How far something compresses shows
/// only when it is packed: each member counts as if it did not, and only members that are stored raw count for the number of volumes.
pub fn check_split(split: u64, members: &[(u64, Encoding)]) -> Result<(), ArchiveError> {
    let (mut frames, mut total, mut raw, mut largest) = (1, u64::from(members::END), 0_u64, u64::from(members::END));
    for (size, encoding) in members {
        let len = members::stream_len(*size).unwrap_or(u64::MAX);
        frames += usize::try_from(len.div_ceil(u64::from(frame::INPUT))).unwrap_or(usize::MAX >> 1);
        total = total.saturating_add(len);
        largest = largest.max(len.min(u64::from(frame::INPUT)));
        if *encoding == Encoding::Raw {
            raw = raw.saturating_add(*size);
        }
    }
    let frame = u64::from(frame::raw_len(u32::try_from(largest).unwrap_or(frame::INPUT)));
    let tail = (trailer::len(frames) + seek_table::len(frames + 1)) as u64;
    let needed = volume_header::LEN as u64 + frame.max(tail);
    if needed > split || raw > split.saturating_mul(u64::from(volume_header::MAX)) {
        return Err(ArchiveError::SplitTooSmall { split, fits: smallest_split(frames, total, 0) });
    }
    Ok(())
}

/// Volumes of this many bytes hold any single member.
pub fn safe_split() -> u64 {
    smallest_split(1, 0, 0)
}

/// Bytes that are certain to be in the file: those of what is stored raw.
fn raw_bytes(inputs: &[Input<'_>]) -> u64 {
    inputs.iter().filter(|input| input.encoding == Encoding::Raw).fold(0, |sum, input| sum.saturating_add(input.size))
}

/// sha256 over manifest.json and layout.json, one after the other.
pub(crate) fn bundle_id(manifest_json: &[u8], layout_json: &[u8]) -> Digest {
    let mut hasher = kubexm_spec::digest::Hasher::default();
    hasher.update(manifest_json);
    hasher.update(layout_json);
    hasher.finish()
}

/// Inputs are the manifest's members, one for one, but for those that the layout leaves out.
fn check(manifest: &Manifest, layout: &Layout, inputs: &[Input<'_>], options: &Options) -> Result<(), ArchiveError> {
    let unwritable = |problem: String| Err(ArchiveError::Unwritable { problem });
    if !Layout::LEVELS.contains(&options.level) {
        return unwritable(format!("level {} is not one of 1 to 19", options.level));
    }
    if !(1..=FORMAT).contains(&manifest.format) {
        return unwritable(format!("its manifest states format {}", manifest.format));
    }
    if let Err(problem) = manifest.check_fields() {
        return unwritable(format!("its manifest {problem}"));
    }
    if let Err(problem) = members::check(&manifest.members).and_then(|()| layout.check(&manifest.members)) {
        return unwritable(problem);
    }
    let left_out: HashSet<&str> = layout.left_out.iter().map(|stored| stored.name.as_str()).collect();
    let here = manifest.members.iter().filter(|member| !left_out.contains(member.name.as_str()));
    for (input, member) in inputs.iter().zip(here) {
        if (&input.name, input.size, input.sha256) != (&member.name, member.size, member.sha256) {
            return unwritable(format!("the input {} is where the manifest has {}", input.name, member.name));
        }
    }
    Ok(())
}

/// Frames and bytes of tar stream in all, the end of the archive included.
fn count(inputs: &[Input<'_>], units: &[Unit]) -> Result<(usize, u64), ArchiveError> {
    let mut frames: usize = 1;
    for unit in units {
        frames = match unit {
            Unit::Group { .. } => frames.saturating_add(1),
            Unit::Single(at) => {
                let stored =
                    inputs.get(*at).map(|input| StoredAt::new(&input.name, input.size, None, input.encoding, frames));
                stored.flatten().map_or(usize::MAX, |stored| stored.end_frame())
            }
        };
    }
    let bytes = inputs.iter().fold(u64::from(members::END), |sum, input| {
        sum.saturating_add(members::stream_len(input.size).unwrap_or(u64::MAX))
    });
    if frames >= seek_table::MAX_FRAMES as usize {
        let problem = format!("it would have {frames} frames, and a file holds {}", seek_table::MAX_FRAMES);
        return Err(ArchiveError::Unwritable { problem });
    }
    Ok((frames, bytes))
}
