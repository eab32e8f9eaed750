//! Sizes and times for people.

/// Bytes in binary units with one decimal: `1.5 GiB`.
pub fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

/// Milliseconds as seconds or minutes: `0.4 s`, `12 s`, `3 min 20 s`.
pub fn seconds(milliseconds: u64) -> String {
    let whole = milliseconds / 1000;
    match whole {
        0..10 => format!("{whole}.{} s", milliseconds % 1000 / 100),
        10..120 => format!("{whole} s"),
        _ => format!("{} min {} s", whole / 60, whole % 60),
    }
}

/// Seconds of Unix time: `2026-11-23 09:30 UTC`; the number itself where no calendar has it.
pub fn shown_date(seconds: i64) -> String {
    match time::OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(date) => {
            let (hour, minute, _) = date.to_hms();
            format!("{} {hour:02}:{minute:02} UTC", date.date())
        }
        Err(_) => format!("{seconds} s after 1970"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_of_utc_to_the_minute() {
        assert_eq!(super::shown_date(1_795_424_400), "2026-11-23 09:00 UTC");
        assert_eq!(super::shown_date(i64::MAX), format!("{} s after 1970", i64::MAX));
    }

    #[test]
    fn durations_are_short_and_never_rounded_up() {
        assert_eq!(super::seconds(460), "0.4 s");
        assert_eq!(super::seconds(12_900), "12 s");
        assert_eq!(super::seconds(200_000), "3 min 20 s");
    }
}
