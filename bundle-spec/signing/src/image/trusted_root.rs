//! Sigstore's trusted_root.json: certificate authorities and logs, each with the time for which it is trusted.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_spec::Digest;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::key::ImageKey;

/// Who vouches for identities.
#[derive(Clone, Debug)]
pub struct TrustedRoot {
    authorities: Vec<Authority>,
    logs: Vec<Log>,
    certificate_logs: Vec<Log>,
}

/// A Fulcio: its certificates in DER, from the one that issues to its root.
#[derive(Clone, Debug)]
pub(super) struct Authority {
    pub chain: Vec<Vec<u8>>,
    valid: Validity,
}

#[derive(Clone, Debug)]
struct Log {
    key: ImageKey,
    valid: Validity,
}

/// Seconds of Unix time.
#[derive(Clone, Copy, Debug)]
struct Validity {
    from: i64,
    until: Option<i64>,
}

impl Validity {
    fn holds(&self, time: i64) -> bool {
        self.from <= time && self.until.is_none_or(|until| time <= until)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    tlogs: Vec<LogDocument>,
    #[serde(default)]
    certificate_authorities: Vec<AuthorityDocument>,
    #[serde(default)]
    ctlogs: Vec<LogDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogDocument {
    public_key: KeyDocument,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyDocument {
    raw_bytes: String,
    valid_for: Option<ValidFor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorityDocument {
    cert_chain: ChainDocument,
    valid_for: Option<ValidFor>,
}

#[derive(Deserialize)]
struct ChainDocument {
    certificates: Vec<CertificateDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CertificateDocument {
    raw_bytes: String,
}

#[derive(Deserialize)]
struct ValidFor {
    start: String,
    end: Option<String>,
}

impl TrustedRoot {
    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let document: Document =
            serde_json::from_slice(json).map_err(|e| format!("it is not a trusted root that can be read: {e}"))?;
        let Document { tlogs, certificate_authorities, ctlogs } = document;
        let logs = |all: Vec<LogDocument>, name: &str| -> Result<Vec<Log>, String> {
            all.into_iter()
                .enumerate()
                .map(|(at, log)| read_log(log).map_err(|problem| format!("{name}[{at}]: {problem}")))
                .collect()
        };
        let authorities = certificate_authorities
            .into_iter()
            .enumerate()
            .map(|(at, one)| read_authority(one).map_err(|problem| format!("certificateAuthorities[{at}]: {problem}")))
            .collect::<Result<Vec<_>, _>>()?;
        let root = Self { authorities, logs: logs(tlogs, "tlogs")?, certificate_logs: logs(ctlogs, "ctlogs")? };
        if root.authorities.is_empty() || root.logs.is_empty() {
            return Err("it names no certificate authority or no transparency log (certificateAuthorities, tlogs), without which \
                        no identity can be checked"
                .to_owned());
        }
        Ok(root)
    }

    /// The key of a transparency log that is trusted for this time.
    pub(super) fn log(&self, id: &Digest, time: i64) -> Option<&ImageKey> {
        find(&self.logs, id, time)
    }

    /// The same of a log of certificates.
    pub(super) fn certificate_log(&self, id: &Digest, time: i64) -> Option<&ImageKey> {
        find(&self.certificate_logs, id, time)
    }

    /// Whether certificates must be in a log: an authority of one's own may have none.
    pub(super) fn demands_certificate_log(&self) -> bool {
        !self.certificate_logs.is_empty()
    }

    /// The authorities that are trusted for this time.
    pub(super) fn authorities(&self, time: i64) -> impl Iterator<Item = &Authority> {
        self.authorities.iter().filter(move |authority| authority.valid.holds(time))
    }
}

fn find<'l>(logs: &'l [Log], id: &Digest, time: i64) -> Option<&'l ImageKey> {
    logs.iter().find(|log| log.key.id() == *id && log.valid.holds(time)).map(|log| &log.key)
}

fn read_log(LogDocument { public_key }: LogDocument) -> Result<Log, String> {
    let key = ImageKey::from_spki(&base64(&public_key.raw_bytes)?)?;
    Ok(Log { key, valid: validity(public_key.valid_for)? })
}

fn read_authority(AuthorityDocument { cert_chain, valid_for }: AuthorityDocument) -> Result<Authority, String> {
    let chain: Vec<Vec<u8>> =
        cert_chain.certificates.iter().map(|one| base64(&one.raw_bytes)).collect::<Result<_, _>>()?;
    if chain.is_empty() {
        return Err("it has no certificates".to_owned());
    }
    Ok(Authority { chain, valid: validity(valid_for)? })
}

fn base64(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|_| "rawBytes is no base64".to_owned())
}

fn validity(valid: Option<ValidFor>) -> Result<Validity, String> {
    let time = |text: &str| {
        let parsed = OffsetDateTime::parse(text, &Rfc3339);
        parsed.map(OffsetDateTime::unix_timestamp).map_err(|_| format!("{text:?} is no time (RFC 3339)"))
    };
    let ValidFor { start, end } = valid.ok_or("it does not say for which time it is trusted (validFor)")?;
    Ok(Validity { from: time(&start)?, until: end.as_deref().map(time).transpose()? })
}
