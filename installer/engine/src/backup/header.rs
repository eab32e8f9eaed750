//! `backup.json`: what a backup is, the key of its archive, sealed for the operators, and who sealed it.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::str::FromStr;

use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age::secrecy::ExposeSecret as _;
use age::x25519;
use kubexm_ops::age_file;
use kubexm_plan::backup::{Archive, BackedUpCluster, SnapshotFacts};
use kubexm_plan::{ClusterId, Recipient};
use kubexm_spec::{json, one_line};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::error::{BackupError, HEADER, SCHEMA, disk, shown};
use crate::operator::OperatorIdentity;
use crate::sender::{Sealed, Sender};

/// Longer than any header, in bytes: five thousand nodes have some 2 MiB, twice.
pub const HEADER_LIMIT: u64 = 16 << 20;
/// What it may take as memory.
const MEMORY_LIMIT: usize = 512 << 20;

/// In bytes, of what a header says that is shown before anybody is known to have made it.
const LONGEST_LINE: usize = 1000;

/// A file, without waiting for one that is none: a pipe has no end.
pub(super) fn regular(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a file")),
    }
}

/// A text of a header in one line that is not longer than one is read.
fn line(text: &str) -> String {
    let mut line = one_line(text);
    if line.len() > LONGEST_LINE {
        line.truncate(line.floor_char_boundary(LONGEST_LINE));
        line.push_str(" ...");
    }
    line
}

/// What a backup is. Not secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupAbout {
    /// `metadata.name`.
    pub cluster: String,
    pub cluster_id: ClusterId,
    /// In seconds of Unix time.
    pub created: i64,
    /// Version of the API server; none if it did not answer.
    pub kubernetes: Option<String>,
    /// The control plane that it was made on.
    pub host: String,
    /// Program and version.
    pub program: String,
    /// For whom. Sorted by key.
    pub recipients: Vec<Recipient>,
    pub archive: Archive,
    pub etcd: SnapshotFacts,
    /// The cluster as it was; none in a backup of a program that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub had: Option<BackedUpCluster>,
}

/// `backup.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupHeader {
    schema: String,
    #[serde(flatten)]
    pub about: BackupAbout,
    /// An age file, armored.
    sealed: String,
    /// Who sealed it: age does not tell. None of a program that did not write it.
    #[serde(default)]
    sender: Option<Sender>,
}

/// What is inside the age file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Inside {
    schema: String,
    about: BackupAbout,
    key: String,
}

/// Opens one archive. Secret.
pub struct BackupKey(x25519::Identity);

impl std::fmt::Debug for BackupKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

impl BackupKey {
    /// A new one.
    pub fn generate() -> Self {
        Self(x25519::Identity::generate())
    }

    /// The public key that an archive is encrypted for.
    pub fn recipient(&self) -> String {
        self.0.to_public().to_string()
    }

    pub(super) const fn identity(&self) -> &x25519::Identity {
        &self.0
    }

    /// As a value of a slot.
    pub fn secret(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.0.to_string().expose_secret().as_bytes().to_vec())
    }
}

impl BackupHeader {
    /// Seals the key of an archive for the recipients of `about`, in the name of an operator.
    ///
    /// # Errors
    /// A recipient is no public key.
    pub fn seal(about: BackupAbout, key: &BackupKey, own: &OperatorIdentity) -> Result<Self, BackupError> {
        let failed =
            |error: &dyn std::fmt::Display| BackupError::CannotMake(format!("its key cannot be sealed: {error}"));
        let secret = key.0.to_string();
        let inside = Inside { schema: SCHEMA.to_owned(), about: about.clone(), key: secret.expose_secret().to_owned() };
        let plain = Zeroizing::new(serde_json::to_vec(&inside).map_err(|error| failed(&error))?);
        let of = |recipient: &Recipient| {
            x25519::Recipient::from_str(&recipient.key)
                .map_err(|_| failed(&format!("{recipient} is no public key of age; correct spec.operators")))
        };
        let keys = about.recipients.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        let encryptor = age::Encryptor::with_recipients(keys.iter().map(|key| key as &dyn age::Recipient))
            .map_err(|error| failed(&error))?;
        let mut sealed = Vec::new();
        let written = (|| {
            let mut writer = encryptor.wrap_output(ArmoredWriter::wrap_output(&mut sealed, Format::AsciiArmor)?)?;
            writer.write_all(&plain)?;
            writer.finish()?.finish().map(drop)
        })();
        written.map_err(|error: std::io::Error| failed(&error))?;
        let sealed = String::from_utf8(sealed).map_err(|error| failed(&error))?;
        let to = about.recipients.iter().map(|one| one.key.as_str());
        let sender = Sender::of(Sealed::Backup, own, to, sealed.as_bytes())
            .ok_or_else(|| failed(&"the identity of this home cannot vouch for it"))?;
        Ok(Self { schema: SCHEMA.to_owned(), about, sealed, sender: Some(sender) })
    }

