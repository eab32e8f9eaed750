//! Sigstore's bundle v0.3 (`sigstore_bundle.proto`), as `cosign sign --new-bundle-format` makes it: an in-toto statement about an image
//! in an envelope (DSSE).

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_spec::Digest;
use serde::Deserialize;

use super::signed::{Form, LogEntry, Signed};

/// What an envelope of cosign holds.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
const STATEMENTS: [&str; 2] = ["https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"];
/// "I have signed this image". Attestations are statements too, with other predicates.
const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";
/// The most log entries that are read of one signature.
const ENTRIES: usize = 8;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    verification_material: Material,
    dsse_envelope: Option<Envelope>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Material {
    certificate: Option<Certificate>,
    #[serde(default)]
    tlog_entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Certificate {
    raw_bytes: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    log_index: Number,
    log_id: LogId,
    #[serde(default)]
    integrated_time: Option<Number>,
    inclusion_promise: Option<Promise>,
    #[serde(default)]
    canonicalized_body: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogId {
    key_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Promise {
    signed_entry_timestamp: String,
}

/// 64 bits, which protobuf's JSON has as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Number(i64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    predicate_type: String,
}

#[derive(Deserialize)]
struct Subject {
    digest: BTreeMap<String, String>,
}

/// Reads a layer.
pub(super) fn read(content: &[u8]) -> Result<Signed, String> {
    let Bundle { verification_material, dsse_envelope } =
        serde_json::from_slice(content).map_err(|e| format!("it is not a bundle of Sigstore: {e}"))?;
    let envelope = dsse_envelope.ok_or("it has no envelope with a statement")?;
    let payload = base64(&envelope.payload)?;
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err("its envelope does not hold an in-toto statement".to_owned());
    }
    let [signature] = envelope.signatures.as_slice() else {
        return Err("its envelope does not have exactly one signature".to_owned());
    };
    let Material { certificate, tlog_entries } = verification_material;
    let entries = tlog_entries.into_iter().take(ENTRIES).filter_map(|one| entry(one).transpose());
    Ok(Signed {
        about: about(&payload)?,
        repository: None,
        message: to_be_signed(&envelope.payload_type, &payload),
        payload: Digest::of(&payload),
        signature: base64(&signature.sig)?,
        form: Form::Envelope,
        certificate: certificate.map(|one| base64(&one.raw_bytes)).transpose()?,
        entries: entries.collect::<Result<_, _>>()?,
    })
}

/// The images that a statement signs.
fn about(payload: &[u8]) -> Result<Vec<Digest>, String> {
    let Statement { kind, subject, predicate_type } =
        serde_json::from_slice(payload).map_err(|e| format!("its statement cannot be read: {e}"))?;
    if !STATEMENTS.contains(&kind.as_str()) {
        return Err("its statement is of another kind".to_owned());
    }
    if predicate_type != PREDICATE {
        return Err("it is an attestation, and no signature of the image".to_owned());
    }
    let digest = |subject: &Subject| Digest::from_hex(subject.digest.get("sha256")?).ok();
    Ok(subject.iter().filter_map(digest).collect())
}

/// DSSE's "pre-authentication encoding", which is what is signed.
fn to_be_signed(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    message.extend(payload);
    message
}

/// None of an entry without the log's promise, which newer logs do not give.
fn entry(entry: Entry) -> Result<Option<LogEntry>, String> {
    let (Some(promise), Some(time)) = (entry.inclusion_promise, entry.integrated_time) else { return Ok(None) };
    let number = |number: Number| match number {
        Number::Number(number) => Some(number),
        Number::Text(text) => text.parse().ok(),
    };
    let broken = || "its log entry cannot be read".to_owned();
    let log: [u8; 32] = base64(&entry.log_id.key_id)?.try_into().map_err(|_| broken())?;
    Ok(Some(LogEntry {
        body: base64(&entry.canonicalized_body)?,
        integrated_time: number(time).ok_or_else(broken)?,
        log: Digest::from_bytes(log),
        index: number(entry.log_index).ok_or_else(broken)?,
        promise: base64(&promise.signed_entry_timestamp)?,
    }))
}

fn base64(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|_| "it has a field that is no base64".to_owned())
}
