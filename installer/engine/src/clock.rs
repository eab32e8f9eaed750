//! Timestamps of journals, events and run ids: UTC, milliseconds.

use std::time::SystemTime;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The current time as RFC 3339 in UTC with milliseconds.
pub fn now() -> String {
    let now = OffsetDateTime::now_utc();
    let now = now.replace_millisecond(now.millisecond()).unwrap_or(now);
    // RFC 3339 covers every year of a working system clock; the epoch replaces a time out of range.
    now.format(&Rfc3339).unwrap_or_else(|_| "1970-01-01T00:00:00Z".to_owned())
}

/// Milliseconds of Unix time, by this machine's clock; zero before 1970.
pub(crate) fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Seconds of Unix time; zero before 1970.
pub fn unix_seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Seconds of Unix time as RFC 3339 in UTC; the number itself if it is out of range.
pub fn rfc3339(seconds: i64) -> String {
    let date = OffsetDateTime::from_unix_timestamp(seconds).ok();
    date.and_then(|date| date.format(&Rfc3339).ok()).unwrap_or_else(|| format!("{seconds} s after 1970"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_of_utc_and_those_of_no_calendar_are_numbers() {
        assert_eq!(super::rfc3339(1_790_000_001), "2026-09-21T14:13:21Z");
        assert_eq!(super::rfc3339(i64::MAX), format!("{} s after 1970", i64::MAX));
    }
}
