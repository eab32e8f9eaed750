//! The bytes of one item of a bundle, verified on the way.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kubexm_archive::{ArchiveError, Unverified, members};
use kubexm_spec::{ExitCode, Platform, error_chain};

use crate::extract::{ExtractError, Item, find};
use crate::session::{Session, SessionError};

/// How many bytes are read at once.
const PIECE: usize = 1 << 20;

/// A range as HTTP writes it (RFC 9110, 14.1.1): both ends are included and counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub start: u64,
    /// None: to the end.
    pub end: Option<u64>,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no range: expected START-END or START-, in bytes from 0, like 0-99");
        let number = |digits: &str| -> Option<u64> {
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
        };
        let (start, end) = text.split_once('-').ok_or_else(wrong)?;
        let start = number(start).ok_or_else(wrong)?;
        let end = if end.is_empty() { None } else { Some(number(end).ok_or_else(wrong)?) };
        if end.is_some_and(|end| end < start) {
            return Err(format!("{text:?} ends before it starts"));
        }
        Ok(Self { start, end })
    }
}

/// One item of a bundle.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub bundle: &'a Path,
    /// Of a delta: bundles that have what it leaves out.
    pub bases: &'a [PathBuf],
    /// An artifact key of a file, a digest, or a member's name.
    pub item: &'a str,
    /// Where an item is for several platforms.
    pub platform: Option<Platform>,
    /// A part of it.
    pub range: Option<Range>,
}

/// Passes the bytes on, piece by piece, until `reader` wants no more of them.
pub fn cat(session: &Session, request: &Request<'_>, reader: &dyn Fn(&[u8]) -> bool) -> Result<(), SessionError> {
    let bundle = session.bundle_on(&[request.bundle.to_owned()], request.bases)?;
    // A digest is that of a blob, whatever artifact it belongs to.
    let name = match (request.item.parse(), find(bundle.manifest(), request.item, request.platform)) {
        (Ok(digest), _) => members::blob_name(&digest),
        (_, Ok(Item::File(artifact))) => members::blob_name(&artifact.digest),
        (_, Ok(Item::Member(name))) => name,
        (_, Ok(Item::Image { .. })) => {
            let what = "an image, which is many blobs: give one's digest, or take the image out with extract";
            return Err(ExtractError::WrongKind { item: request.item.to_owned(), what }.into());
        }
        (_, Err(error)) => return Err(error.into()),
    };
    let content = match request.range {
        None => bundle.member(&name),
        // To look at, as the help says.
        Some(range) => bundle.part(&name, range.start).map(Unverified::without_verification),
    };
    let content = content.map_err(|e| match e {
        ArchiveError::BeyondEnd { .. } => SessionError::refused(ExitCode::Usage, error_chain(&e)),
        e => ExtractError::from(e).of_delta(&bundle).into(),
    })?;
    let length = request.range.and_then(|range| Some((range.end? - range.start).saturating_add(1)));
    let (mut content, mut piece) = (content.take(length.unwrap_or(u64::MAX)), vec![0; PIECE]);
    loop {
        let len = content.read(&mut piece).map_err(unreadable)?;
        match piece.get(..len).filter(|piece| !piece.is_empty()) {
            Some(piece) if reader(piece) => {}
            _ => return Ok(()),
        }
    }
}

fn unreadable(error: io::Error) -> SessionError {
    match error.downcast::<ArchiveError>() {
        Ok(error) => error.into(),
        Err(error) => SessionError::refused(ExitCode::Disk, format!("cannot read the bundle: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_as_http_reads_it() {
        assert_eq!("0-99".parse(), Ok(Range { start: 0, end: Some(99) }));
        assert_eq!("7-".parse(), Ok(Range { start: 7, end: None }));
        for bad in ["", "-", "-5", "5", "a-b", "5-4", "+1-2", "1-2-3", "99999999999999999999-"] {
            assert!(bad.parse::<Range>().is_err(), "{bad}");
        }
    }
}
