//! Lock files: where they lie, how they are read and written, and their items for people.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_archive::check_values;
use kubexm_builder::BuildError;
use kubexm_builder::diff::Changed;
use kubexm_spec::lock::LockItem;
use kubexm_spec::{Digest, ExitCode, Lock};
use kubexm_terminal::{Display, Failure, bytes};
use serde_json::{Value, json};

use super::{kinds, written};

/// The most bytes that a lock may have: a hundred times what any real one has.
const LIMIT: u64 = 64 << 20;

/// Beside cluster.yaml, under its name: `cluster.lock.json`. Of standard input, in this folder.
pub fn default_path(cluster: Option<&Path>) -> PathBuf {
    cluster.filter(|path| *path != Path::new("-")).unwrap_or(Path::new("cluster.yaml")).with_extension("lock.json")
}

/// Reads one, strictly.
pub fn read(path: &Path) -> Result<Lock, Failure> {
    let wrong = |problem: String| Failure::new(ExitCode::Config, format!("{}: {problem}", path.display()));
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_end(&mut text));
    if let Err(error) = read {
        let how = match error.kind() {
            std::io::ErrorKind::NotFound => "; `kubexm-bundle lock` makes one",
            _ => "",
        };
        return Err(Failure::new(ExitCode::Config, format!("cannot read the lock {}: {error}{how}", path.display())));
    }
    if text.len() as u64 > LIMIT {
        return Err(wrong(format!("it has more than the {LIMIT} bytes of a lock")));
    }
    parse(path, &text)
}

/// A lock, where a text says that it is one.
pub fn of_json(path: &Path, text: &[u8]) -> Result<Option<Lock>, Failure> {
    // Only a text that could be one is read twice.
    let mark = b"kubexm.io/lock/";
    if !text.windows(mark.len()).any(|window| window == mark) || check_values(text).is_err() {
        return Ok(None);
    }
    let schema =
        serde_json::from_slice::<Value>(text).ok().and_then(|value| Some(value["schema"].as_str()?.to_owned()));
    // Its version is looked at later: a newer lock is a lock.
    match schema.filter(|schema| schema.starts_with("kubexm.io/lock/")) {
        Some(_) => parse(path, text).map(Some),
        None => Ok(None),
    }
}

fn parse(path: &Path, text: &[u8]) -> Result<Lock, Failure> {
    let wrong = |problem: String| Failure::new(ExitCode::Config, format!("{}: {problem}", path.display()));
    check_values(text).map_err(|e| wrong(format!("it {e}")))?;
    Lock::parse(text).map_err(|e| wrong(e.to_string()))
}

/// One that was named; else the one beside cluster.yaml, where there is one.
pub fn at_hand(named: Option<&Path>, cluster: Option<&Path>) -> Result<Option<Lock>, Failure> {
    match named {
        Some(path) => read(path).map(Some),
        None => Some(default_path(cluster)).filter(|path| path.exists()).map(|path| read(&path)).transpose(),
    }
}

/// Writes one: complete, or not at all.
pub fn write(path: &Path, lock: &Lock, force: bool, display: &Display) -> Result<(), Failure> {
    let text =
        lock.to_text().map_err(|e| Failure::new(ExitCode::Internal, format!("cannot write a lock as text: {e}")))?;
    written::put(path, &kinds::LOCK, force, text.as_bytes(), display)
}

/// One item: what, how much, and why its digest is believed.
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

/// A build's error with what a machine may want of it.
pub fn failure(error: &BuildError) -> Failure {
    let failure = Failure::from_error(error.exit_code(), error);
    match error {
        BuildError::Drift(differences) => failure.with_data(json!({ "differences": differences })),
        _ => failure,
    }
}
