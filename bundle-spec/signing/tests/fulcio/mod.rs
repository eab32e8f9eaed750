//! An authority, a transparency log and a log of certificates of our own, and what they would make for somebody who signs: honest, or
//! with one thing changed.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_spec::Digest;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    PublicKeyData, SanType, SerialNumber, SigningKey,
};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, X509Certificate};

pub const ISSUER: &str = "https://accounts.ci.test";
pub const SUBJECT: &str = "https://ci.test/team/app/release.yaml@refs/tags/v1";
/// When the log took a signature in: 2026-09-21.
pub const LOGGED: i64 = 1_790_000_000;

/// What is otherwise than it has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    None,
    NoEntry,
    Promise,
    LoggedLater,
    ForeignEntry,
    ForeignCertificateInEntry,
    OtherLog,
    SignedAfterwards,
    OtherAuthority,
    NoTimestamp,
    ForeignTimestamp,
    TimestampOfAnother,
    NotForCode,
    TwoNames,
    NoIssuer,
    OtherKey,
    Attestation,
    OtherPayloadType,
}

pub struct Fulcio {
    root: Authority,
    issuing: Authority,
    log: KeyPair,
    certificate_log: KeyPair,
    /// Of somebody who is not trusted: an authority of the same name, a log.
    foreign: Authority,
    foreign_log: KeyPair,
}

struct Authority {
    params: CertificateParams,
    key: KeyPair,
    der: Vec<u8>,
}

/// A certificate in DER and its key.
struct Leaf {
    der: Vec<u8>,
    key: KeyPair,
}

fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

fn at(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(seconds).unwrap()
}

fn authority(name: &str, by: Option<&Authority>) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = at(LOGGED) - Duration::days(300);
    params.not_after = at(LOGGED) + Duration::days(300);
    let key = key();
    let certificate = match by {
        None => params.self_signed(&key).unwrap(),
        Some(by) => params.signed_by(&key, &Issuer::from_params(&by.params, &by.key)).unwrap(),
    };
    Authority { params, key, der: certificate.der().to_vec() }
}

fn id(key: &KeyPair) -> Digest {
    Digest::of(key.subject_public_key_info())
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

fn pem(der: &[u8]) -> String {
    pem::encode(&pem::Pem::new("CERTIFICATE", der))
}

/// A UTF8String or OCTET STRING in DER, of less than 128 bytes or of less than 256.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    let mut all = if length < 128 { vec![tag, length] } else { vec![tag, 0x81, length] };
    all.extend(content);
    all
}

impl Fulcio {
    pub fn new() -> Self {
        let root = authority("root", None);
        let issuing = authority("issuing", Some(&root));
        let foreign = authority("issuing", Some(&authority("root", None)));
        Self { issuing, root, log: key(), certificate_log: key(), foreign, foreign_log: key() }
    }

