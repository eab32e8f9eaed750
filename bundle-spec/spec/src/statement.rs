//! What a signature of a bundle says: which manifest, from which sources, and when. Its exact bytes are what is signed.

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The schema this program writes and reads.
pub const SCHEMA: &str = "kubexm.io/statement/v1";

/// The statement that a signer makes about a bundle. It stands beside the manifest, so that the same content has the same manifest
/// whenever it is built and whoever signs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Statement {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Of manifest.json, which has the digest of every member but sources.json.
    pub manifest: Digest,
    /// Of sources.json, where the bundle had it when it was signed. It may be left out later; another one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Digest>,
    /// When it was signed, in seconds of Unix time by the signer's clock: which of two bundles of a signer is the newer one.
    pub date: i64,
}

impl Statement {
    /// About a bundle.
    pub fn new(manifest: Digest, sources: Option<Digest>, date: i64) -> Self {
        Self { schema: SCHEMA.to_owned(), manifest, sources, date }
    }

    /// Canonical JSON: sorted keys, no blanks.
    pub fn to_text(&self) -> String {
        // Texts and a number: there is nothing that could not be written.
        serde_json::to_value(self).map(|value| value.to_string()).unwrap_or_default()
    }

    /// Reads the text of [`Self::to_text`], and no other form.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let statement: Self = serde_json::from_str(text).map_err(|e| format!("is no statement: {e}"))?;
        if statement.schema != SCHEMA {
            return Err(format!("is of schema {:?}, and this program reads {SCHEMA}", statement.schema));
        }
        if statement.to_text() == text { Ok(statement) } else { Err("is not canonical JSON".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_and_no_other_form_is_taken() {
        for sources in [None, Some(Digest::of(b"s"))] {
            let statement = Statement::new(Digest::of(b"m"), sources, 1_790_000_000);
            let text = statement.to_text();
            assert_eq!(Statement::parse(&text), Ok(statement));
            for other in [format!("{text} "), text.replacen("v1", "v2", 1), text.replacen('{', "{\"a\":1,", 1)] {
                assert!(Statement::parse(&other).is_err(), "{other}");
            }
        }
    }
}
