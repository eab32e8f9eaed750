//! From volumes to one file, or from one file to volumes: frames are copied unchanged.

use std::path::Path;

use kubexm_spec::digest::Hasher;

use crate::target::Target;
use crate::write::{Written, smallest_split};
use crate::{ArchiveError, Bundle};

/// Bytes that are copied at a time: all of a frame, but for a group's.
const PIECE: usize = 9 << 20;

/// Writes the same bundle in one file, or in volumes of at most `split` bytes; byte for byte what a build would have written.
///
/// Each frame is compared with the trailer on its way. Nothing of the bundle that is read is changed or removed. `progress`
/// gets bytes done and in all.
pub fn join(
    bundle: &Bundle,
    target: &Path,
    split: Option<u64>,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Written, ArchiveError> {
    let inner = &*bundle.0;
    let total: u64 = inner.frames.iter().map(|place| u64::from(place.len)).sum();
    let groups = bundle.layout().placed_groups(&bundle.manifest().members);
    let largest = groups.iter().map(|group| group.len).max().unwrap_or_default();
    let fits = smallest_split(inner.frames.len(), total, largest);
    let mut file = Target::create(target, bundle.manifest().format, bundle.bundle_id(), split, fits)?;
    let mut done = 0;
    for (number, place) in inner.frames.iter().enumerate() {
        // A group may be larger than the memory that there is.
        let (mut hasher, mut at, end) = (Hasher::default(), place.offset, place.offset + u64::from(place.len));
        while at < end {
            let bytes = inner.origin.read(at, usize::try_from(end - at).unwrap_or(PIECE).min(PIECE))?;
            hasher.update(&bytes);
            file.part(&bytes)?;
            at += bytes.len() as u64;
        }
        if inner.frame_digest(number).is_some_and(|known| hasher.finish().as_bytes() != known) {
            let part = inner.head.member_of(number).and_then(|at| inner.head.members.get(at));
            let part = part.map_or(crate::members::END_PART, |member| &member.name);
            let problem = "the frame does not have the digest that the trailer states";
            return Err(inner.origin.damaged(part, place.offset, problem));
        }
        file.end_of_parts(place.size)?;
        done += u64::from(place.len);
        progress(done, total);
    }
    let (size, files) = file.finish(inner.trailer.digests.clone())?;
    Ok(Written { size, manifest: bundle.manifest_digest(), bundle_id: bundle.bundle_id(), files })
}
