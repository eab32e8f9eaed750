//! Untrusted texts on one line.

/// A text on one line in which nothing is hidden: invisible characters, characters that change the writing direction
/// and line ends are escaped ([`kubexm_spec::printable`] keeps line ends). The author of an unproven cluster.yaml may
/// have chosen names that make the question misleading.
pub fn escaped(text: &str) -> String {
    let shown = |c: char| match c {
        '\'' | '"' => c.to_string(),
        _ => c.escape_debug().to_string(),
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn a_name_cannot_hide_a_part_of_the_question() {
        assert_eq!(escaped("/root/it's \"here\" é.key"), "/root/it's \"here\" é.key");
        let hidden = escaped("/root/pw\n   host\r\u{1b}[2K\u{202e}\u{200b}x");
        assert_eq!(hidden, r"/root/pw\n   host\r\u{1b}[2K\u{202e}\u{200b}x");
    }
}
