//! The authorities of a cluster and their certificates, sealed with age for the operators: a JSON document that says of which
//! cluster they are and for whom, and an age file in it. The same is inside the age file too, which nobody can change
//! without knowing the keys. age does not say who sealed: each key must be the one of its certificate, and the document has the
//! codes of who made it ([decision 0054](../../../docs/decisions/0054-who-sealed-the-authorities-is-checked.md)).

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::str::FromStr;

use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age::x25519;
use kubexm_ops::age_file;
use kubexm_plan::{ClusterId, Recipient};
use kubexm_spec::Digest;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::operator::OperatorIdentity;
use crate::pki_files::{Misfit, PkiFiles, is_pki_file};
use crate::sender::{Sealed, Sender, Unproven};

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
    /// Who sealed it. None of a program that did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sender: Option<Sender>,
}

/// Who made a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Maker {
    /// This home, or one of those who were named.
    Known,
    /// It cannot be determined; the sentence says why.
    Unknown(String),
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
    /// A key is not the one of its certificate.
    #[error("the key in {0} is not the one of its certificate: somebody made it who does not have the cluster's keys")]
    KeyMismatch(String),
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

    /// Seals files for recipients, in the name of an operator if there is one.
    pub(crate) fn seal(
        (cluster, cluster_id): (&str, ClusterId),
        recipients: &[Recipient],
        files: PkiFiles,
        maker: Option<&OperatorIdentity>,
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
        let to = || recipients.iter().map(|one| one.key.as_str());
        let sender = maker.and_then(|own| Sender::of(Sealed::Authorities, own, to(), sealed.as_bytes()));
        Ok(Self { schema: SCHEMA.to_owned(), about, sealed, sender })
    }

    /// Who made it: this home, one of the public keys `known`, or somebody else. Only for one that this home opens.
    ///
    /// # Errors
    /// It names one of them, and that is not true.
    pub fn maker(&self, identity: &OperatorIdentity, known: &[String]) -> Result<Maker, SealedError> {
        let Some(sender) = &self.sender else {
            let text = "it does not say who made it: somebody on the host did, or an earlier kubexm-install";
            return Ok(Maker::Unknown(text.to_owned()));
        };
        match sender.check(Sealed::Authorities, identity, known, self.sealed.as_bytes()) {
            Ok(()) => Ok(Maker::Known),
            Err(Unproven::Stranger(why)) => Ok(Maker::Unknown(why)),
            Err(Unproven::Untrue(_)) => Err(SealedError::Changed("author")),
        }
    }

    /// Opens them, and compares what is inside with what is written outside, and each key with its certificate.
    pub fn open(&self, identity: &OperatorIdentity) -> Result<PkiFiles, SealedError> {
        let damaged = |error: &dyn std::error::Error| SealedError::Damaged(error.to_string());
        let decryptor =
            age_file::decryptor(ArmoredReader::new(self.sealed.as_bytes())).map_err(|error| damaged(&error))?;
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
            None => match files.check_keys() {
                Ok(()) => Ok(files),
                Err(Misfit::NoCa) => Err(SealedError::Damaged("it has no CA of the registry".to_owned())),
                Err(Misfit::Key(name)) => Err(SealedError::KeyMismatch(name)),
            },
        }
    }

    /// The bytes of the file.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(any(test, feature = "testing"))]
impl SealedAuthorities {
    /// What somebody makes who has these files (PEM, by name), or has made them up: for tests of what is refused.
    ///
    /// # Errors
    /// A recipient is no public key.
    pub fn of_anybody(
        (cluster, cluster_id): (&str, ClusterId),
        recipients: &[Recipient],
        files: BTreeMap<String, String>,
        maker: Option<&OperatorIdentity>,
    ) -> Result<Self, SealedError> {
        Self::seal((cluster, cluster_id), recipients, PkiFiles(files), maker)
    }
}

