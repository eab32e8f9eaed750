//! How fast something goes, and how long it will still take.

use std::time::{Duration, Instant};

use crate::text;

/// Before this, a pace says more about the start than about the way.
const EARLIEST: Duration = Duration::from_secs(1);

/// Since when, and from where.
pub(crate) struct Pace {
    what: String,
    start: Instant,
    from: u64,
}

impl Pace {
    /// Begins where something is now; continues where it is the same thing, further on.
    pub(crate) fn of(before: Option<Self>, what: &str, done: u64) -> Self {
        match before {
            Some(pace) if pace.what == what && pace.from <= done => pace,
            _ => Self { what: what.to_owned(), start: Instant::now(), from: done },
        }
    }

    /// `, 35.0 MiB/s, 1 min 20 s left`; nothing in the beginning.
    pub(crate) fn text(&self, done: u64, total: Option<u64>) -> String {
        progress_text(done - self.from.min(done), total.map(|total| total.saturating_sub(done)), self.start.elapsed())
    }
}

/// Of bytes since the start, and bytes left.
fn progress_text(bytes: u64, left: Option<u64>, elapsed: Duration) -> String {
    let rate = (bytes as f64 / elapsed.as_secs_f64()) as u64;
    if elapsed < EARLIEST || rate == 0 {
        return String::new();
    }
    let left = left.filter(|left| *left > 0).map(|left| {
        let milliseconds = left.saturating_mul(1000) / rate;
        format!(", {} left", text::seconds(milliseconds))
    });
    format!(", {}/s{}", text::bytes(rate), left.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_shown_when_known_and_the_remaining_time_when_bytes_remain() {
        let second = Duration::from_secs(1);
        assert_eq!(progress_text(10 << 20, Some(20 << 20), 2 * second), ", 5.00 MiB/s, 4.0 s left");
        assert_eq!(progress_text(10 << 20, Some(0), 2 * second), ", 5.00 MiB/s");
        assert_eq!(progress_text(10 << 20, None, 2 * second), ", 5.00 MiB/s");
        assert_eq!(progress_text(0, Some(5), 2 * second), "");
        assert_eq!(progress_text(1 << 30, Some(5), second / 2), "");
    }

    #[test]
    fn a_new_or_restarted_transfer_has_its_own_rate() {
        let pace = Pace::of(None, "copy", 100);
        assert_eq!(Pace::of(Some(pace), "copy", 500).from, 100);
        assert_eq!(Pace::of(Some(Pace::of(None, "copy", 100)), "verify", 500).from, 500);
        assert_eq!(Pace::of(Some(Pace::of(None, "copy", 100)), "copy", 3).from, 3);
    }
}
