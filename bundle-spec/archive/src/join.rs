//! From volumes to one file, or from one file to volumes: frames are copied unchanged.

use std::path::Path;

use crate::target::Target;
use crate::write::{Written, smallest_split};
use crate::{ArchiveError, Bundle, frame};

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
    let fits = smallest_split(inner.frames.len(), total);
    let mut file = Target::create(target, bundle.manifest().format, bundle.bundle_id(), split, fits)?;
    let mut done = 0;
    for (number, place) in inner.frames.iter().enumerate() {
        let bytes = inner.origin.read(place.offset, place.len as usize)?;
        if inner.frame_digest(number).is_some_and(|known| frame::digest(&bytes).as_bytes() != known) {
            let part = inner.head.member_of(number).and_then(|at| inner.head.members.get(at));
            let part = part.map_or(crate::members::END_PART, |member| &member.name);
            let problem = "the frame does not have the digest that the trailer states";
            return Err(inner.origin.damaged(part, place.offset, problem));
        }
        file.frame(&bytes, place.size)?;
        done += u64::from(place.len);
        progress(done, total);
    }
    let (size, files) = file.finish(inner.trailer.digests.clone())?;
    Ok(Written { size, manifest: bundle.manifest_digest(), bundle_id: bundle.bundle_id(), files })
}
