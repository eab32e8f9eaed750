//! Sizes and dates as texts.

/// In binary units: `1.5 GiB`.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut number, mut unit) = (count as f64, None);
    for next in UNITS {
        if number < 1024.0 {
            break;
        }
        (number, unit) = (number / 1024.0, Some(next));
    }
    match unit {
        None => format!("{count} B"),
        Some(unit) if number < 10.0 => format!("{number:.2} {unit}"),
        Some(unit) if number < 100.0 => format!("{number:.1} {unit}"),
        Some(unit) => format!("{number:.0} {unit}"),
    }
}

/// Of seconds of Unix time: `2026-11-23 09:30 UTC`; the number itself where no calendar has it.
pub(super) fn date(seconds: i64) -> String {
    match time::OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(date) => format!("{} {:02}:{:02} UTC", date.date(), date.hour(), date.minute()),
        Err(_) => format!("{seconds} s after 1970"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_have_three_digits_and_dates_are_of_utc() {
        assert_eq!([0, 1023, 1536, 15 << 20].map(super::bytes), ["0 B", "1023 B", "1.50 KiB", "15.0 MiB"]);
        assert_eq!(super::bytes(u64::MAX), "16.0 EiB");
        assert_eq!(super::date(1_795_424_400), "2026-11-23 09:00 UTC");
    }
}
