//! The source of a secret.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cluster::SecretSource;
use crate::cluster::field::FieldType;
use crate::yaml::{At, Field, Object, ProblemKind, Shape};

/// `{env: NAME}` or `{file: PATH}`.
const SOURCE: Object = Object::new(
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

const SOURCES: &str = "give {env: NAME} or {file: PATH}";

impl FieldType for SecretSource {
    type Value = Self;

    const SHAPE: Shape = Shape::Mapping(&SOURCE);

    fn read(at: &At<'_>) -> Option<Self> {
        if at.text_quiet().is_some_and(|text| !text.is_empty()) {
            // Everybody's first mistake with such a field. What stands there is the secret.
            at.fail(ProblemKind::InlineSecret, "a secret is in a file that travels in the bundle", SOURCES);
            return None;
        }
        let map = at.mapping(&SOURCE)?;
        match (map.get("env"), map.get("file")) {
            (Some(at), None) => at.parsed(variable).map(Self::Env),
            (None, Some(at)) => PathBuf::read(&at).map(Self::File),
            _ => {
                at.bad("a secret has one source", SOURCES);
                None
            }
        }
    }

    fn show(value: &Self) -> Option<Value> {
        Some(match value {
            Self::Env(name) => json!({"env": name}),
            Self::File(path) => json!({"file": PathBuf::show(path)}),
        })
    }
}

/// An environment variable's name (POSIX.1, 8.1). What is none may be the secret itself, and is not shown.
fn variable(text: &str) -> Result<String, String> {
    let good = !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if good { Ok(text.to_owned()) } else { Err("this is not the name of an environment variable".to_owned()) }
}
