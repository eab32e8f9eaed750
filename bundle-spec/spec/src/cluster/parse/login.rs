//! How a host is logged in to: `passwordFrom`, `sudoPasswordFrom`, and the jumps of `via`.

use std::path::PathBuf;

use super::hosts::single;
use super::kubernetes::port;
use super::{each, maybe, or, values};
use crate::cluster::{Jump, SecretSource};
use crate::yaml::{At, Keys, Mapping, ProblemKind};

const JUMP: Keys = Keys::all(&[
    "address",
    "port",
    "user",
    "privateKeyPath",
    "passwordFrom",
    "agent",
    // refused by `secrets`, with a reason of their own
    "password",
    "privateKey",
]);
const SOURCE: Keys = Keys::all(&["env", "file"]);

/// Refuses secrets that stand in the file itself.
pub(super) fn secrets(map: &Mapping<'_>) {
    for (key, instead) in [
        ("password", "use privateKeyPath, or passwordFrom: {env: NAME} or {file: PATH}"),
        ("sudoPassword", "use sudoPasswordFrom: {env: NAME} or {file: PATH}, or give the user sudo without a password"),
        ("privateKey", "use privateKeyPath"),
    ] {
        if let Some(at) = map.get(key) {
            at.fail(ProblemKind::InlineSecret, format!("{key} stands in a file that travels in the bundle"), instead);
        }
    }
}

/// `{env: NAME}` or `{file: PATH}`.
pub(super) fn secret_source(at: &At<'_>) -> Option<SecretSource> {
    let map = at.mapping(&SOURCE)?;
    match (map.get("env"), map.get("file")) {
        (Some(at), None) => at.parsed(variable).map(SecretSource::Env),
        (None, Some(at)) => at.parsed(file).map(SecretSource::File),
        _ => {
            at.bad("a secret comes from one place", "give {env: NAME} or {file: PATH}");
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

fn file(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("the path is empty".to_owned()) } else { Ok(PathBuf::from(text)) }
}

/// Jumps, the nearest first: mappings, or `user@host:port` (ssh's `ProxyJump`).
pub(super) fn via(at: &At<'_>) -> Option<Vec<Jump>> {
    each(at, |at| if at.is_mapping() { jump(at) } else { at.parsed(short_jump) })
}

fn jump(at: &At<'_>) -> Option<Jump> {
    let map = at.mapping(&JUMP)?;
    secrets(&map);
    let address = map.need("address").and_then(|at| single(&at)?.parsed(values::host));
    let port = or(map.get("port"), 22, port);
    let user = or(map.get("user"), "root".to_owned(), |at| at.parsed(values::user));
    let key = maybe(map.get("privateKeyPath"), |at| at.parsed(file));
    let password = maybe(map.get("passwordFrom"), secret_source);
    let agent = or(map.get("agent"), false, |at| at.boolean());
    Some(Jump {
        address: address?,
        port: port?,
        user: user?,
        private_key_path: key?,
        password: password?,
        agent: agent?,
    })
}

/// `bastion.example.com`, `ops@10.0.0.1`, `ops@bastion:2222`.
fn short_jump(text: &str) -> Result<Jump, String> {
    let (user, place) = text.rsplit_once('@').unwrap_or(("root", text));
    if user.contains(':') {
        return Err("a jump is written user@host:port, without a password; use passwordFrom".to_owned());
    }
    let (address, port) = match place.split_once(':') {
        Some((address, port)) => {
            let number = port.parse::<u16>().ok().filter(|number| *number > 0);
            (address, number.ok_or_else(|| format!("{port:?} is not a port"))?)
        }
        None => (place, 22),
    };
    Ok(Jump {
        address: values::host(address)?,
        port,
        user: values::user(user)?,
        private_key_path: None,
        password: None,
        agent: false,
    })
}
