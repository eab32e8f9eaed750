//! Small readers that several parts use.

use crate::yaml::{At, Mapping};

/// Every item of a list, or none when one of them is wrong (the others are still read).
pub(in crate::cluster) fn each<T>(at: &At<'_>, read: impl FnMut(&At<'_>) -> Option<T>) -> Option<Vec<T>> {
    if !at.is_list() {
        at.list();
        return None;
    }
    let read: Vec<Option<T>> = at.list().iter().map(read).collect();
    read.into_iter().collect()
}

/// Says of each of these keys that is there why it may not be.
pub(in crate::cluster) fn none_of(map: &Mapping<'_>, keys: &[&str], why: &str, hint: &str) {
    for at in keys.iter().filter_map(|key| map.get(key)) {
        at.bad(why, hint);
    }
}
