//! The time, as a value that a caller can choose: signatures and keys have ends.

use std::time::{SystemTime, UNIX_EPOCH};

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
