//! What a signature of a bundle says: which manifest, from which sources, and when. Its exact bytes are what is signed.

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The schema this program writes and reads.
pub const SCHEMA: &str = "kubexm.io/statement/v1";

/// The largest sequence: every reader of JSON has whole numbers up to it.
pub const MAX_SEQUENCE: u64 = (1 << 53) - 1;

/// When a bundle was signed, by which it is older or newer than another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedAt {
    /// Seconds of Unix time by the signer's clock.
    pub date: i64,
    /// A number that all who sign for a site count up, such as that of a CI run; it comes before the date.
    pub sequence: Option<u64>,
}

/// The statement that a signer makes about a bundle. It is beside the manifest, so that the same content has the same manifest
/// independent of when it is built and who signs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Statement {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Digest of manifest.json, which has the digest of every member but sources.json.
    pub manifest: Digest,
    /// Digest of sources.json, where the bundle had it when it was signed. It may be left out later; another one is
    /// refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Digest>,
    /// When it was signed, in seconds of Unix time by the signer's clock: which of two bundles of a signer is the newer one.
    pub date: i64,
    /// Where the signer counts: which of two bundles is the newer one, whatever their dates are. At most [`MAX_SEQUENCE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

impl Statement {
    /// About a bundle.
    pub fn new(manifest: Digest, sources: Option<Digest>, signed: SignedAt) -> Self {
        let SignedAt { date, sequence } = signed;
        Self { schema: SCHEMA.to_owned(), manifest, sources, date, sequence }
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
        let statement: Self = serde_json::from_str(text).map_err(|e| format!("is not a statement: {e}"))?;
        if statement.schema != SCHEMA {
            return Err(format!("is of schema {:?}, and this program reads {SCHEMA}", statement.schema));
        }
        if statement.sequence.is_some_and(|sequence| sequence > MAX_SEQUENCE) {
            return Err(format!("has a sequence above {MAX_SEQUENCE}"));
        }
        if statement.to_text() == text { Ok(statement) } else { Err("is not canonical JSON".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_and_no_other_form_is_taken() {
        for (sources, sequence) in [(None, None), (Some(Digest::of(b"s")), None), (None, Some(MAX_SEQUENCE))] {
            let signed = SignedAt { date: 1_790_000_000, sequence };
            let statement = Statement::new(Digest::of(b"m"), sources, signed);
            let text = statement.to_text();
            assert_eq!(Statement::parse(&text), Ok(statement));
            let huge = text.replacen(&MAX_SEQUENCE.to_string(), &(MAX_SEQUENCE + 1).to_string(), 1);
            assert_eq!(Statement::parse(&huge).is_ok(), sequence.is_none());
            for other in [format!("{text} "), text.replacen("v1", "v2", 1), text.replacen('{', "{\"a\":1,", 1)] {
                assert!(Statement::parse(&other).is_err(), "{other}");
            }
        }
    }
}
