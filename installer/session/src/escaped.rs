//! Texts of others on one line.

/// A text on one line in which nothing is hidden: what is no visible character, and what turns the direction of writing
/// around, is escaped, line ends too ([`kubexm_spec::printable`] keeps them). The names in an unproven cluster.yaml are
/// chosen by who may want the question to be misread.
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
