//! The errors for a secret that stands in the file itself.

use crate::yaml::{At, Mapping, Object, ProblemKind};

/// Keys that would hold a secret, and what is there instead.
const INLINE: [(&str, &str); 5] = [
    ("password", "use privateKeyPath, or passwordFrom: {env: NAME} or {file: PATH}"),
    ("sudoPassword", "use sudoPasswordFrom: {env: NAME} or {file: PATH}, or give the user sudo without a password"),
    ("privateKey", "use privateKeyPath"),
    ("adminPassword", "use adminPasswordFrom: {env: NAME} or {file: PATH}"),
    ("databasePassword", "use databasePasswordFrom: {env: NAME} or {file: PATH}"),
];

/// Refuses secrets that stand in the file itself, in a mapping that could have one.
pub(in crate::cluster) fn inline(map: &Mapping<'_>, of: &Object) {
    for (key, instead) in INLINE.into_iter().filter(|_| of.refused().next().is_some()) {
        if let Some(at) = map.get(key) {
            at.fail(ProblemKind::InlineSecret, format!("{key} is in a file that travels in the bundle"), instead);
        }
    }
}

/// Refuses what looks like a secret in a mapping of somebody else's format, at any depth.
pub(in crate::cluster) fn inline_in_raw(at: &At<'_>, instead: &str) {
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
