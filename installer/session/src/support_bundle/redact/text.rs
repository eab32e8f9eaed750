//! Secrets in texts that no parser reads: log lines, shell, broken JSON, fragments of YAML.
//!
//! A quoted value ends with its quote. The end of an unquoted value is unknown: the rest of its line is removed, with
//! the indented lines below it.

use std::sync::LazyLock;

use kubexm_spec::credential;
use regex::{Captures, Regex};

use super::mark::MARK;

/// Words that name a secret at the end of a key: `registryPassword`, `client-key-data`, `certificateKey`.
const NAMES: &str = "(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|client-key-data|\
                     (?:certificate|private|api|access|encryption|client|secret|signing|shared|master|ssh)[-_]?key|\
                     auth(?:orization)?|key-data)s?";

/// After so many characters without a closing quote, a quote counts as unclosed.
const LONGEST_QUOTED: usize = 64 << 10;
/// What is before a key on its line is looked at so far, in bytes: it is the indentation.
const LONGEST_INDENT: usize = 4 << 10;

/// A name at the end of a key.
static NAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"(?i)(?:^|[^a-z]|[a-z])(?:{NAMES})$")).ok());
/// A key and the separator before its value. The quote after a key may be escaped, as in JSON within JSON.
static FIELD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(&format!(r#"(?i)\b[\w.-]*(?:{NAMES})\\*["']?(?:[ \t]*(?::=|=>|[:=])|[ \t]*\r?\n[ \t]*:[ \t])[ \t]*"#))
        .ok()
});
/// A command-line option.
static OPTION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r#"(?i)--[\w-]*(?:{NAMES})\\*["']?[ \t=,]+"#)).ok());
/// The start of a block scalar (YAML 1.2.2, 8.1).
static BLOCK: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?:[!&]\S*[ \t]+)*[|>][+-]?[0-9]?[+-]?[ \t]*(?:#.*)?$").ok());

/// Patterns of secrets; the first group, if there is one, is kept.
static SHAPES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let shapes = [
        // A private key (RFC 7468, OpenPGP): complete, truncated, or on one line of JSON.
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
        // The end of one whose beginning was cut off.
        r"(?s)\A[A-Za-z0-9+/=\s]*-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----",
        // `Authorization: Bearer …`.
        r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}",
        // A bootstrap token of kubeadm.
        r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b",
        // A JSON web token (RFC 7519).
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
        // User and password of a URL.
        r"(://)[^/\s:@]+:[^/\s]+@",
        // A password's hash (crypt(5)).
        r"\$(?:y|6|5|2[aby]|1)\$[./A-Za-z0-9$]{8,}",
    ];
    // What bundles and plans may not have either, by the same list.
    let tokens = credential::TOKENS.map(regex::escape).join("|");
    let named = [
        format!(r"\b(?:{tokens})[A-Za-z0-9._-]{{{},}}", credential::TOKEN_LENGTH),
        format!(r"(?i){}[a-z0-9]*", regex::escape(credential::AGE_KEY)),
        format!(r"(?s){}.*?(?:Private-MAC: *[0-9a-f]*|\z)", regex::escape(credential::PUTTY_KEY)),
    ];
    // The patterns are constant, and a test uses each of them.
    shapes.into_iter().chain(named.iter().map(String::as_str)).filter_map(|shape| Regex::new(shape).ok()).collect()
});

/// Whether a key's value is a secret.
pub(super) fn names_a_secret(key: &str) -> bool {
    NAME.as_ref().is_none_or(|name| name.is_match(key.trim()))
}

/// Whether a command-line word is an option with a secret value.
pub(super) fn is_secret_option(word: &str) -> bool {
    word.starts_with('-') && names_a_secret(word)
}

/// The text without everything that looks like a secret.
pub(super) fn redact(text: &str) -> String {
    let mut text = shapes(text);
    for (pattern, option) in [(&*FIELD, false), (&*OPTION, true)] {
        if let Some(pattern) = pattern {
            text = values(&text, pattern, option);
        }
    }
    text
}

