//! The content of members, hashed in order whatever the order in which its frames were decoded.

use kubexm_spec::{Digest, Sources};

use super::{Check, number_in};
use crate::feed::lock;
use crate::frame::{self, Decoded, Place};
use crate::member_hasher::{Content, Ready};
use crate::members::{self, StoredAt};
use crate::piece_queue::PIECE;
use crate::{check_values, signature_slot, tar_header};

impl Check<'_> {
    /// Hashes the frame when it is its turn, and those after it that waited for it.
    pub(super) fn deliver(
        &self,
        hasher: usize,
        member: Option<&StoredAt>,
        number: usize,
        place: Place,
        mut ready: Option<Ready>,
    ) {
        let Some(mutex) = self.hashers.get(hasher) else { return };
        let mut hasher = lock(mutex);
        if hasher.content.is_none() && !hasher.early.is_empty() {
            // Whoever is at it has enough to do.
            drop(hasher);
            ready = ready.and_then(|ready| self.proved(member, number, place, ready));
            hasher = lock(mutex);
        }
        hasher.early.insert(number, (place, ready));
        // Another thread is at it, and looks for more when it is done with its frame.
        let Some(mut content) = hasher.content.take() else { return };
        loop {
            let next = hasher.next;
            let Some((place, ready)) = hasher.early.remove(&next) else { break };
            hasher.next += 1;
            drop(hasher);
            self.pass(member, next, place, &mut content, ready);
            match member.is_some_and(|member| member.group.is_some()) {
                true => self.pieces.done(),
                false => self.leave(),
            }
            hasher = lock(mutex);
        }
        hasher.content = Some(content);
    }

    /// The frame, its own digest found right; nothing when it is not, which is reported.
    pub(super) fn proved(
        &self,
        member: Option<&StoredAt>,
        number: usize,
        place: Place,
        mut ready: Ready,
    ) -> Option<Ready> {
        if std::mem::take(&mut ready.unproved)
            && let Err(problem) = self.prove(number, frame::digest(ready.stored()))
        {
            self.report_frame(member, place, problem);
            self.put_back([ready.decoded.into_buffer(), ready.stored]);
            return None;
        }
        Some(ready)
    }

    /// Holds the content of one frame against what the member must have there, and the frame against the trailer, where that was not
    /// done before.
    pub(super) fn pass(
        &self,
        member: Option<&StoredAt>,
        number: usize,
        place: Place,
        content: &mut Content,
        ready: Option<Ready>,
    ) {
        let (index, step) = match member.is_some_and(|member| member.group.is_some()) {
            true => (number, PIECE),
            false => (number_in(member, number), u64::from(frame::INPUT)),
        };
        if index == 0 {
            content.first = place.offset;
        }
        content.stored = if step == PIECE { u64::from(place.len) } else { content.stored + u64::from(place.len) };
        // Frames and pieces are of one length but for the last, so the place is known whatever became of those before.
        content.at = index as u64 * step;
        let Some(ready) = ready else {
            content.spoiled = true;
            return;
        };
        let (right, digest) = content.pass(member, &ready);
        let proved = digest.map_or(Ok(()), |digest| self.prove(number, digest));
        let form = if right { Ok(()) } else { Err("tar header or padding is not the expected one".to_owned()) };
        if let Err(problem) = proved.and(form) {
            content.spoiled = true;
            self.report_frame(member, place, problem);
        }
        let is_last = |member: &&StoredAt| match member.group {
            Some(_) => (index as u64 + 1) * PIECE >= members::stream_len(member.size).unwrap_or_default(),
            None => index + 1 == member.frames,
        };
        if let Some(member) = member.filter(is_last).filter(|_| !content.spoiled) {
            self.end(member, std::mem::take(content), &ready.decoded);
            if member.frames == 1 && member.group.is_none() {
                self.feed.keep(member, &ready.decoded);
            }
        }
        match member.is_some_and(|member| member.group.is_some()) {
            true => self.pieces.put_back(ready.decoded.into_buffer()),
            false => self.put_back([ready.decoded.into_buffer(), ready.stored]),
        }
    }

    /// All frames of a member have passed.
    pub(super) fn end(&self, member: &StoredAt, content: Content, last: &Decoded) {
        let Content { hasher, first, stored, .. } = content;
        let found: Digest = hasher.finish();
        match member.sha256 {
            Some(wanted) if wanted != found => {
                if member.group.is_some() && !lock(&self.found).of_groups.insert(member.name.clone()) {
                    return;
                }
                self.report(&member.name, first, stored, format!("its content has the digest {found}, not {wanted}"));
            }
            Some(_) => {}
            // Of one frame as good as always; whoever reads a longer one demands its form.
            None if member.name == members::SOURCES && member.frames > 1 => {}
            None if member.name == members::SOURCES => {
                let stream = last.pieces().collect::<Vec<_>>().concat();
                let content = stream.get(tar_header::BLOCK as usize..).unwrap_or_default();
                let content = content.get(..member.size as usize).unwrap_or_default();
                let read = check_values(content).map_err(|e| e.to_string());
                if let Err(problem) = read.and_then(|()| Sources::parse(content).map(drop)) {
                    self.report(&member.name, first, stored, problem);
                }
            }
            None => {
                let stream = last.pieces().collect::<Vec<_>>().concat();
                let room = stream.get(tar_header::BLOCK as usize..).unwrap_or_default();
                if let Err(problem) = signature_slot::decode(room) {
                    self.report(&member.name, first, stored, problem);
                }
            }
        }
    }
}
