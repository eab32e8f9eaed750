//! Small readers that every part uses.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::values;
use crate::yaml::{At, Mapping};

/// The value of an optional key: its default when it is not there, none when it is wrong.
pub(super) fn or<T>(found: Option<At<'_>>, default: T, read: impl FnOnce(&At<'_>) -> Option<T>) -> Option<T> {
    found.map_or(Some(default), |at| read(&at))
}

/// Like [`or`] for what has no default: `Some(None)` when the key is not there.
pub(super) fn maybe<T>(found: Option<At<'_>>, read: impl FnOnce(&At<'_>) -> Option<T>) -> Option<Option<T>> {
    found.map_or(Some(None), |at| read(&at).map(Some))
}

/// Every item of a list, or none when one of them is wrong (the others are still read).
pub(super) fn each<T>(at: &At<'_>, read: impl FnMut(&At<'_>) -> Option<T>) -> Option<Vec<T>> {
    if !at.is_list() {
        at.list();
        return None;
    }
    let read: Vec<Option<T>> = at.list().iter().map(read).collect();
    read.into_iter().collect()
}

/// Like [`each`], where the list must have an item.
pub(super) fn some<T>(at: &At<'_>, hint: &str, read: impl FnMut(&At<'_>) -> Option<T>) -> Option<Vec<T>> {
    let all = each(at, read)?;
    if all.is_empty() {
        at.bad("at least one is wanted", hint);
        return None;
    }
    Some(all)
}

/// One value, or a list of one or two: the first and the others.
pub(super) fn one_or_two<T>(at: &At<'_>, read: impl FnMut(&At<'_>) -> Option<T>) -> Option<(T, Vec<T>)> {
    let mut read = read;
    if !at.is_list() {
        return read(at).map(|one| (one, Vec::new()));
    }
    let mut all = some(at, "one, or one of each family", read)?;
    if all.len() > 2 {
        at.bad(format!("{} are too many", all.len()), "one, or one of each family (dual-stack)");
        return None;
    }
    Some((all.remove(0), all))
}

/// Values by names of the user's; a name that `key` refuses is reported at its value.
pub(super) fn named<T>(
    at: &At<'_>,
    key: impl Fn(&str) -> Result<String, String>,
    mut read: impl FnMut(&At<'_>) -> Option<T>,
) -> Option<BTreeMap<String, T>> {
    let map = at.open_mapping()?;
    let read = map.entries().map(|(name, at)| {
        let name = key(name).map_err(|problem| at.bad(problem, "")).ok();
        let value = read(&at);
        Some((name?, value?))
    });
    read.collect::<Vec<_>>().into_iter().collect()
}

/// A mapping of somebody else's format: kept as it is.
pub(super) fn raw(at: &At<'_>) -> Option<Map<String, Value>> {
    at.open_mapping()?;
    match at.json() {
        Value::Object(map) => Some(map),
        _ => None,
    }
}

/// A TCP port.
pub(super) fn port(at: &At<'_>) -> Option<u16> {
    at.number(1..=u32::from(u16::MAX)).and_then(|number| u16::try_from(number).ok())
}

/// A text of any form.
pub(super) fn text(at: &At<'_>) -> Option<String> {
    at.parsed(values::line)
}

/// Says of each of these keys that is there why it may not be.
pub(super) fn none_of(map: &Mapping<'_>, keys: &[&str], why: &str, hint: &str) {
    for at in keys.iter().filter_map(|key| map.get(key)) {
        at.bad(why, hint);
    }
}
