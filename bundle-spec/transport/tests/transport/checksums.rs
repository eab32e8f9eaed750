//! Checksum files of any form never give a digest that is not in them.

use kubexm_transport::checksum::parse;
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_text_is_read_without_harm(text in "(?s).{0,400}", name in "[a-z.]{1,8}") {
        if let Some(digest) = parse(&text, &name) {
            prop_assert!(text.to_ascii_lowercase().contains(&digest.hex()));
        }
    }

    #[test]
    fn the_digest_of_a_name_is_found_among_others(
        lines in proptest::collection::btree_map("[a-z]{1,8}", "[0-9a-f]{64}", 2..8),
        pick in any::<prop::sample::Index>(),
        star in any::<bool>(),
    ) {
        let text: String =
            lines.iter().map(|(name, hex)| format!("{hex} {}{name}\n", if star { '*' } else { ' ' })).collect();
        let (name, hex) = lines.iter().nth(pick.index(lines.len())).unwrap();
        prop_assert_eq!(parse(&text, name).map(|d| d.hex()), Some(hex.clone()));
    }
}
