//! Lock files: where they lie, how they are read and written, and their items for people.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_archive::check_values;
use kubexm_builder::BuildError;
use kubexm_builder::diff::Changed;
use kubexm_builder::extract::save;
use kubexm_spec::lock::LockItem;
use kubexm_spec::{Digest, ExitCode, Lock};
use kubexm_terminal::{Failure, bytes};
use serde_json::{Value, json};

use super::written;

/// The most bytes that a lock may have: a hundred times what any real one has.
const LIMIT: u64 = 64 << 20;

/// Beside cluster.yaml, under its name: `cluster.lock.json`.
pub fn default_path(cluster: Option<&Path>) -> PathBuf {
    cluster.unwrap_or(Path::new("cluster.yaml")).with_extension("lock.json")
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

/// Bytes of a text in which a lock says that it is one; in ours it is the first line.
const HEAD: u64 = 4096;

/// A file that is there and is no lock: none of any version, nor one that is cut off or has the marks of a merge in it. An
/// empty file is nobody's.
pub fn foreign(path: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    let text = String::from_utf8_lossy(&head);
    // As JSON or YAML has it: a text that only speaks of locks has no such field.
    let says = |(at, _): (usize, &str)| text[..at].trim_end_matches(['"', ' ', ':']).ends_with("schema");
    let ours = read.is_ok() && (head.is_empty() || text.match_indices("kubexm.io/lock/").any(says));
    (path.exists() && !ours).then(|| path.to_owned())
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

/// Writes one: whole, or not at all; behind a symbolic link, where its path is one.
pub fn write(path: &Path, lock: &Lock) -> Result<(), Failure> {
    let path = &written::through(path)?;
    let text =
        lock.to_text().map_err(|e| Failure::new(ExitCode::Internal, format!("cannot write a lock as text: {e}")))?;
    save(path, text.as_bytes()).map_err(|e| Failure::from_error(e.exit_code(), &e))
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
