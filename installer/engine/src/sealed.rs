//! The authorities of a cluster and their certificates, sealed with age for the operators: a JSON document that says of which
//! cluster they are and for whom, and an age file in it. The same is inside the age file too, which nobody can change
//! without knowing the keys.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::str::FromStr;

use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age::x25519;
use kubexm_plan::{ClusterId, Recipient};
use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::operator::OperatorIdentity;

const SCHEMA: &str = "kubexm.io/sealed-authorities/v1";

/// The document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SealedAuthorities {
    schema: String,
    #[serde(flatten)]
    pub about: About,
    /// An age file, armored.
    sealed: String,
}

/// What is sealed, and for whom. Not secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// `metadata.name`.
    pub cluster: String,
    pub cluster_id: ClusterId,
    /// Sorted by key.
    pub recipients: Vec<Recipient>,
    /// Digests of the certificates, by the name of their file in the pki folder.
    pub certificates: BTreeMap<String, Digest>,
}

/// What is inside the age file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Inside {
    schema: String,
    cluster: String,
    cluster_id: ClusterId,
    recipients: Vec<Recipient>,
    files: PkiFiles,
}

/// Certificates with their keys (PEM), by the name of their file in the pki folder.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PkiFiles(pub(crate) BTreeMap<String, String>);

impl Drop for PkiFiles {
    fn drop(&mut self) {
        self.0.values_mut().for_each(Zeroize::zeroize);
    }
}

/// Why sealed authorities cannot be used. No text shows a key.
#[derive(Debug, thiserror::Error)]
pub enum SealedError {
    /// A newer program wrote them.
    #[error("its schema is {0}, and this program reads {SCHEMA}: use the kubexm-install that wrote it")]
    Newer(String),
    /// The document or the age file in it cannot be read.
    #[error("it is damaged or was cut off: {0}")]
    Damaged(String),
    /// What is written outside is not what is inside.
    #[error("somebody changed it: its {0} is not what was sealed")]
    Changed(&'static str),
    /// It is sealed for others.
    #[error("it is not sealed for this home")]
    ForOthers,
    /// A recipient is not a public key.
    #[error("{0} is no public key of age; correct spec.operators in cluster.yaml")]
    Recipient(Recipient),
    /// They cannot be sealed.
    #[error("it cannot be sealed: {0}")]
    Seal(String),
}

impl SealedAuthorities {
    /// Reads a document; what is in the age file is not looked at.
    pub fn parse(text: &str) -> Result<Self, SealedError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: String,
        }
        let damaged = |error: serde_json::Error| SealedError::Damaged(error.to_string());
        let Schema { schema } = serde_json::from_str(text).map_err(damaged)?;
        if schema != SCHEMA {
            return Err(SealedError::Newer(schema.escape_default().take(80).collect()));
        }
        serde_json::from_str(text).map_err(damaged)
    }

    /// Seals files for recipients.
    pub(crate) fn seal(
        (cluster, cluster_id): (&str, ClusterId),
        recipients: &[Recipient],
        files: PkiFiles,
    ) -> Result<Self, SealedError> {
        let about = About {
            cluster: cluster.to_owned(),
            cluster_id,
            recipients: recipients.to_vec(),
            certificates: files.certificates(),
        };
        let inside = Inside {
            schema: SCHEMA.to_owned(),
            cluster: cluster.to_owned(),
            cluster_id,
            recipients: recipients.to_vec(),
            files,
        };
        let failed = |error: &dyn std::error::Error| SealedError::Seal(error.to_string());
        let plain = Zeroizing::new(serde_json::to_vec(&inside).map_err(|error| failed(&error))?);
        let key = |recipient: &Recipient| {
            x25519::Recipient::from_str(&recipient.key).map_err(|_| SealedError::Recipient(recipient.clone()))
        };
        let keys = recipients.iter().map(key).collect::<Result<Vec<_>, _>>()?;
        let encryptor = age::Encryptor::with_recipients(keys.iter().map(|key| key as &dyn age::Recipient));
        let encryptor = encryptor.map_err(|error| failed(&error))?;
        let mut sealed = Vec::new();
        let written = (|| {
            let mut writer = encryptor.wrap_output(ArmoredWriter::wrap_output(&mut sealed, Format::AsciiArmor)?)?;
            writer.write_all(&plain)?;
            writer.finish()?.finish().map(drop)
        })();
        written.map_err(|error: std::io::Error| failed(&error))?;
        let sealed = String::from_utf8(sealed).map_err(|error| failed(&error))?;
        Ok(Self { schema: SCHEMA.to_owned(), about, sealed })
    }

    /// Opens them, and compares what is inside with what is written outside.
    pub fn open(&self, identity: &OperatorIdentity) -> Result<PkiFiles, SealedError> {
        let damaged = |error: &dyn std::error::Error| SealedError::Damaged(error.to_string());
        let decryptor =
            age::Decryptor::new(ArmoredReader::new(self.sealed.as_bytes())).map_err(|error| damaged(&error))?;
        let mut reader = decryptor.decrypt(identity.all()).map_err(|error| match error {
            age::DecryptError::NoMatchingKeys => SealedError::ForOthers,
            error => damaged(&error),
        })?;
        let mut plain = Zeroizing::new(Vec::new());
        reader.read_to_end(&mut plain).map_err(|error| damaged(&error))?;
        // serde's texts may show what they read.
        let inside: Inside = serde_json::from_slice(&plain)
            .map_err(|_| SealedError::Damaged("what is inside is no document".to_owned()))?;
        let Inside { schema, cluster, cluster_id, recipients, files } = inside;
        let same = [
            (schema == self.schema, "schema"),
            (cluster == self.about.cluster && cluster_id == self.about.cluster_id, "cluster"),
            (recipients == self.about.recipients, "list of recipients"),
            (files.certificates() == self.about.certificates, "list of certificates"),
            (files.0.keys().all(|name| is_pki_file(name)), "names of files"),
        ];
        match same.into_iter().find(|(same, _)| !same) {
            Some((_, what)) => Err(SealedError::Changed(what)),
            None => Ok(files),
        }
    }

    /// The bytes of the file.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

