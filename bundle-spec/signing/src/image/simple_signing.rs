//! Simple signing (containers/image, `containers-signature.5`), as cosign keeps it: the payload is a layer, and what vouches for it is
//! in the layer's annotations.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_spec::Digest;
use serde::Deserialize;

use super::signed::{Form, LogEntry, Signed};

const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const LOG_ENTRY: &str = "dev.sigstore.cosign/bundle";
/// What cosign calls what it signs.
const TYPE: &str = "cosign container image signature";

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    identity: Identity,
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Identity {
    docker_reference: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Image {
    docker_manifest_digest: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    signed_entry_timestamp: String,
    payload: EntryPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryPayload {
    body: String,
    integrated_time: i64,
    log_index: i64,
    #[serde(rename = "logID")]
    log_id: String,
}

/// Reads a layer and its annotations.
pub(super) fn read(payload: &[u8], annotations: &BTreeMap<String, String>) -> Result<Signed, String> {
    let Payload { critical } =
        serde_json::from_slice(payload).map_err(|e| format!("what it signs cannot be read: {e}"))?;
    if critical.kind != TYPE {
        return Err(format!("what it signs is not a {TYPE}"));
    }
    let about = critical.image.docker_manifest_digest.parse().map_err(|_| "it is about no digest".to_owned())?;
    let signature = annotations.get(SIGNATURE).ok_or_else(|| format!("it has no annotation {SIGNATURE}"))?;
    let signature = STANDARD.decode(signature).map_err(|_| "its signature is no base64".to_owned())?;
    let certificate = annotations.get(CERTIFICATE).filter(|text| !text.is_empty()).map(|text| certificate(text));
    let entry = annotations.get(LOG_ENTRY).filter(|text| !text.is_empty()).map(|text| entry(text));
    let named = critical.identity.docker_reference;
    Ok(Signed {
        about: vec![about],
        repository: (!named.is_empty()).then_some(named),
        message: payload.to_vec(),
        payload: Digest::of(payload),
        signature,
        form: Form::SimpleSigning,
        certificate: certificate.transpose()?,
        entries: entry.transpose()?.into_iter().collect(),
    })
}

fn certificate(text: &str) -> Result<Vec<u8>, String> {
    let block = pem::parse(text).ok().filter(|block| block.tag() == "CERTIFICATE");
    block.map(pem::Pem::into_contents).ok_or_else(|| "its certificate is no PEM".to_owned())
}

fn entry(text: &str) -> Result<LogEntry, String> {
    let Entry { signed_entry_timestamp, payload } =
        serde_json::from_str(text).map_err(|e| format!("its log entry cannot be read: {e}"))?;
    let bytes = |text: &str| STANDARD.decode(text).map_err(|_| "its log entry has no base64".to_owned());
    Ok(LogEntry {
        body: bytes(&payload.body)?,
        integrated_time: payload.integrated_time,
        log: Digest::from_hex(&payload.log_id).map_err(|_| "its log entry names no log".to_owned())?,
        index: payload.log_index,
        promise: bytes(&signed_entry_timestamp)?,
    })
}
