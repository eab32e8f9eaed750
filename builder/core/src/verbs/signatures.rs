//! Signatures as answers list them: without the bytes.

use kubexm_archive::Signature;
use serde::Serialize;

/// One signature. Listing it says nothing of whether it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    pub key_id: String,
    pub alg: String,
    /// In seconds of Unix time; none without a statement.
    pub date: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

/// All of them, in order.
pub fn listed(signatures: &[Signature]) -> Vec<Listed> {
    let one = |signature: &Signature| {
        let stated = signature.stated();
        Listed {
            key_id: signature.key_id.clone(),
            alg: signature.alg.clone(),
            date: stated.as_ref().map(|statement| statement.date),
            sequence: stated.and_then(|statement| statement.sequence),
        }
    };
    signatures.iter().map(one).collect()
}
