//! What the tests of bundles share: samples, and a second, independent writer that can lie.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod forge;

use std::path::{Path, PathBuf};

use kubexm_archive::{ArchiveError, Bundle, Input, Options, Written, members, write};
use kubexm_spec::manifest::{Manifest, Member};
use kubexm_spec::{Digest, Platform};

/// A manifest that lists these contents: fixed members by name, blobs by digest.
pub fn manifest(contents: &[(String, Vec<u8>)]) -> Manifest {
    let members = contents
        .iter()
        .map(|(name, content)| Member { name: name.clone(), size: content.len() as u64, sha256: Digest::of(content) })
        .collect();
    Manifest {
        format: 2,
        name: "sample".into(),
        cluster: None,
        platforms: vec![Platform::LINUX_AMD64],
        zone: None,
        tool: "kubexm-bundle 0.1.0".into(),
        lock: Digest::of(b"lock: 1\n"),
        artifacts: vec![],
        members,
    }
}

/// Name and content of a blob.
pub fn blob(content: Vec<u8>) -> (String, Vec<u8>) {
    (members::blob_name(&Digest::of(&content)), content)
}

/// Bytes that do not compress, and bytes that do.
pub fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    let mut all = vec![0; len];
    for place in &mut all {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        *place = seed as u8;
    }
    all
}

/// A few small members, raw and compressed ones.
pub fn small() -> Vec<(String, Vec<u8>)> {
    let mut gzip = b"\x1f\x8b\x08\0".to_vec();
    gzip.extend(noise(700, 3));
    vec![
        ("lock.yaml".into(), b"lock: 1\n".to_vec()),
        ("oci-layout".into(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
        ("index.json".into(), br#"{"schemaVersion":2,"manifests":[]}"#.to_vec()),
        blob(gzip),
        blob(b"text ".repeat(300)),
        blob(Vec::new()),
    ]
}

pub fn inputs(contents: &[(String, Vec<u8>)]) -> Vec<Input<'static>> {
    contents.iter().map(|(name, content)| Input::bytes(name.clone(), content.clone())).collect()
}

pub fn write_with(target: &Path, contents: &[(String, Vec<u8>)], threads: usize) -> Result<Written, ArchiveError> {
    write(
        target,
        &manifest(contents),
        inputs(contents),
        &Options { level: 1, threads, ..Options::default() },
        &|_, _| {},
    )
}

/// Whether a file is a whole bundle: opened and verified.
pub fn is_whole(path: &Path) -> Result<(), String> {
    let bundle = Bundle::open(path).map_err(|e| e.to_string())?;
    kubexm_archive::verify(&bundle, 2, &|_, _| {}).map_err(|e| e.to_string())?;
    Ok(())
}

/// The Python that has what tests need (`scripts/test` makes it).
pub fn python() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || set("XDG_CACHE_HOME").unwrap_or_else(|| set("HOME").unwrap_or_default().join(".cache"));
    let python = set("KUBEXM_LAB").unwrap_or_else(|| cache().join("kubexm-lab")).join("python/bin/python");
    assert!(python.exists(), "{} is needed: scripts/test makes it", python.display());
    python
}
