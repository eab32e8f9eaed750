//! What was found damaged.

use std::path::Path;
use std::sync::PoisonError;

use super::{Check, Depth, Found, part};
use crate::feed::lock;
use crate::frame::Place;
use crate::members::StoredAt;
use crate::{Damage, DamageReport, Verified};

/// The most damages that a report lists one by one.
const LISTED: usize = 100;

impl Check<'_> {
    /// Notes a damage of the bytes from `offset` of the whole on.
    pub(crate) fn report(&self, part: &str, offset: u64, length: u64, problem: String) {
        let mut found = lock(&self.found);
        found.count += 1;
        if found.damages.len() < LISTED {
            let (file, at) = self.feed.at(offset);
            found.damages.push((offset, Damage { file, part: part.to_owned(), offset: at, length, problem }));
        }
    }

    pub(super) fn report_frame(&self, member: Option<&StoredAt>, place: Place, problem: String) {
        self.report(part(member), place.offset, u64::from(place.len), problem);
    }

    /// Notes that the bytes end too early, at `offset` of the whole.
    pub(crate) fn report_cut(&self, part: &str, offset: u64, problem: String) {
        lock(&self.found).truncated = true;
        self.report(part, offset, 0, problem);
    }

    pub(crate) fn finish(self, path: &Path, bytes: u64) -> Result<Verified, DamageReport> {
        let Found { mut damages, count, truncated, .. } =
            self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if count == 0 {
            let members = match self.depth {
                Depth::Content => self.head.members.iter().filter(|m| m.sha256.is_some()).count(),
                Depth::Frames => 2,
            };
            return Ok(Verified { bytes, members });
        }
        damages.sort_by_key(|(offset, _)| *offset);
        let damages = damages.into_iter().map(|(_, damage)| damage).collect();
        Err(DamageReport { path: path.to_owned(), damages, count, truncated })
    }
}