impl About {
    /// For whom, for people: `alice (age1…), age1…`.
    pub fn for_whom(&self) -> String {
        self.recipients.iter().map(Recipient::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl PkiFiles {
    /// Digests of the certificates, without their keys.
    pub fn certificates(&self) -> BTreeMap<String, Digest> {
        let certificates = |text: &String| Digest::of(crate::pem::certificates(text));
        self.0.iter().map(|(name, text)| (name.clone(), certificates(text))).collect()
    }
}

/// A file of the pki folder that is sealed: certificates of an authority, with their key. The name may come from a host.
pub(crate) fn is_pki_file(name: &str) -> bool {
    let authority = ["registry-", "etcd-"].iter().any(|prefix| name.starts_with(prefix));
    authority && name.ends_with(".pem") && crate::files::plain_name(name) == name
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const ID: ClusterId = ClusterId::from_random([1; 16]);

    fn files() -> PkiFiles {
        let text = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nhunter2\n";
        PkiFiles([("registry-ca.pem".to_owned(), text.to_owned())].into())
    }

    fn identity(folder: &tempfile::TempDir, name: &str) -> OperatorIdentity {
        OperatorIdentity::read_or_make(&folder.path().join(name), &|_| Err(String::new())).unwrap()
    }

    fn named(identity: &OperatorIdentity, name: Option<&str>) -> Recipient {
        Recipient { key: identity.recipient(), name: name.map(str::to_owned) }
    }

    #[test]
    fn every_recipient_opens_it_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let [alice, bob, eve] = ["alice", "bob", "eve"].map(|name| identity(&folder, name));
        let recipients = [named(&alice, Some("alice")), named(&bob, None)];
        let sealed = SealedAuthorities::seal(("red", ID), &recipients, files()).unwrap();
        let text = sealed.to_json().unwrap();
        assert!(!text.contains("hunter2") && text.contains("BEGIN AGE ENCRYPTED FILE"), "{text}");
        let read = SealedAuthorities::parse(&text).unwrap();
        assert_eq!(read, sealed);
        for one in [&alice, &bob] {
            assert_eq!(read.open(one).unwrap().0, files().0);
        }
        assert!(matches!(read.open(&eve), Err(SealedError::ForOthers)));
        assert_eq!(read.about.for_whom(), format!("alice ({}), {}", alice.recipient(), bob.recipient()));
    }

    #[test]
    fn what_was_cut_off_or_changed_outside_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (alice, eve) = (identity(&folder, "alice"), identity(&folder, "eve"));
        let sealed = SealedAuthorities::seal(("red", ID), &[named(&alice, None)], files()).unwrap();
        let text = sealed.to_json().unwrap();
        for length in [0, 10, text.len() / 2, text.len() - 3] {
            let error = SealedAuthorities::parse(&text[..length]).unwrap_err();
            assert!(matches!(error, SealedError::Damaged(_)), "{length}: {error}");
        }
        let mut added = sealed.clone();
        added.about.recipients.push(named(&eve, None));
        let mut moved = sealed.clone();
        moved.about.cluster_id = ClusterId::from_random([2; 16]);
        let mut renamed = sealed.clone();
        renamed.about.certificates.clear();
        for changed in [added, moved, renamed] {
            assert!(matches!(changed.open(&alice), Err(SealedError::Changed(_))), "{changed:?}");
        }
        let mut cut = sealed.clone();
        cut.sealed.truncate(cut.sealed.len() / 2);
        let mut flipped = sealed;
        flipped.sealed = flipped.sealed.replacen(|c: char| c.is_ascii_lowercase(), "A", 40);
        for damaged in [cut, flipped] {
            let error = damaged.open(&alice).err().unwrap();
            assert!(matches!(error, SealedError::Damaged(_) | SealedError::ForOthers), "{error}");
        }
        let newer = text.replace("authorities/v1", "authorities/v2");
        assert!(matches!(SealedAuthorities::parse(&newer), Err(SealedError::Newer(_))));
    }

    #[test]
    fn a_file_from_a_host_stays_in_the_folder() {
        for name in
            ["../registry-ca.pem", "registry-/../../x.pem", "registry-ca", "authorities.json", "known_hosts", ""]
        {
            assert!(!is_pki_file(name), "{name}");
        }
        assert!(is_pki_file("registry-ca.pem") && is_pki_file("registry-server-registry-cert.pem"));
    }
}
