//! Which registry, and where in it: `registry.corp:8443/prefix`.

use std::fmt;
use std::str::FromStr;

use kubexm_spec::reference::is_host;

/// The most characters of a repository's name that registries take (distribution, `reference`).
pub(crate) const NAME_LENGTH: usize = 255;

/// A registry with the folder of it that everything goes into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// `registry.corp:8443`.
    pub registry: String,
    /// `team/mirror`; empty for the registry itself.
    pub prefix: String,
}

/// Why a text names no registry.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{text:?} is not a registry: {problem}; wanted is HOST[:PORT][/PREFIX], as in registry.example.com:8443/mirror"
)]
pub struct ParseTargetError {
    text: String,
    problem: &'static str,
}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, ParseTargetError> {
        let wrong = |problem| ParseTargetError { text: text.to_owned(), problem };
        if text.contains("://") {
            return Err(wrong("leave the scheme out (https is spoken; --plain-http allows http)"));
        }
        if text.contains('@') {
            // Not repeated: it may hold a password.
            let text = text.rsplit('@').next().unwrap_or_default().to_owned();
            let problem = "a login does not belong into an address (--auth-file, --username with --password-from)";
            return Err(ParseTargetError { text, problem });
        }
        let (registry, prefix) = text.trim_end_matches('/').split_once('/').unwrap_or((text.trim_end_matches('/'), ""));
        if !is_host(registry) {
            return Err(wrong("its first part is not a host name with or without a port"));
        }
        if !prefix.is_empty() && !prefix.split('/').all(is_part) {
            return Err(wrong("a prefix has lower-case letters, digits, and `.`, `_`, `-` between them"));
        }
        Ok(Self { registry: registry.to_ascii_lowercase(), prefix: prefix.to_owned() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix.is_empty() {
            true => f.write_str(&self.registry),
            false => write!(f, "{}/{}", self.registry, self.prefix),
        }
    }
}

/// A part of a repository's name (distribution, `reference`): lower-case letters and digits, with a dot, one or two
/// underscores or any number of hyphens between them.
pub(crate) fn is_part(part: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let separators = part.split(|c: char| c.is_ascii() && alphanumeric(c as u8)).filter(|run| !run.is_empty());
    let good = |run: &str| matches!(run, "." | "_" | "__") || run.bytes().all(|b| b == b'-');
    let edge = |b: Option<u8>| b.is_some_and(alphanumeric);
    edge(part.bytes().next()) && edge(part.bytes().last()) && separators.into_iter().all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_read_with_or_without_a_port_and_a_prefix() {
        for (text, registry, prefix) in [
            ("registry.corp:8443/team/mirror", "registry.corp:8443", "team/mirror"),
            ("Registry.Corp", "registry.corp", ""),
            ("localhost:5000/", "localhost:5000", ""),
            ("harbor/a_b", "harbor", "a_b"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.registry.as_str(), target.prefix.as_str()), (registry, prefix), "{text}");
        }
    }

    #[test]
    fn what_no_registry_can_have_is_refused_and_no_password_is_repeated() {
        for text in [
            "",
            "https://r.test",
            "r.test:0",
            "r.test:99999",
            "r.test/Upper",
            "r.test/a//b",
            "r.test/a___b",
            "r.test/.a",
            "r_x",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        let refused = "robot:sesame@r.test/x".parse::<Target>().unwrap_err().to_string();
        assert!(!refused.contains("sesame") && refused.contains("--password-from"), "{refused}");
    }
}
