//! Choices of a format: an enum and the words that stand for it, written once.

/// A choice that a file writes as a word.
pub trait Keyword: Copy + Sized + 'static {
    /// Every choice, the default first where there is one.
    const ALL: &'static [Self];
    /// Their words, in the same order.
    const WORDS: &'static [&'static str];

    /// The word of this choice.
    fn word(self) -> &'static str;

    /// The choice that a word stands for.
    fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|choice| choice.word() == word)
    }
}

/// Declares an enum whose variants are words of a file; the first one is its default.
macro_rules! keywords {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $(#[$first_meta:meta])* $first:ident = $first_word:literal $(, $(#[$variant_meta:meta])* $variant:ident = $word:literal)* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $(#[$first_meta])*
            #[default]
            #[serde(rename = $first_word)]
            $first,
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)*
        }

        impl $crate::keywords::Keyword for $name {
            const ALL: &'static [Self] = &[Self::$first $(, Self::$variant)*];
            const WORDS: &'static [&'static str] = &[$first_word $(, $word)*];

            fn word(self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($crate::keywords::Keyword::word(*self))
            }
        }
    };
}

pub(crate) use keywords;
