//! The time, as a value that a caller can choose: signatures and keys expire.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;

/// Gives the time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> SystemTime;
}

/// This machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// Seconds of Unix time; 0 before 1970.
pub(crate) fn unix_seconds(clock: &dyn Clock) -> i64 {
    let since = clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The day in UTC of some seconds of Unix time, `2026-11-23`.
pub(crate) fn day(seconds: i64) -> String {
    let date = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH).date();
    format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day())
}