fn shapes(text: &str) -> String {
    let mut text = text.to_owned();
    for shape in SHAPES.iter() {
        let replaced = shape.replace_all(&text, |found: &Captures<'_>| {
            let kept = found.get(1).map_or("", |group| group.as_str());
            let end = if found[0].ends_with('@') { "@" } else { "" };
            format!("{kept}{MARK}{end}")
        });
        text = replaced.into_owned();
    }
    text
}

/// Replaces the value after every match.
fn values(text: &str, pattern: &Regex, option: bool) -> String {
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    while let Some(found) = pattern.find_at(text, at) {
        out.push_str(&text[at..found.end()]);
        let (end, shown) = value(text, found.start(), found.end(), option);
        out.push_str(&shown);
        at = end;
    }
    out.push_str(&text[at..]);
    out
}

/// Where the value at `start` ends, and its replacement. The key starts at `key`.
fn value(text: &str, key: usize, start: usize, option: bool) -> (usize, String) {
    let rest = &text[start..];
    let near = text.floor_char_boundary(key.saturating_sub(LONGEST_INDENT));
    let line_start = text[near..key].rfind('\n').map_or(near, |at| near + at + 1);
    let before = text[line_start..key].trim_end_matches(['"', '\'']);
    let opens_line = before.chars().all(|c| c.is_whitespace() || matches!(c, '-' | '?' | '{' | ','));
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    if let Some(quote) = quote
        && let Some(length) = quoted(rest, quote)
        && (opens_line || !rest[..length].contains('\n'))
        && rest[length..].chars().next().is_none_or(|c| c.is_whitespace() || matches!(c, ',' | '}' | ']' | ')' | ';'))
    {
        return (start + length, format!("{quote}{MARK}{quote}"));
    }
    // Looked for only where the search goes on behind it: a line may have millions of values.
    let line_end = || rest.find('\n').unwrap_or(rest.len());
    if option {
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        // An unclosed quote, or one that is closed in the middle of a word.
        let length = if rest[..length].contains(['"', '\'', '\\']) { line_end() } else { length };
        return (start + length, MARK.to_owned());
    }
    let line_end = line_end();
    let line = &rest[..line_end];
    let column = text[line_start..key].chars().count();
    let below = if opens_line { indented(&rest[line_end..], column) } else { 0 };
    let is_block = BLOCK.as_ref().is_some_and(|block| block.is_match(line.trim_end()));
    match line.trim_end() {
        "" if below == 0 => (start, String::new()),
        "" => (start + line_end + below, format!(" {MARK}")),
        // If the key is not at the start of the line, its indentation is unknown: all indented lines are removed.
        _ if is_block && !opens_line => (start + line_end + indented(&rest[line_end..], 0), MARK.to_owned()),
        _ => (start + line_end + below, MARK.to_owned()),
    }
}

/// Length of a quoted text with its quotes, if it ends within [`LONGEST_QUOTED`] characters.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices().take(LONGEST_QUOTED).skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quote == '"' => drop(chars.next()),
            '\'' if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') => drop(chars.next()),
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Length in bytes of the leading lines that are empty or indented by more than `column`, up to the last that is not
/// empty.
fn indented(text: &str, column: usize) -> usize {
    let (mut end, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches(['\n', '\r']);
        let indent = content.chars().take_while(|c| matches!(c, ' ' | '\t')).count();
        at += line.len();
        if content.trim().is_empty() {
            continue;
        }
        if indent <= column {
            break;
        }
        end = at - (line.len() - content.len());
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The way to the line's end is not gone once for each of them: that would be days.
    #[test]
    fn a_line_may_have_very_many_values() {
        const MANY: usize = 400_000;
        for one in ["--token zzz ", "token=zzz ", "token=\"zzz\" "] {
            let redacted = redact(&one.repeat(MANY));
            assert!(!redacted.contains("zzz"), "{one}: {}", &redacted[..80]);
        }
    }

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(SHAPES.len(), 10);
        assert!(NAME.is_some() && FIELD.is_some() && OPTION.is_some() && BLOCK.is_some());
    }
}
