//! Kinds of documents that verbs write, and how an earlier one is recognised.

use std::io::Read;

use kubexm_archive::signature_slot;
use kubexm_files::{Access, Kind, head};
use kubexm_spec::names;
use serde_json::Value;

use crate::provenance::BUILDER;

/// A cluster.yaml is edited after it was written: it is always the operator's own.
pub const CLUSTER: Kind = Kind { name: "a cluster.yaml", recognise: None, access: Access::Umask };

/// A lock, also one of another version, cut off, or with the marks of a merge in it.
pub const LOCK: Kind = Kind { name: "a lock", recognise: Some(is_lock), access: Access::Umask };

/// A bill of materials of ours, CycloneDX.
pub const CYCLONEDX: Kind =
    Kind { name: "a CycloneDX document of kubexm-bundle", recognise: Some(is_cyclonedx), access: Access::Umask };

/// A bill of materials of ours, SPDX.
pub const SPDX: Kind =
    Kind { name: "an SPDX document of kubexm-bundle", recognise: Some(is_spdx), access: Access::Umask };

/// Provenance of ours.
pub const PROVENANCE: Kind =
    Kind { name: "provenance of kubexm-bundle", recognise: Some(is_provenance), access: Access::Umask };

/// A page about a bundle.
pub const PAGE: Kind = Kind { name: "a page of kubexm-bundle", recognise: Some(is_page), access: Access::Umask };

/// An overlay of the catalogue. What `catalogue refresh` wrote earlier may hold versions that a later one does not find, or edits.
pub const OVERLAY: Kind = Kind { name: "an overlay of the catalogue", recognise: None, access: Access::Umask };

/// Detached signatures.
pub const SIGNATURES: Kind =
    Kind { name: "a file of detached signatures", recognise: Some(is_signatures), access: Access::Umask };

/// Bytes of a text in which a lock says that it is one; in ours it is the first line.
const LOCK_HEAD: u64 = 4096;

fn is_lock(file: &mut dyn Read) -> bool {
    let head = head(file, LOCK_HEAD);
    let text = String::from_utf8_lossy(&head);
    // As JSON or YAML has it: a text that only speaks of locks has no such field.
    let says = |(at, _): (usize, &str)| text[..at].trim_end_matches(['"', ' ', ':']).ends_with("schema");
    text.match_indices("kubexm.io/lock/").any(says)
}

fn is_cyclonedx(file: &mut dyn Read) -> bool {
    let document = json(file);
    let tools = document.pointer("/metadata/tools/components").and_then(Value::as_array);
    document["bomFormat"] == "CycloneDX" && tools.is_some_and(|tools| tools.iter().any(|t| t["name"] == names::BUILDER))
}

fn is_spdx(file: &mut dyn Read) -> bool {
    let document = json(file);
    let ours = format!("Tool: {}-", names::BUILDER);
    let by_us = |creator: &Value| creator.as_str().is_some_and(|creator| creator.starts_with(&ours));
    let creators = document.pointer("/creationInfo/creators").and_then(Value::as_array);
    document["spdxVersion"].is_string() && creators.is_some_and(|creators| creators.iter().any(by_us))
}

fn is_provenance(file: &mut dyn Read) -> bool {
    json(file).pointer("/predicate/runDetails/builder/id").is_some_and(|id| id == BUILDER)
}

/// Its first lines, which have nothing of a bundle but its name.
fn is_page(file: &mut dyn Read) -> bool {
    let head = head(file, 4096);
    let text = String::from_utf8_lossy(&head);
    text.starts_with("<!DOCTYPE html>") && text.contains(": contents of the bundle</title>")
}

fn is_signatures(file: &mut dyn Read) -> bool {
    let mut text = Vec::new();
    file.read_to_end(&mut text).is_ok() && signature_slot::from_json(text.trim_ascii_end()).is_ok()
}

fn json(file: &mut dyn Read) -> Value {
    serde_json::from_reader(std::io::BufReader::new(file)).unwrap_or_default()
}
