//! `kubexm-bundle cache`.

use std::path::PathBuf;
use std::time::Duration;

use kubexm_builder::session::Session;
use kubexm_spec::event::EventKind;
use kubexm_spec::{Digest, ExitCode, counted, counted_of};
use kubexm_terminal::{Display, Failure, Mode, bytes};
use kubexm_transport::gc::Limits;
use serde_json::json;

use super::size;

const DAY: u64 = 86_400;

/// Look after the cache that builds share
///
/// Examples:
///   kubexm-bundle cache gc                           # what no build has used for 30 days
///   kubexm-bundle cache gc --max-size 20G --dry-run  # what would go to make it that small
///   kubexm-bundle cache verify                       # hash every blob again; damaged ones are removed
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Gc(Gc),
    Verify(Verify),
}

/// Remove what has not been used for long, never what a running build uses
///
/// Without a limit, what was not used for 30 days goes. With --max-size, the least recently used goes until the rest is small
/// enough, whatever its age. A build that runs keeps what it has found in the cache or put there.
///
/// Examples:
///   kubexm-bundle cache gc --max-age 7d
///   kubexm-bundle cache gc --max-size 20G --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
struct Gc {
    /// Folder of the cache [default: $KUBEXM_HOME/cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Remove what was not used for so long: 30d, 12h
    #[arg(long, value_name = "AGE", value_parser = age)]
    max_age: Option<Duration>,
    /// Remove the least recently used until the blobs take no more than this; K, M, G are powers of 1024, 0 is everything
    #[arg(long, value_name = "SIZE", value_parser = size_or_nothing)]
    max_size: Option<u64>,
    /// Only tell what would go
    #[arg(long)]
    dry_run: bool,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Hash every blob again, and remove those that are damaged
///
/// What was removed is fetched anew by the next build that needs it. Exit code 44 when something was damaged.
///
/// Examples:
///   kubexm-bundle cache verify
///   kubexm-bundle cache verify --cache /srv/kubexm/cache --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
struct Verify {
    /// Folder of the cache [default: $KUBEXM_HOME/cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Whether a machine reads.
    pub fn json(&self) -> bool {
        match &self.what {
            What::Gc(args) => args.json,
            What::Verify(args) => args.json,
        }
    }
}

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    match &args.what {
        What::Gc(args) => gc(args, session, display),
        What::Verify(args) => verify(args, session, display),
    }
}

fn gc(args: &Gc, session: &Session, display: &Display) -> Result<(), Failure> {
    let age = args.max_age.or(args.max_size.is_none().then_some(Duration::from_secs(30 * DAY)));
    let limits = Limits { age, size: args.max_size, dry_run: args.dry_run };
    let done = session.store(args.cache.as_deref())?.collect(&limits)?;
    let removed: u64 = done.removed.iter().map(|(_, size)| size).sum();
    if display.mode() == Mode::Json {
        let blobs: Vec<_> =
            done.removed.iter().map(|(digest, size)| json!({ "digest": digest, "size": size })).collect();
        let document = json!({
            "schema": "kubexm.io/cache-gc/v1", "dryRun": args.dry_run, "removed": blobs,
            "removedBytes": removed + done.unfinished.1,
            "unfinished": pair(done.unfinished), "kept": pair(done.kept), "inUse": pair(done.in_use),
        });
        display.answer(&document.to_string());
        return Ok(());
    }
    let goes = if args.dry_run { "would be removed" } else { "removed" };
    display.answer(&format!(
        "{} and {} {goes} ({}); {} kept ({})",
        counted_of(&done.removed, "blob"),
        counted(done.unfinished.0 as u64, "unfinished file"),
        bytes(removed + done.unfinished.1),
        counted(done.kept.0 as u64, "blob"),
        bytes(done.kept.1),
    ));
    if done.in_use.0 > 0 {
        display.answer(&format!("{} of them ({}) since a build uses them now", done.in_use.0, bytes(done.in_use.1)));
    }
    Ok(())
}

fn verify(args: &Verify, session: &Session, display: &Display) -> Result<(), Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let progress = |done, total| {
        // The answer is one document.
        if display.mode() != Mode::Json {
            let (what, unit) = ("verify".to_owned(), "bytes".to_owned());
            display.emit(EventKind::Progress { what, done, total: Some(total), unit });
        }
    };
    let checked = session.store(args.cache.as_deref())?.check(threads, &progress)?;
    let whole = checked.damaged.is_empty();
    if display.mode() == Mode::Json {
        let document = json!({
            "schema": "kubexm.io/cache-verify/v1", "ok": whole, "whole": pair(checked.whole),
            "damaged": checked.damaged, "strange": checked.strange,
        });
        display.answer(&document.to_string());
        return if whole { Ok(()) } else { Err(Failure::silent(ExitCode::Disk)) };
    }
    display.answer(&format!("whole: {} ({})", counted(checked.whole.0 as u64, "blob"), bytes(checked.whole.1)));
    for path in &checked.strange {
        display.answer(&format!("{} is no blob; it was left alone", path.display()));
    }
    if whole {
        return Ok(());
    }
    let all: Vec<String> = checked.damaged.iter().map(Digest::to_string).collect();
    let text = format!(
        "{} damaged, and removed: {}; the next build fetches what it needs of them anew; look at the disk",
        counted_of(&all, "blob"),
        all.join(", ")
    );
    Err(Failure::new(ExitCode::Disk, text))
}

fn pair((count, bytes): (usize, u64)) -> serde_json::Value {
    json!({ "count": count, "bytes": bytes })
}

/// `30d`, `12h`, `90m`.
fn age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no age: wanted days, hours or minutes, as in 30d, 12h or 90m");
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
