//! The source of a secret, and that of a registry's password, which may also be in a file of docker's.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cluster::field::FieldType;
use crate::cluster::{RegistryPassword, SecretSource};
use crate::yaml::{At, Field, Mapping, Object, ProblemKind, Shape};

const ENV: Field = Field::new(
    "env",
    Shape::Form("^[A-Za-z_][A-Za-z0-9_]*$"),
    "An environment variable of the machine that needs the secret",
);
const FILE: Field = Field::new("file", Shape::Text, "A file there; one newline at its end is left out");
/// The key of a file of docker's.
const DOCKER: &str = "dockerConfig";

const ONE: &str = "a secret has one source";

/// `{env: NAME}` or `{file: PATH}`.
const SOURCE: Object =
    Object::new("Where a secret is read from when it is needed: one of the two", &[ENV, FILE]).one_of(&["env", "file"]);
const SOURCES: &str = "give {env: NAME} or {file: PATH}";

/// The same, or `{dockerConfig: PATH}`.
const PASSWORD: Object = Object::new(
    "Where the password is read from when it is needed: one of the three",
    &[
        ENV,
        FILE,
        Field::new(
            DOCKER,
            Shape::Text,
            "A config.json of docker or auth.json of podman there: what it, or a helper that it names, has for this registry and user",
        ),
    ],
)
.one_of(&["env", "file", DOCKER]);
const PASSWORDS: &str = "give {env: NAME}, {file: PATH} or {dockerConfig: PATH}";

impl FieldType for SecretSource {
    type Value = Self;

    const SHAPE: Shape = Shape::Mapping(&SOURCE);

    fn read(at: &At<'_>) -> Option<Self> {
        refuse_inline(at, SOURCES)?;
        if let Some(docker) = at.open_mapping_quiet().and_then(|map| map.get(DOCKER)) {
            docker.bad(
                "a file of docker's has passwords of registries: only spec.registry.auths takes dockerConfig",
                SOURCES,
            );
            return None;
        }
        source(at, &at.mapping(&SOURCE)?, SOURCES)
    }

    fn show(value: &Self) -> Option<Value> {
        Some(match value {
            Self::Env(name) => json!({"env": name}),
            Self::File(path) => json!({"file": PathBuf::show(path)}),
        })
    }
}

impl FieldType for RegistryPassword {
    type Value = Self;

    const SHAPE: Shape = Shape::Mapping(&PASSWORD);

    fn read(at: &At<'_>) -> Option<Self> {
        refuse_inline(at, PASSWORDS)?;
        let map = at.mapping(&PASSWORD)?;
        let Some(docker) = map.get(DOCKER) else {
            return source(at, &map, PASSWORDS).map(Self::Secret);
        };
        if map.get("env").is_some() || map.get("file").is_some() {
            at.bad(ONE, PASSWORDS);
            return None;
        }
        PathBuf::read(&docker).map(Self::DockerConfig)
    }

    fn show(value: &Self) -> Option<Value> {
        match value {
            Self::Secret(source) => SecretSource::show(source),
            Self::DockerConfig(path) => Some(json!({DOCKER: PathBuf::show(path)})),
        }
    }
}

/// Everybody's first mistake with such a field: what stands there is the secret.
fn refuse_inline(at: &At<'_>, hint: &str) -> Option<()> {
    if at.text_quiet().is_some_and(|text| !text.is_empty()) {
        at.fail(ProblemKind::InlineSecret, "a secret is in a file that travels in the bundle", hint);
        return None;
    }
    Some(())
}

/// A variable or a file.
fn source(at: &At<'_>, map: &Mapping<'_>, hint: &str) -> Option<SecretSource> {
    match (map.get("env"), map.get("file")) {
        (Some(at), None) => at.parsed(variable).map(SecretSource::Env),
        (None, Some(at)) => PathBuf::read(&at).map(SecretSource::File),
        _ => {
            at.bad(ONE, hint);
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
