//! Sizes, times and foreign names for people.

use std::borrow::Cow;

/// A text that changes nothing on a terminal but what it says: names come from bundles, and a bundle from anybody.
/// Control characters other than line ends and tabs become U+FFFD.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(harmful) { Cow::Owned(text.replace(harmful, "\u{fffd}")) } else { Cow::Borrowed(text) }
}

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

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_cannot_write_to_the_terminal_what_is_no_text() {
        assert_eq!(super::harmless("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(
            super::harmless("kube\u{1b}]0;x\u{7}\radm\u{9b}2J"),
            "kube\u{fffd}]0;x\u{fffd}\u{fffd}adm\u{fffd}2J"
        );
    }

    #[test]
    fn times_are_short_and_never_round_up_to_a_lie() {
        assert_eq!(super::seconds(460), "0.4 s");
        assert_eq!(super::seconds(12_900), "12 s");
        assert_eq!(super::seconds(200_000), "3 min 20 s");
    }
}
