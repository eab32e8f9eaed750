//! What a field of cluster.yaml can hold. [`section!`] declares the fields themselves.

mod families;
mod inline;
mod named;
mod section;
mod text;
mod types;

use serde_json::{Map, Value};

pub(super) use self::families::{Cidr, OfEachFamily, OneOrTwo, OptionalPair};
pub(super) use self::inline::{inline, inline_in_raw};
pub(super) use self::named::Named;
pub(super) use self::section::{section, section_field};
pub(super) use self::text::*;
pub(super) use self::types::{Number, Port};
use crate::yaml::{At, Mapping, Object, Shape};

/// The type of a field in the file: [`HostName`], `Vec<HostName>`, a section. Many Rust types are their own (`bool`, `IpAddr`,
/// `Option<T>`, `Vec<T>`, enums of `keywords!`); a `String` or number of a certain form has a type here.
pub(super) trait FieldType {
    /// What the field of the struct holds.
    type Value;

    /// What the JSON Schema says of it.
    const SHAPE: Shape;

    /// Reads it. None when it is wrong, which was reported.
    fn read(at: &At<'_>) -> Option<Self::Value>;

    /// The value as it can be read again. None when it is not set, and its key is left out.
    fn show(value: &Self::Value) -> Option<Value>;
}

/// Reads a key that may be left out.
pub(super) fn optional<T: FieldType>(
    map: &Mapping<'_>,
    key: &str,
    default: impl FnOnce() -> T::Value,
) -> Option<T::Value> {
    map.get(key).map_or_else(|| Some(default()), |at| T::read(&at))
}

/// Reads a key that must be there. Where a secret is written in place of its source (`password` for `passwordFrom`), only the secret
/// is reported.
pub(super) fn required<T: FieldType>(map: &Mapping<'_>, of: &Object, key: &str) -> Option<T::Value> {
    let inline = of.refused().any(|secret| key.strip_suffix("From") == Some(secret) && map.get(secret).is_some());
    let found = if inline { map.get(key) } else { map.need(key) };
    found.and_then(|at| T::read(&at))
}

/// Puts a field into a document, if it is set.
pub(super) fn put<T: FieldType>(document: &mut Map<String, Value>, key: &str, value: &T::Value) {
    if let Some(value) = T::show(value) {
        document.insert(key.to_owned(), value);
    }
}
