//! The clock of journals, events and run ids: UTC, milliseconds.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Now as RFC 3339 in UTC with milliseconds.
pub fn now() -> String {
    let now = OffsetDateTime::now_utc();
    let now = now.replace_millisecond(now.millisecond()).unwrap_or(now);
    // RFC 3339 can express every year a system clock gives; the epoch stands for a clock that is out of range.
    now.format(&Rfc3339).unwrap_or_else(|_| "1970-01-01T00:00:00Z".to_owned())
}
