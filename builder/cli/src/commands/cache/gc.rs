//! `kubexm-bundle cache gc`.

use std::path::PathBuf;
use std::time::Duration;

use kubexm_builder::verbs::cache::collect;
use kubexm_spec::{counted, counted_of};
use kubexm_terminal::{Failure, bytes};

use crate::args::size;
use crate::context::Context;

const DAY: u64 = 86_400;

/// Remove what has not been used for a long time, never what a running build uses
///
/// Without a limit, what was not used for 30 days is removed. With --max-size, the least recently used is removed until the rest is
/// small enough, whatever its age. A build that runs keeps what it has found in the cache or put there.
///
/// Examples:
///   kubexm-bundle cache gc --max-age 7d
///   kubexm-bundle cache gc --max-size 20G --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Folder of the cache [default: $KUBEXM_HOME/cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Remove what was not used for so long: 30d, 12h
    #[arg(long, value_name = "AGE", value_parser = age)]
    max_age: Option<Duration>,
    /// Remove the least recently used until the blobs take no more than this; K, M, G are powers of 1024, 0 is everything
    #[arg(long, value_name = "SIZE", value_parser = size_or_nothing)]
    max_size: Option<u64>,
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let done = collect(context.session, args.cache.as_deref(), args.max_age, args.max_size, args.dry_run)?;
    context.answer(&done, |done| {
        let goes = if done.dry_run { "would be removed" } else { "removed" };
        let summary = format!(
            "{} and {} {goes} ({}); {} kept ({})",
            counted_of(&done.removed, "blob"),
            counted(done.unfinished.count as u64, "unfinished file"),
            bytes(done.removed_bytes),
            counted(done.kept.count as u64, "blob"),
            bytes(done.kept.bytes),
        );
        let (count, used) = (done.in_use.count, bytes(done.in_use.bytes));
        let in_use = (count > 0).then(|| format!("{count} of them ({used}) since a build uses them now"));
        std::iter::once(summary).chain(in_use).collect()
    })
}

/// `30d`, `12h`, `90m`.
fn age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no age: expected days, hours or minutes, as in 30d, 12h or 90m");
    let (number, seconds) = match text.char_indices().last() {
        Some((at, 'd')) => (&text[..at], DAY),
        Some((at, 'h')) => (&text[..at], 3600),
        Some((at, 'm')) => (&text[..at], 60),
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

fn size_or_nothing(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { size::parse(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit_and_fit() {
        assert_eq!(age("30d"), Ok(Duration::from_secs(30 * DAY)));
        assert_eq!(age("90m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "30", "d", "-1d", "1.5h", "99999999999999999999d", "9999999999999999999d", "3é"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
