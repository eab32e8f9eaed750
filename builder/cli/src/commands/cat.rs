//! `kubexm-bundle cat`.

use std::io::{self, Read};
use std::path::PathBuf;
use std::str::FromStr;

use kubexm_archive::{ArchiveError, MemberReader, members};
use kubexm_builder::extract::{ExtractError, Item, find};
use kubexm_builder::session::Session;
use kubexm_spec::{ExitCode, Platform};
use kubexm_terminal::{Display, Failure};

/// How many bytes are read at once.
const PIECE: usize = 1 << 20;

/// Write the bytes of one item to standard output, verified on the way
///
/// ITEM is an artifact key of a file (binary/kubeadm), a digest (sha256:…) or a member's name
/// (lock.yaml, cluster.yaml, manifest.json). Nothing else of the bundle is read. A whole item is
/// compared with its digest: damage ends with an exit code, after bytes may have been written. Of a
/// range, each frame is compared with the trailer's digest before it is written; the trailer is not
/// signed, so that finds damage and not forgery: verify the bundle first.
///
/// Examples:
///   kubexm-bundle cat site.tar.zst cluster.yaml
///   kubexm-bundle cat site.tar.zst binary/containerd --platform linux/arm64 | tar -tz
///   kubexm-bundle cat site.tar.zst sha256:5891… --range 1048576-2097151   # the second MiB
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle
    bundle: PathBuf,
    /// What to write out
    #[arg(value_name = "ITEM")]
    item: String,
    /// Bytes from START to END, both included and counted from 0, as in HTTP; END may be left out
    #[arg(long, value_name = "START-END")]
    range: Option<Range>,
    /// Where an item is for several platforms: linux/amd64 or linux/arm64
    #[arg(long, value_name = "OS/ARCH")]
    platform: Option<Platform>,
    /// Of a delta: a bundle that has what it leaves out; may be given several times
    #[arg(long = "base", value_name = "BUNDLE")]
    bases: Vec<PathBuf>,
}

/// A range as HTTP writes it (RFC 9110, 14.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: Option<u64>,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no range: wanted START-END or START-, in bytes from 0, like 0-99");
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

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let bundle = session.bundle_on(std::slice::from_ref(&args.bundle), &args.bases)?;
    let failed = |e: &ExtractError| Failure::from_error(e.exit_code(), e);
    // A digest is that of a blob, whatever artifact it belongs to.
    let name = match (args.item.parse(), find(bundle.manifest(), &args.item, args.platform)) {
        (Ok(digest), _) => members::blob_name(&digest),
        (_, Ok(Item::File(artifact))) => members::blob_name(&artifact.digest),
        (_, Ok(Item::Member(name))) => name,
        (_, Ok(Item::Image { .. })) => {
            let what = "an image, which is many blobs: give one's digest, or take the image out with extract";
            return Err(failed(&ExtractError::WrongKind { item: args.item.clone(), what }));
        }
        (_, Err(error)) => return Err(failed(&error)),
    };
    let reader = match args.range {
        None => bundle.member(&name),
        Some(range) => bundle.part(&name, range.start),
    };
    let reader = reader.map_err(|e| match e {
        ArchiveError::BeyondEnd { .. } => Failure::from_error(ExitCode::Usage, &e),
        e => failed(&ExtractError::from(e).of_delta(&bundle)),
    })?;
    let length = args.range.and_then(|range| Some((range.end? - range.start).saturating_add(1)));
    copy(reader, length.unwrap_or(u64::MAX), display)
}

fn copy(reader: MemberReader, length: u64, display: &Display) -> Result<(), Failure> {
    let mut reader = reader.take(length);
    let mut piece = vec![0; PIECE];
    loop {
        let len = reader.read(&mut piece).map_err(unreadable)?;
        let Some(piece) = piece.get(..len).filter(|piece| !piece.is_empty()) else { return Ok(()) };
        if !display.give(piece) {
            return Ok(());
        }
    }
}

fn unreadable(error: io::Error) -> Failure {
    match error.downcast::<ArchiveError>() {
        Ok(error) => Failure::from_error(error.exit_code(), &error),
        Err(error) => Failure::new(ExitCode::Disk, format!("cannot read the bundle: {error}")),
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