    /// Reads the header of a backup's folder.
    ///
    /// # Errors
    /// There is none, it is damaged, or of a newer program.
    pub fn read(folder: &Path) -> Result<Self, BackupError> {
        let path = folder.join(HEADER);
        let not_there = |reason: String| BackupError::NotThere { path: shown(folder), reason };
        let file = regular(&path).map_err(|error| not_there(format!("{HEADER}: {error}")))?;
        let mut text = Vec::new();
        file.take(HEADER_LIMIT + 1).read_to_end(&mut text).map_err(disk("read", &path))?;
        Self::parse(&text, folder)
    }

    /// The same of its text; `folder` is where it was, for people.
    ///
    /// # Errors
    /// It is damaged, or of a newer program.
    pub fn parse(text: &[u8], folder: &Path) -> Result<Self, BackupError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: String,
        }
        let path = folder.join(HEADER);
        if text.len() as u64 > HEADER_LIMIT || json::memory_of(text) > MEMORY_LIMIT {
            let reason = format!("it is longer than a header of {} MiB", HEADER_LIMIT >> 20);
            return Err(BackupError::Damaged { path: shown(&path), reason });
        }
        // serde's texts may show what they read.
        let damaged =
            |error: serde_json::Error| BackupError::Damaged { path: shown(&path), reason: line(&error.to_string()) };
        let Schema { schema } = serde_json::from_slice(text).map_err(damaged)?;
        if schema != SCHEMA {
            let schema = schema.escape_default().take(80).collect();
            return Err(BackupError::Newer { path: shown(&path), schema });
        }
        serde_json::from_slice(text).map_err(damaged)
    }

    /// The key of the archive.
    ///
    /// # Errors
    /// It is sealed for others, or was changed.
    pub fn open(&self, folder: &Path, identity: &OperatorIdentity) -> Result<BackupKey, BackupError> {
        let path = || shown(&folder.join(HEADER));
        let damaged = |error: &dyn std::fmt::Display| BackupError::Damaged { path: path(), reason: error.to_string() };
        let decryptor =
            age_file::decryptor(ArmoredReader::new(self.sealed.as_bytes())).map_err(|error| damaged(&error))?;
        let mut reader = decryptor.decrypt(identity.all()).map_err(|error| match error {
            age::DecryptError::NoMatchingKeys => {
                BackupError::ForOthers { path: shown(folder), for_whom: self.for_whom(), own: identity.recipient() }
            }
            error => damaged(&error),
        })?;
        let mut plain = Zeroizing::new(Vec::new());
        reader.read_to_end(&mut plain).map_err(|error| damaged(&error))?;
        // Whoever knows a recipient's public key can seal anything, and what is inside is denser than it looks outside.
        if json::memory_of(&plain) > MEMORY_LIMIT {
            return Err(damaged(&"what is inside is longer than a header"));
        }
        // serde's texts may show what they read.
        let inside: Inside = serde_json::from_slice(&plain).map_err(|_| damaged(&"what is inside is no document"))?;
        let key = Zeroizing::new(inside.key);
        if inside.schema != self.schema || inside.about != self.about {
            return Err(BackupError::Changed { path: path() });
        }
        x25519::Identity::from_str(&key).map(BackupKey).map_err(|_| damaged(&"its key is none"))
    }

    /// For whom it says it is, in one line.
    fn for_whom(&self) -> String {
        let all = self.about.recipients.iter().map(Recipient::to_string).collect::<Vec<_>>().join(", ");
        line(&all)
    }

    /// Refuses a backup that nobody who is trusted has made: anybody who knows the public keys of its recipients can seal one.
    /// This home is trusted, and whoever has one of the public keys `operators`.
    ///
    /// # Errors
    /// Somebody else made it, or it does not say who.
    pub fn authenticate(
        &self,
        folder: &Path,
        identity: &OperatorIdentity,
        operators: &[String],
    ) -> Result<(), BackupError> {
        let checked = match &self.sender {
            Some(sender) => {
                let checked = sender.check(Sealed::Backup, identity, operators, self.sealed.as_bytes());
                checked.map_err(|why| why.to_string())
            }
            None => Err("it does not say who made it".to_owned()),
        };
        checked.map_err(|why| BackupError::NotAuthenticated { path: shown(folder), why })
    }

    /// Refuses a backup of another cluster: one with another id, or with another name, since hosts say the id and no cluster can be renamed.
    ///
    /// # Errors
    /// It is of another one.
    pub fn check_cluster(&self, folder: &Path, wanted: &str, wanted_id: ClusterId) -> Result<(), BackupError> {
        if self.about.cluster_id == wanted_id && self.about.cluster == wanted {
            return Ok(());
        }
        let (found, found_id) = (self.about.cluster.escape_default().collect(), self.about.cluster_id);
        Err(BackupError::ClusterMismatch { path: shown(folder), found, found_id, wanted: wanted.to_owned(), wanted_id })
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// It is not representable as JSON, which is a fault of the program.
    pub fn to_json(&self) -> Result<String, BackupError> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| BackupError::CannotMake(error.to_string()))
    }
}
