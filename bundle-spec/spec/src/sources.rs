//! `sources.json` of a bundle: where its artifacts are from. It is beside the manifest and not in it, so that the same content
//! has the same manifest behind whichever mirror it was fetched.

use serde::{Deserialize, Serialize};

use crate::{ArtifactKey, Platform};

/// The schema this program writes and reads.
pub const SCHEMA: &str = "kubexm.io/sources/v1";

/// Where the artifacts of a bundle are from. Addresses are without queries and credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sources {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Name of the zone in which the artifacts were fetched.
    pub zone: String,
    /// In the order of the manifest's artifacts. What is from the builder's own machine has no addresses.
    pub artifacts: Vec<ArtifactSources>,
}

/// The sources of one artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArtifactSources {
    /// Which artifact.
    pub key: ArtifactKey,
    /// None for what is the same on every platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// The address upstream, before any zone rewrites it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The addresses at which the zone lets ask for it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// The addresses that have answered with its bytes, sorted; of an image, repositories. Empty where they are not
    /// known: blobs that were brought into the cache by something that does not write down where from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
}

impl Sources {
    /// The sources of one artifact.
    pub fn find(&self, key: &ArtifactKey, platform: Option<Platform>) -> Option<&ArtifactSources> {
        self.artifacts.iter().find(|one| one.key == *key && one.platform == platform)
    }

    /// The document, canonical JSON (sorted keys, no blanks), with spaces up to `size` bytes.
    ///
    /// # Errors
    /// How many bytes it has, when these are more than `size`.
    pub fn to_padded(&self, size: usize) -> Result<Vec<u8>, usize> {
        let mut json = self.canonical();
        if json.len() > size {
            return Err(json.len());
        }
        json.resize(size, b' ');
        Ok(json)
    }

    /// Canonical JSON without padding.
    pub fn canonical(&self) -> Vec<u8> {
        // Texts in structs: there is nothing that could not be written.
        serde_json::to_value(self).and_then(|value| serde_json::to_vec(&value)).unwrap_or_default()
    }

    /// Reads the content of the member: the document, then spaces.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(content: &[u8]) -> Result<Self, String> {
        let sources: Self = serde_json::from_slice(content).map_err(|e| format!("is not what a bundle has: {e}"))?;
        if sources.schema != SCHEMA {
            return Err(format!("is of schema {:?}, and this program reads {SCHEMA}", sources.schema));
        }
        match sources.to_padded(content.len()) {
            Ok(again) if again == content => Ok(sources),
            _ => Err("is not canonical JSON followed by spaces".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Sources {
        let one = ArtifactSources {
            key: ArtifactKey::ExtraFile("x".into()),
            platform: None,
            asked: Some("https://a.test/x".into()),
            candidates: vec!["https://m.test/x".into(), "https://a.test/x".into()],
            from: vec!["https://m.test/x".into()],
        };
        Sources { schema: SCHEMA.into(), zone: "office".into(), artifacts: vec![one] }
    }

    #[test]
    fn it_reads_back_with_any_padding_and_other_forms_are_refused() {
        let len = sources().canonical().len();
        for size in [len, len + 1, len + 700] {
            assert_eq!(Sources::parse(&sources().to_padded(size).unwrap()), Ok(sources()));
        }
        assert_eq!(sources().to_padded(len - 1), Err(len));
        let text = String::from_utf8(sources().canonical()).unwrap();
        for other in [format!(" {text}"), format!("{text}\n"), text.replacen("office", "office\",\"x\":\"", 1)] {
            assert!(Sources::parse(other.as_bytes()).is_err(), "{other}");
        }
    }
}
