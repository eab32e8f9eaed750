//! Secrets: their sources, and the error for one in the file itself.

use super::values;
use crate::cluster::SecretSource;
use crate::yaml::{At, Field, Mapping, Object, ProblemKind, Shape};

/// `{env: NAME}` or `{file: PATH}`.
pub(super) const SOURCE: Object = Object::new(
    "Where a secret is read from when it is needed: one of the two",
    &[
        Field::new(
            "env",
            Shape::Form("^[A-Za-z_][A-Za-z0-9_]*$"),
            "An environment variable of the machine that needs the secret",
        ),
        Field::new("file", Shape::Text, "A file there; one newline at its end is left out"),
    ],
)
.one_of(&["env", "file"]);

/// Keys that would hold a secret, and what is there instead.
const INLINE: [(&str, &str); 5] = [
    ("password", "use privateKeyPath, or passwordFrom: {env: NAME} or {file: PATH}"),
    ("sudoPassword", "use sudoPasswordFrom: {env: NAME} or {file: PATH}, or give the user sudo without a password"),
    ("privateKey", "use privateKeyPath"),
    ("adminPassword", "use adminPasswordFrom: {env: NAME} or {file: PATH}"),
    ("databasePassword", "use databasePasswordFrom: {env: NAME} or {file: PATH}"),
];

/// Refuses secrets that stand in the file itself.
pub(super) fn inline(map: &Mapping<'_>) {
    for (key, instead) in INLINE {
        if let Some(at) = map.get(key) {
            at.fail(ProblemKind::InlineSecret, format!("{key} is in a file that travels in the bundle"), instead);
        }
    }
}

/// Refuses what looks like a secret in a mapping of somebody else's format, at any depth.
pub(super) fn inline_in_raw(at: &At<'_>, instead: &str) {
    if at.is_list() {
        at.list().iter().for_each(|item| inline_in_raw(item, instead));
        return;
    }
    let Some(map) = at.open_mapping_quiet() else { return };
    for (key, at) in map.entries() {
        let name = key.to_lowercase();
        let secret = ["password", "passwd", "secret", "token"].iter().any(|word| name.ends_with(word));
        if secret && at.text_quiet().is_some_and(|text| !text.is_empty()) {
            at.fail(ProblemKind::InlineSecret, format!("{key} is in a file that travels in the bundle"), instead);
        }
        inline_in_raw(&at, instead);
    }
}

/// `{env: NAME}` or `{file: PATH}`.
pub(super) fn source(at: &At<'_>) -> Option<SecretSource> {
    let map = at.mapping(&SOURCE)?;
    match (map.get("env"), map.get("file")) {
        (Some(at), None) => at.parsed(variable).map(SecretSource::Env),
        (None, Some(at)) => at.parsed(values::path).map(SecretSource::File),
        _ => {
            at.bad("a secret has one source", "give {env: NAME} or {file: PATH}");
            None
        }
    }
}

/// An environment variable's name (POSIX.1, 8.1). What is none may be the secret itself, and is not shown.
fn variable(text: &str) -> Result<String, String> {
    let good = !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if good { Ok(text.to_owned()) } else { Err("this is not the name of an environment variable".to_owned()) }
}
