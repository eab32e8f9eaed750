//! Names as numbers, by which they are looked up.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Of a build of this program always the same: it is never stored.
pub(crate) type NameHash = u64;

/// The number of a name, a capability or a path. Others may have it too.
pub(crate) fn hash(text: &str) -> NameHash {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
