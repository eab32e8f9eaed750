//! Credentials, which are not carried over: cluster.yaml is in every bundle.

use super::left::{Left, left_of};
use super::yaml::{Field, Map, Yaml};

/// The note about a value that is left out because of its name.
pub const LEFT_OUT: &str = "it looks like a secret, and no secret is in cluster.yaml, which travels in the bundle";

/// Whether what bears this name is a secret, as the reader of cluster.yaml has it: `oidc-client-secret`, `adminPassword`.
pub fn is_name(name: &str) -> bool {
    let name = name.to_lowercase();
    ["password", "passwd", "secret", "token"].iter().any(|word| name.ends_with(word))
}

/// An address without its login, where it has one (RFC 3986, 3.2.1).
pub fn without_login(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, after) = rest.split_at(end);
    let (_, host) = authority.rsplit_once('@')?;
    Some(format!("{scheme}://{host}{after}"))
}

/// A text with `…` for every login in it.
pub fn masked(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("://") {
        let end = end_of_authority(after);
        let host = after[..end].rfind('@').unwrap_or(0);
        shown.push_str(before);
        shown.push_str(if host == 0 { "://" } else { "://…" });
        shown.push_str(&after[host..end]);
        rest = &after[end..];
    }
    shown + rest
}

/// Whether a login with a password is anywhere in a text (`curl https://me:it@host/…`).
pub fn holds_password(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let authority = &rest[..end_of_authority(rest)];
        authority.rsplit_once('@').is_some_and(|(login, _)| login.contains(':'))
    })
}

fn end_of_authority(text: &str) -> usize {
    text.find(|c: char| "/?#\"'`<>\\".contains(c) || c.is_whitespace()).unwrap_or(text.len())
}

/// Takes out every text that has a login in an address.
pub fn scrub(map: &mut Map) -> Vec<Left> {
    let mut left = Vec::new();
    in_map(map, "", &mut left);
    left
}

fn in_map(map: &mut Map, path: &str, left: &mut Vec<Left>) {
    let block = map.origin.clone();
    map.fields.retain_mut(|Field { name, value, origin, .. }| {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let before = left.len();
        let keep = match holds_password(name) {
            true => in_value(&mut Yaml::Text(name.clone()), &path, left),
            false => in_value(value, &path, left),
        };
        if let Some(origin) = origin.as_ref().or(block.as_ref()) {
            left[before..].iter_mut().filter(|left| left.line == 0).for_each(|left| *left = left_of(left, origin));
        }
        keep
    });
}

fn in_value(value: &mut Yaml, path: &str, left: &mut Vec<Left>) -> bool {
    match value {
        Yaml::Text(text) if holds_password(text) => {
            let reason = format!("a login is in an address here: {LEFT_OUT}");
            left.push(Left { line: 0, path: path.to_owned(), reason });
            return false;
        }
        Yaml::Map(map) => in_map(map, path, left),
        Yaml::List(list) => {
            let mut index = 0;
            list.retain_mut(|item| {
                index += 1;
                in_value(item, &format!("{path}[{}]", index - 1), left)
            });
        }
        _ => {}
    }
    true
}