    /// trusted_root.json.
    pub fn root(&self) -> String {
        let valid = json!({"start": "2020-01-01T00:00:00Z"});
        let log = |key: &KeyPair| {
            let public = json!({
                "rawBytes": base64(key.subject_public_key_info()),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": valid,
            });
            let id = json!({"keyId": base64(id(key).as_bytes())});
            json!([{"baseUrl": "https://log.test", "hashAlgorithm": "SHA2_256", "publicKey": public, "logId": id}])
        };
        let chain = [&self.issuing.der, &self.root.der].map(|der| json!({"rawBytes": base64(der)}));
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": log(&self.log),
            "certificateAuthorities": [{"uri": "https://fulcio.test", "certChain": {"certificates": chain}, "validFor": valid}],
            "ctlogs": log(&self.certificate_log),
        })
        .to_string()
    }

    fn leaf(&self, change: Change) -> Leaf {
        let key = key();
        let by = if change == Change::OtherAuthority { &self.foreign } else { &self.issuing };
        let name = |text: &str| Ia5String::try_from(text).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.serial_number = Some(SerialNumber::from(7_u64));
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.subject_alt_names = vec![SanType::URI(name(SUBJECT))];
        if change == Change::TwoNames {
            params.subject_alt_names.push(SanType::Rfc822Name(name("a@ci.test")));
        }
        // Ten minutes, as Fulcio gives.
        let from = if change == Change::SignedAfterwards { LOGGED - 3600 } else { LOGGED - 60 };
        (params.not_before, params.not_after) = (at(from), at(from + 600));
        params.extended_key_usages = vec![match change {
            Change::NotForCode => ExtendedKeyUsagePurpose::ServerAuth,
            _ => ExtendedKeyUsagePurpose::CodeSigning,
        }];
        params.use_authority_key_identifier_extension = true;
        if change != Change::NoIssuer {
            // Fulcio says it twice: as text alone, which older programs read, and in DER.
            for (last, issuer) in [(1, ISSUER.as_bytes().to_vec()), (8, der(0x0c, ISSUER.as_bytes()))] {
                let extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57264, 1, last], issuer);
                params.custom_extensions.push(extension);
            }
        }
        let issuer = Issuer::from_params(&by.params, &by.key);
        let sign = |params: &CertificateParams| params.signed_by(&key, &issuer).unwrap().der().to_vec();
        // What the log is shown, and what it answers.
        let logged = match change {
            Change::TimestampOfAnother => {
                let mut other = params.clone();
                other.subject_alt_names = vec![SanType::URI(name("https://ci.test/another"))];
                sign(&other)
            }
            _ => sign(&params),
        };
        if change != Change::NoTimestamp {
            let log = if change == Change::ForeignTimestamp { &self.foreign_log } else { &self.certificate_log };
            let timestamp = self.timestamp(&logged, by, log);
            let oid = [1, 3, 6, 1, 4, 1, 11129, 2, 4, 2];
            params.custom_extensions.push(CustomExtension::from_oid_content(&oid, timestamp));
        }
        Leaf { der: sign(&params), key }
    }

    /// The extension with one signed timestamp (RFC 6962, 3.2 and 3.3).
    fn timestamp(&self, certificate: &[u8], by: &Authority, log: &KeyPair) -> Vec<u8> {
        let (_, certificate) = X509Certificate::from_der(certificate).unwrap();
        let tbs = certificate.tbs_certificate.as_ref();
        let time = (u64::try_from(LOGGED).unwrap() * 1000).to_be_bytes();
        let mut signed = vec![0, 0];
        signed.extend(time);
        signed.extend([0, 1]);
        signed.extend(Digest::of(by.key.subject_public_key_info()).as_bytes());
        signed.extend(&u32::try_from(tbs.len()).unwrap().to_be_bytes()[1..]);
        signed.extend(tbs);
        signed.extend([0, 0]);
        let signature = log.sign(&signed).unwrap();
        let mut one = vec![0];
        one.extend(id(log).as_bytes());
        one.extend(time);
        // No extensions; SHA-256 with ECDSA.
        one.extend([0, 0, 4, 3]);
        one.extend(u16::try_from(signature.len()).unwrap().to_be_bytes());
        one.extend(signature);
        let length = |content: &[u8]| u16::try_from(content.len()).unwrap().to_be_bytes();
        let listed = [&length(&one)[..], &one].concat();
        der(0x04, &[&length(&listed)[..], &listed].concat())
    }

    /// Body, time, log and promise of an entry.
    fn entry(&self, body: &str, change: Change) -> (String, i64, Digest, Vec<u8>) {
        let log = if change == Change::OtherLog { &self.foreign_log } else { &self.log };
        let body = base64(body);
        let promised =
            format!(r#"{{"body":"{body}","integratedTime":{LOGGED},"logID":"{}","logIndex":42}}"#, id(log).hex());
        let mut promise = log.sign(promised.as_bytes()).unwrap();
        if change == Change::Promise {
            promise = log.sign(b"something else").unwrap();
        }
        let time = if change == Change::LoggedLater { LOGGED + 1 } else { LOGGED };
        (body, time, id(log), promise)
    }

    /// A layer and its annotations, as `cosign sign` makes them.
    pub fn simple_signing(&self, digest: &Digest, change: Change) -> (Vec<u8>, BTreeMap<&'static str, String>) {
        let payload = format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"registry.test/team/app"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"cosign container image signature"}},"optional":null}}"#
        );
        let leaf = self.leaf(change);
        let signature = signer(&leaf, change).sign(payload.as_bytes()).unwrap();
        let hash = match change {
            Change::ForeignEntry => Digest::of("something else"),
            _ => Digest::of(&payload),
        };
        let verifier = self.verifier(&leaf, change);
        let body = format!(
            r#"{{"apiVersion":"0.0.1","kind":"hashedrekord","spec":{{"data":{{"hash":{{"algorithm":"sha256","value":"{}"}}}},"signature":{{"content":"{}","publicKey":{{"content":"{verifier}"}}}}}}}}"#,
            hash.hex(),
            base64(&signature)
        );
        let (body, time, log, promise) = self.entry(&body, change);
        let entry = json!({
            "SignedEntryTimestamp": base64(promise),
            "Payload": {"body": body, "integratedTime": time, "logIndex": 42, "logID": log.hex()},
        });
        let mut annotations = BTreeMap::from([
            ("dev.cosignproject.cosign/signature", base64(&signature)),
            ("dev.sigstore.cosign/certificate", pem(&leaf.der)),
            ("dev.sigstore.cosign/bundle", entry.to_string()),
        ]);
        if change == Change::NoEntry {
            annotations.remove("dev.sigstore.cosign/bundle");
        }
        (payload.into_bytes(), annotations)
    }

    /// A bundle, as `cosign sign --new-bundle-format` makes it.
    pub fn bundle(&self, digest: &Digest, change: Change) -> String {
        let predicate = match change {
            Change::Attestation => "https://slsa.dev/provenance/v1",
            _ => "https://sigstore.dev/cosign/sign/v1",
        };
        let payload = format!(
            r#"{{"_type":"https://in-toto.io/Statement/v1", "subject":[{{"digest":{{"sha256":"{}"}}}}], "predicateType":"{predicate}"}}"#,
            digest.hex()
        );
        let kind = match change {
            Change::OtherPayloadType => "text/plain",
            _ => "application/vnd.in-toto+json",
        };
        let leaf = self.leaf(change);
        let message = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
        let signature = signer(&leaf, change).sign(message.as_bytes()).unwrap();
        let hash = match change {
            Change::ForeignEntry => Digest::of("something else"),
            _ => Digest::of(&payload),
        };
        let verifier = self.verifier(&leaf, change);
        let body = format!(
            r#"{{"apiVersion":"0.0.1","kind":"dsse","spec":{{"envelopeHash":{{"algorithm":"sha256","value":"{0}"}},"payloadHash":{{"algorithm":"sha256","value":"{0}"}},"signatures":[{{"signature":"{1}","verifier":"{verifier}"}}]}}}}"#,
            hash.hex(),
            base64(&signature)
        );
        let (body, time, log, promise) = self.entry(&body, change);
        let mut entry = json!({
            "logIndex": "42",
            "logId": {"keyId": base64(log.as_bytes())},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": time.to_string(),
            "inclusionPromise": {"signedEntryTimestamp": base64(promise)},
            "canonicalizedBody": body,
        });
        if change == Change::NoEntry {
            entry["inclusionPromise"] = serde_json::Value::Null;
        }
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"certificate": {"rawBytes": base64(&leaf.der)}, "tlogEntries": [entry]},
            "dsseEnvelope": {
                "payload": base64(&payload),
                "payloadType": kind,
                "signatures": [{"sig": base64(&signature)}],
            },
        })
        .to_string()
    }

    /// What the entry says the signature is verified with.
    fn verifier(&self, leaf: &Leaf, change: Change) -> String {
        match change {
            Change::ForeignCertificateInEntry => base64(pem(&self.leaf(Change::None).der)),
            _ => base64(pem(&leaf.der)),
        }
    }
}

/// The key that really signs.
fn signer(leaf: &Leaf, change: Change) -> KeyPair {
    match change {
        Change::OtherKey => key(),
        _ => KeyPair::try_from(leaf.key.serialized_der()).unwrap(),
    }
}
