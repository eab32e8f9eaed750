//! Foreign texts on their way to people: names in bundles, what hosts and servers answer.

use std::borrow::Cow;

/// A text that does nothing to a terminal and shows its characters in the order in which they are. Control characters other
/// than line ends and tabs (ECMA-48), characters that change the direction of writing (Unicode UAX 9), and separators of
/// lines and paragraphs become U+FFFD. A carriage return before a line end goes.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("\r\n", "\n").replace(is_harmful, "\u{fffd}"))
}

fn is_harmful(c: char) -> bool {
    let directs = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && !matches!(c, '\n' | '\t')) || directs || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Most characters of a text on one line.
const LONGEST: usize = 2_000;

/// A foreign text as a part of a message: on one line, so that it begins none of its own, and no longer than anybody reads.
pub fn one_line(text: &str) -> String {
    let shown = |c: char| if is_harmful(c) || c.is_whitespace() { ' ' } else { c };
    let mut line: String = text.chars().take(LONGEST).map(shown).collect();
    if text.chars().nth(LONGEST).is_some() {
        line.push('\u{2026}');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, one_line, printable};

    #[test]
    fn a_foreign_text_begins_no_line_of_its_own() {
        assert_eq!(one_line("a\nthe bundle is signed\r\n\u{1b}[2Jb\u{2028}c é"), "a the bundle is signed   [2Jb c é");
        assert_eq!(one_line(&"é".repeat(10_000)).chars().count(), LONGEST + 1);
        assert_eq!(one_line(&"é".repeat(LONGEST)).chars().count(), LONGEST);
    }

    #[test]
    fn a_foreign_text_cannot_write_to_the_terminal_what_is_no_text() {
        assert_eq!(printable("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(printable("one\r\ntwo"), "one\ntwo");
        assert_eq!(
            printable("kube\u{1b}]0;x\u{7}\radm\u{9b}2J\u{7f}"),
            "kube\u{fffd}]0;x\u{fffd}\u{fffd}adm\u{fffd}2J\u{fffd}"
        );
    }

    #[test]
    fn a_foreign_text_cannot_be_shown_in_another_order_than_it_has() {
        for c in ['\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}', '\u{2028}'] {
            assert_eq!(printable(&format!("host{c}1")), "host\u{fffd}1");
        }
    }
}
