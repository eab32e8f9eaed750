//! Items of locks for people and machines.

use std::path::Path;

use kubexm_builder::diff::Changed;
use kubexm_builder::session::lockfile as core;
pub use kubexm_builder::session::lockfile::{at_hand, default_path, of_json, read};
use kubexm_spec::lock::LockItem;
use kubexm_spec::{Digest, Lock};
use kubexm_terminal::{Display, Failure, bytes};
use serde_json::{Value, json};

use super::{kinds, written};

/// Writes a lock: complete, or not at all.
pub fn write(path: &Path, lock: &Lock, force: bool, display: &Display) -> Result<(), Failure> {
    written::put(path, &kinds::LOCK, force, core::text(lock)?.as_bytes(), display)
}

/// One item: what, how much, and why its digest is trusted.
pub fn line(item: &LockItem) -> String {
    let platform = item.platform.map(|platform| platform.to_string()).unwrap_or_default();
    format!(
        "{:32} {:16} {platform:12} {:>10}  {:17} {}",
        item.key.to_string(),
        item.version,
        bytes(size(item)),
        item.trust.to_string(),
        item.digest().short()
    )
}

/// Bytes of all blobs of an item.
pub fn size(item: &LockItem) -> u64 {
    item.blobs().iter().map(|(_, size)| size).sum()
}

/// One change, for people.
pub fn changed_line(changed: &Changed<'_, LockItem>) -> String {
    let Some(named) = changed.new.or(changed.old) else { return String::new() };
    let of = |item: &LockItem| {
        let version = if item.version.is_empty() { "-" } else { item.version.as_str() };
        format!("{version} {} ({})", item.digest().short(), item.trust)
    };
    let platform = named.platform.map_or_else(|| "any".to_owned(), |platform| platform.to_string());
    let sides: Vec<String> = [changed.old, changed.new].into_iter().flatten().map(of).collect();
    let only = match (changed.old, changed.new) {
        (Some(old), Some(new)) if of(old) == of(new) && old.sources != new.sources => " (other sources)",
        (Some(old), Some(new)) if of(old) == of(new) => " (other parts)",
        _ => "",
    };
    let mark = changed.change().mark();
    format!("{mark} {:32} {platform:12} {}{only}", named.key.to_string(), sides.join(" -> "))
}

/// The same for machines.
pub fn changed_value(changed: &Changed<'_, LockItem>) -> Value {
    let one = |item: &LockItem| {
        let digest: Digest = item.digest();
        json!({ "version": item.version, "digest": digest, "size": size(item), "trust": item.trust })
    };
    let named = changed.new.or(changed.old);
    json!({
        "change": changed.change().as_str(),
        "key": named.map(|item| &item.key),
        "platform": named.and_then(|item| item.platform),
        "old": changed.old.map(one),
        "new": changed.new.map(one),
    })
}
