//! A material: a text of the user that cluster.yaml names and a bundle carries by digest.

use std::path::PathBuf;

use serde::{Serialize, Serializer};

/// The most bytes of one material. What is larger, or no text, is for `spec.bundle.extraFiles`.
pub const MATERIAL_LIMIT: u64 = 1 << 20;

/// The most materials that a cluster.yaml may name, a file once for each field. Scripts have a handful, rules of signatures a key or a
/// trusted root each.
pub const MATERIALS: usize = 1000;

/// The most bytes of all materials of a cluster together: they are kept in memory, and in every plan. A real one is some KiB, a
/// trusted root of Sigstore ten.
pub const MATERIALS_LIMIT: u64 = 64 << 20;

/// A material, as a field of cluster.yaml names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaterialFile {
    /// Its path relative to cluster.yaml, without `.` and `..`: its name in the bundle ([`crate::ArtifactKey::Material`]).
    pub name: String,
    /// The path it is read from; the same until the folder of cluster.yaml is known.
    pub path: PathBuf,
}

impl MaterialFile {
    /// A path as cluster.yaml has it. It leads into the folder of cluster.yaml, so that a bundle names no folder of the machine that
    /// built it, and the same files can be laid beside another copy of the file.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{text:?} {what}; put the file beside cluster.yaml, or in a folder there");
        if text.starts_with('/') || text.starts_with('~') {
            return Err(wrong("is not relative to this file"));
        }
        if text.len() > 255 || text.contains(|c: char| c.is_control() || c == '\\') {
            return Err("expected a path of at most 255 bytes without control characters and backslashes".to_owned());
        }
        let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if parts.contains(&"..") {
            return Err(wrong("leads out of the folder of this file"));
        }
        if parts.is_empty() || text.ends_with('/') {
            return Err(wrong("names no file"));
        }
        let name = parts.join("/");
        Ok(Self { path: PathBuf::from(&name), name })
    }
}

/// Only the path in cluster.yaml: the path on this machine means nothing on another.
impl Serialize for MaterialFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_material_lies_below_the_folder_of_cluster_yaml() {
        for (text, name) in [("policy.yaml", "policy.yaml"), ("./a//b/./c.sh", "a/b/c.sh"), ("..a/b", "..a/b")] {
            assert_eq!(MaterialFile::parse(text).unwrap().name, name, "{text}");
        }
        for text in ["/etc/passwd", "~/a", "../a", "a/../../b", "", ".", "a/", "a\nb", "a\\b", &"x".repeat(256)] {
            assert!(MaterialFile::parse(text).is_err(), "{text:?}");
        }
    }
}
