//! A length of time on the command line.

/// `90d`, `36h`, or a number of seconds; in seconds.
pub fn length(text: &str) -> Result<i64, String> {
    let (number, unit) = match text.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
        Some((at, _)) => text.split_at(at),
        None => (text, "s"),
    };
    let seconds = match unit {
        "s" => Some(1),
        "h" => Some(3_600),
        "d" => Some(86_400),
        _ => None,
    };
    let length = seconds.and_then(|seconds| number.parse::<u32>().ok().map(|number| i64::from(number) * seconds));
    length.ok_or_else(|| "wanted is a number of days such as 90d, of hours such as 36h, or of seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use super::length;

    #[test]
    fn a_length_is_in_days_hours_or_seconds_and_nothing_else() {
        for (text, seconds) in [("90d", 7_776_000), ("36h", 129_600), ("60", 60), ("60s", 60), ("0d", 0)] {
            assert_eq!(length(text), Ok(seconds), "{text}");
        }
        for text in ["", "d", "90 d", "-1d", "1w", "1dd", "99999999999d"] {
            assert!(length(text).is_err(), "{text}");
        }
    }
}
