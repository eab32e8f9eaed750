//! Sizes, dates, digests and names of files as texts.

use minijinja::Value;

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

/// Digits between two places where a digest may continue in the next line.
const DIGITS: usize = 16;

/// A digest or the id of a key, which breaks between groups of digits only; what is copied has no spaces in it. Anything else stays
/// as it is.
pub(super) fn hex(text: &str) -> Value {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Value::from(text);
    }
    let groups: Vec<&str> =
        digits.as_bytes().chunks(DIGITS).filter_map(|group| std::str::from_utf8(group).ok()).collect();
    let name = if digits.len() < text.len() { "sha256:<wbr>" } else { "" };
    Value::from_safe_string(format!("{name}{}", groups.join("<wbr>")))
}

/// A file of the machine that wrote the page, without its folders; an address as it is.
pub(super) fn base_name(path: &str) -> String {
    match path.contains("://") {
        true => path.to_owned(),
        false => path.trim_end_matches('/').rsplit('/').next().unwrap_or(path).to_owned(),
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

    #[test]
    fn digests_break_between_groups_and_what_is_no_digest_is_not_marked_safe() {
        let digest = super::hex(&format!("sha256:{}", "0123456789abcdef".repeat(2)));
        assert_eq!(digest.as_str(), Some("sha256:<wbr>0123456789abcdef<wbr>0123456789abcdef"));
        assert!(digest.is_safe() && !super::hex("<b>").is_safe() && !super::hex("").is_safe());
    }

    #[test]
    fn a_file_is_shown_without_its_folders_and_an_address_whole() {
        let shown =
            ["/home/me/site.tar.zst", "site.tar.zst", "volumes/", "https://h/x/site.tar.zst"].map(super::base_name);
        assert_eq!(shown, ["site.tar.zst", "site.tar.zst", "volumes", "https://h/x/site.tar.zst"]);
    }
}