impl About {
    /// For whom, for people: `alice (age1…), age1…`.
    pub fn for_whom(&self) -> String {
        self.recipients.iter().map(Recipient::to_string).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const ID: ClusterId = ClusterId::from_random([1; 16]);

    /// A CA, always the same one of a folder.
    fn files(folder: &tempfile::TempDir) -> PkiFiles {
        let path = folder.path().join("ca");
        if !path.exists() {
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
            std::fs::write(&path, certificate.pem() + &key.serialize_pem()).unwrap();
        }
        PkiFiles([("registry-ca.pem".to_owned(), std::fs::read_to_string(&path).unwrap())].into())
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
        let sealed = SealedAuthorities::seal(("red", ID), &recipients, files(&folder), Some(&alice)).unwrap();
        let text = sealed.to_json().unwrap();
        assert!(!text.contains("PRIVATE KEY") && text.contains("BEGIN AGE ENCRYPTED FILE"), "{text}");
        let read = SealedAuthorities::parse(&text).unwrap();
        assert_eq!(read, sealed);
        for one in [&alice, &bob] {
            assert_eq!(read.open(one).unwrap().0, files(&folder).0);
        }
        assert!(matches!(read.open(&eve), Err(SealedError::ForOthers)));
        assert_eq!(read.about.for_whom(), format!("alice ({}), {}", alice.recipient(), bob.recipient()));
    }

    #[test]
    fn what_was_cut_off_or_changed_outside_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (alice, eve) = (identity(&folder, "alice"), identity(&folder, "eve"));
        let sealed = SealedAuthorities::seal(("red", ID), &[named(&alice, None)], files(&folder), None).unwrap();
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
    fn keys_that_do_not_belong_to_their_certificates_are_refused() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let alice = identity(&folder, "alice");
        let (ours, theirs) = (files(&folder), files(&other));
        let key = |files: &PkiFiles| {
            let text = &files.0["registry-ca.pem"];
            text[crate::pem::certificates(text).len()..].to_owned()
        };
        let certificate = crate::pem::certificates(&ours.0["registry-ca.pem"]).to_owned();
        for (text, said) in [
            (format!("{certificate}{}", key(&theirs)), "not the one of its certificate"),
            (certificate.clone(), "not the one of its certificate"),
            (key(&ours), "not the one of its certificate"),
        ] {
            let files = PkiFiles([("registry-ca.pem".to_owned(), text)].into());
            let sealed = SealedAuthorities::seal(("red", ID), &[named(&alice, None)], files, Some(&alice)).unwrap();
            let error = sealed.open(&alice).err().unwrap().to_string();
            assert!(error.contains(said) && !error.contains("BEGIN"), "{error}");
        }
        let none = SealedAuthorities::seal(("red", ID), &[named(&alice, None)], PkiFiles::default(), None).unwrap();
        assert!(none.open(&alice).err().unwrap().to_string().contains("no CA of the registry"));
    }

    #[test]
    fn who_made_it_is_told_by_codes_that_nobody_else_can_make() {
        let folder = tempfile::tempdir().unwrap();
        let [alice, bob, eve] = ["alice", "bob", "eve"].map(|name| identity(&folder, name));
        let to = [named(&alice, Some("alice")), named(&bob, None)];
        let seal = |maker| SealedAuthorities::seal(("red", ID), &to, files(&folder), maker).unwrap();
        let (known, unknown) = ([bob.recipient()], |maker: Maker| match maker {
            Maker::Unknown(why) => why,
            Maker::Known => String::new(),
        });
        let of_bob = seal(Some(&bob));
        assert_eq!(of_bob.maker(&alice, &known).unwrap(), Maker::Known);
        assert_eq!(of_bob.maker(&bob, &[]).unwrap(), Maker::Known, "its own");
        assert!(unknown(of_bob.maker(&alice, &[]).unwrap()).contains(&bob.recipient()));
        assert!(unknown(seal(Some(&eve)).maker(&alice, &known).unwrap()).contains(&eve.recipient()));
        assert!(unknown(seal(None).maker(&alice, &known).unwrap()).contains("does not say who"));
        // Codes of another document.
        let moved = SealedAuthorities { sender: of_bob.sender, ..seal(None) };
        assert!(matches!(moved.maker(&alice, &known), Err(SealedError::Changed("author"))));
        let text = seal(Some(&bob)).to_json().unwrap();
        assert_eq!(SealedAuthorities::parse(&text).unwrap().maker(&alice, &known).unwrap(), Maker::Known);
    }
}
