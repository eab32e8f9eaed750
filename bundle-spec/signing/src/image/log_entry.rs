//! An entry of Rekor, the transparency log: that a signature with its certificate was there at a time.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_spec::Digest;
use serde::Deserialize;

use super::signed::{Form, LogEntry, Signed};
use super::trusted_root::TrustedRoot;

#[derive(Deserialize)]
struct Body {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    spec: serde_json::Value,
}

#[derive(Deserialize)]
struct HashedRekord {
    data: Data,
    signature: Signature,
}

#[derive(Deserialize)]
struct Data {
    hash: Hash,
}

#[derive(Deserialize)]
struct Hash {
    algorithm: String,
    value: String,
}

#[derive(Deserialize)]
struct Signature {
    content: String,
    #[serde(rename = "publicKey")]
    public_key: PublicKey,
}

#[derive(Deserialize)]
struct PublicKey {
    content: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload_hash: Hash,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    signature: String,
    verifier: String,
}

impl LogEntry {
    /// When a log of the trusted root took it in, by that log's own signature (signed entry timestamp).
    pub fn logged(&self, root: &TrustedRoot) -> Result<i64, String> {
        let time = self.integrated_time;
        let log = self.log.hex();
        let key = root
            .log(&self.log, time)
            .ok_or_else(|| format!("its log {log} is not in the trusted root at that time"))?;
        let body = STANDARD.encode(&self.body);
        // RFC 8785; none of the texts has a character that it would escape.
        let promised =
            format!(r#"{{"body":"{body}","integratedTime":{time},"logID":"{log}","logIndex":{}}}"#, self.index);
        match key.verifies(promised.as_bytes(), &self.promise) {
            true => Ok(time),
            false => Err("the timestamp of its log entry is not signed by the log".to_owned()),
        }
    }

    /// Whether it is about this very signature and its certificate: an entry of another one would give it another time.
    pub fn proves(&self, signed: &Signed) -> Result<(), String> {
        let foreign = || "its log entry is about another signature".to_owned();
        let unread = |e: serde_json::Error| format!("its log entry cannot be read: {e}");
        let body: Body = serde_json::from_slice(&self.body).map_err(unread)?;
        let certificate = signed.certificate.as_deref().ok_or("it has no certificate")?;
        let (hash, hashed, signatures) = match (body.kind.as_str(), body.api_version.as_str(), signed.form) {
            ("hashedrekord", "0.0.1", Form::SimpleSigning) => {
                let HashedRekord { data, signature } = serde_json::from_value(body.spec).map_err(unread)?;
                (data.hash, Digest::of(&signed.message), vec![(signature.content, signature.public_key.content)])
            }
            ("dsse", "0.0.1", Form::Envelope) => {
                let Envelope { payload_hash, signatures } = serde_json::from_value(body.spec).map_err(unread)?;
                let signatures = signatures.into_iter().map(|one| (one.signature, one.verifier)).collect();
                (payload_hash, signed.payload, signatures)
            }
            (kind, version, _) => return Err(format!("log entries of kind {kind} {version} cannot be checked")),
        };
        if hash.algorithm != "sha256" || hash.value != hashed.hex() {
            return Err(foreign());
        }
        let is_it = |(signature, verifier): &(String, String)| {
            STANDARD.decode(signature).is_ok_and(|bytes| bytes == signed.signature)
                && STANDARD
                    .decode(verifier)
                    .ok()
                    .and_then(|text| pem::parse(text).ok())
                    .is_some_and(|block| block.tag() == "CERTIFICATE" && block.contents() == certificate)
        };
        if signatures.iter().any(is_it) { Ok(()) } else { Err(foreign()) }
    }
}
